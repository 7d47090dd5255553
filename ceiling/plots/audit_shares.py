"""Score against held bytes, the figure the paper lacks: a line a press, a panel an arm."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.audit_looks import ARMS, Look, looks, ordered, press_handle
from ceiling.plots.style import PAGE, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

DODGE = 0.45
"""How far apart presses of the same bytes stand, percent of the full cache."""


def share_lines(table: pl.DataFrame) -> Figure:
    """Draw mean scores against the bytes held after eviction.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.audit_bytes.bytes_table`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; a row a model, a panel an arm.
    """
    models = table["model"].unique(maintain_order=True).to_list()
    arms = [arm for arm in ARMS if arm in table["arm"]]
    presses = table.filter(pl.col("role") != "anchor")
    labels, look = ordered(presses, "score"), looks(presses)
    with style():
        figure = blank(PAGE, 0.9 + 2.3 * len(models))
        grid: Any = figure.subplots(len(models), len(arms), squeeze=False, sharex=True, sharey=True)
        for line, model in zip(grid, models, strict=True):
            for axes, arm in zip(line, arms, strict=True):
                mine = table.filter(model=model, arm=arm)
                _anchor(axes, mine.filter(role="anchor"))
                for i, label in enumerate(labels):
                    aside = (i - (len(labels) - 1) / 2) * DODGE
                    _press(axes, mine.filter(label=label).sort("held_share"), look[label], aside)
                axes.set_title(f"{model}, {arm}" if len(models) > 1 else arm, pad=3)
                axes.tick_params(labelbottom=True)
                open_spines(axes)
            line[0].set_ylabel("mean score (share of gold)")
        grid[0, 0].set_xlim(0, 104)
        fontsize = grid[0, 0].xaxis.label.get_fontsize()
        figure.supxlabel("held bytes after eviction (% of the full cache, measured)", fontsize=fontsize)
        handles = [press_handle(label, look[label]) for label in labels]
        handles.append(Line2D([], [], color="black", lw=1, label="full cache"))
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _anchor(axes: Axes, anchor: pl.DataFrame) -> None:
    """The full cache as a line, its interval as a band."""
    for row in anchor.iter_rows(named=True):
        axes.axhline(row["score"], color="black", lw=1, zorder=1)
        if row["score_low"] is not None:
            axes.axhspan(row["score_low"], row["score_high"], color="0.9", lw=0, zorder=0)


def _press(axes: Axes, mine: pl.DataFrame, look: Look, aside: float) -> None:
    at = 100 * mine["held_share"].to_numpy() + aside
    whiskers(axes, at, mine, "score", look.colour)
    axes.plot(at, numbers(mine, "score"), lw=0.7, **look.mark())
