"""Table 1 as a picture: what balancing closes, what is dropped and what gap is left, up to native budgets."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ceiling.plots.profile_lines import DODGE
from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

PANELS = {
    "median_balancing_closure": "closed by balancing (median)",
    "median_dropped_mass": "dropped mass (median)",
    "gap_share_of_s8": "e_top(s) / e_top(8) (median)",
}
"""Quantities and their titles, from above."""

DASHES = ((0, (4, 1.5)), (0, (1, 1)), "-", (0, (4, 1, 1, 1)))
"""One dash pattern per family of the paper, all in its grey."""


def native_lines(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw table 1, a panel a quantity, the paper's families in grey.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.native_table`, of the families to be drawn.
    paper : polars.DataFrame
        `family, quantity, s, value`: the paper's table 1 in long form.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    ours = table.partition_by("model", maintain_order=True)
    families = paper["family"].unique(maintain_order=True).to_list()
    budgets = sorted({*table["s"], *paper["s"]})
    with style():
        figure = blank(COLUMN, 3.75 + 0.15 * ((len(ours) + len(families) + 1) // 2))
        panels = figure.subplots(len(PANELS), 1, sharex=True)
        for axes, (quantity, title) in zip(panels, PANELS.items(), strict=True):
            for family, dash in zip(families, DASHES, strict=False):
                line = paper.filter(family=family, quantity=quantity).sort("s")
                look: dict[str, Any] = {"color": PAPER, "marker": "x", "ms": 3.5, "ls": dash}
                axes.plot(line["s"], numbers(line, "value"), label=f"paper, {family}", **look)
            for i, (frame, colour) in enumerate(zip(ours, colours(len(ours)), strict=True)):
                s = frame["s"].to_numpy() * DODGE ** (i - (len(ours) - 1) / 2)
                y, name = numbers(frame, quantity), frame["model"][0]
                axes.plot(s, y, color=colour, marker=marker(i), ms=3.5, label=name)
                whiskers(axes, s, frame, quantity, colour)
            _axes(axes, budgets, title)
        panels[-1].set_xlabel("budget s (keys kept)")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, handlelength=2.6)
    return figure


def _axes(axes: Axes, budgets: list[int], title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(s) for s in budgets])
    axes.xaxis.set_minor_locator(NullLocator())
    highest = axes.dataLim.ymax
    lowest = min(0.0, axes.dataLim.ymin)
    if not np.isfinite(highest) or highest <= lowest:
        lowest, highest = 0.0, 1.0
    room = 0.08 * (highest - lowest)
    axes.set_ylim(lowest - room, highest + room)
    axes.set_title(title, pad=3)
    axes.margins(x=0.05)
    open_spines(axes)
