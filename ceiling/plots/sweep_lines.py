"""The widening sweep as a picture: closable share and label rate against the subsets of a pool."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

HEADROOM = 1.15
"""Space above the highest mark, as a factor."""

TICKS = 5
"""Labelled decades of the logarithmic axis, at most."""


def sweep_lines(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw what wider pools add: one line per budget, the paper's default pool filled.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.sweep_table`.
    paper : polars.DataFrame
        `quantity, value`; the range of its `label_rate` is drawn as a band.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    lines = table.partition_by("model", "s", maintain_order=True)
    several = table["model"].n_unique() > 1
    with style():
        figure = blank(COLUMN, 2.3 + 0.15 * len(lines) / 2)
        panels = list(figure.subplots(1, 2))
        rates = paper.filter(quantity="label_rate")["value"]
        panels[1].axhspan(rates.min(), rates.max(), color=PAPER, alpha=0.25, lw=0, zorder=0, label="paper")
        for i, (line, colour) in enumerate(zip(lines, colours(len(lines)), strict=True)):
            name = f"{line['model'][0]}, " if several else ""
            look = (colour, marker(i), f"{name}s = {line['s'][0]}")
            for axes, quantity in zip(panels, ("closable", "label_rate"), strict=True):
                _line(axes, line, quantity, look)
        for axes, title in zip(panels, ("closable share (median)", "share with κ̂ > 1.11"), strict=True):
            _axes(axes, title)
        handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2 if several else 3, frameon=False)
    return figure


def _line(
    axes: Axes, line: pl.DataFrame, quantity: str, look: tuple[tuple[float, float, float], str, str]
) -> None:
    """One budget's pools; the marker is filled where nothing is changed against: the default pool."""
    colour, mark, label = look
    x, y = numbers(line, "subsets"), numbers(line, quantity)
    default = line["default"].to_numpy()
    axes.plot(x, y, "-", color=colour, marker=mark, ms=3.5, mfc="white", label=label)
    axes.plot(x[default], y[default], ls="", color=colour, marker=mark, ms=3.5)
    whiskers(axes, x, line, quantity, colour)


def _axes(axes: Axes, title: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    highest = axes.dataLim.ymax
    axes.set_ylim(0, highest * HEADROOM if 0 < highest < np.inf else 1)
    axes.margins(x=0.08)
    axes.set_xlabel("subsets an instance")
    axes.set_title(title, pad=3)
    open_spines(axes)
