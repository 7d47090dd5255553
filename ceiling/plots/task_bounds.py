"""Tasks: each quantity beside the bound that was written down for it, a row a model and task."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ceiling.plots.style import PAGE, PAPER, blank, colours, marker, open_spines, style

SHOWN = {
    "closable_median": "closable share,\nmedian",
    "headroom_ratio": "p90 of κ̂, retrieval\n/ background",
    "value_aware_share": "value-aware share\nof retrieval rows",
    "auc": "AUC of\ndropped mass",
    "map_agreement": "cells with the\nmain text's label",
}
"""The quantities with a panel, and its title."""

ROW = 0.2
"""Height of a row, inches."""


def task_bounds(table: pl.DataFrame) -> Figure:
    """Draw every quantity with its interval and the side of the bound on which it is to lie.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.task_table`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches.
    """
    rows = table.select("model", "task").unique(maintain_order=True).rows()
    models = table["model"].unique(maintain_order=True).to_list()
    with style():
        figure = blank(PAGE, 1.1 + ROW * len(rows))
        panels = figure.subplots(1, len(SHOWN), squeeze=False, sharey=True)[0]
        for axes, (quantity, title) in zip(panels, SHOWN.items(), strict=True):
            for row in table.filter(quantity=quantity).drop_nulls("value").iter_rows(named=True):
                i = models.index(row["model"])
                look = colours(len(models))[i], marker(i)
                _mark(axes, rows.index((row["model"], row["task"])), row, look)
            _allowed(axes, table.filter(quantity=quantity), rows)
            axes.set_title(title, pad=3)
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            axes.tick_params(axis="y", length=0)
            open_spines(axes)
        panels[0].set_ylim(len(rows) - 0.5, -0.5)
        panels[0].set_yticks(range(len(rows)), [f"{model}, {task}" for model, task in rows])
        handles = [
            Line2D([], [], color="black", marker="o", ms=3.5, mew=0, lw=0.8),
            Line2D([], [], color="black", marker="o", ms=3.5, mfc="white"),
            Patch(facecolor=PAPER, alpha=0.25, lw=0),
        ]
        labels = [
            "value, with 95% interval where there is one",
            "not held",
            "allowed by the registered bound",
        ]
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _mark(axes: Axes, y: int, row: dict, look: tuple[tuple[float, float, float], str]) -> None:
    colour, mark = look
    if row["value_low"] is not None:
        axes.hlines(y, row["value_low"], row["value_high"], color=colour, lw=0.8)
    fill = "white" if row["verdict"] == "not held" else colour
    axes.plot(row["value"], y, ls="", marker=mark, ms=4, color=colour, mfc=fill, mew=0.8)


def _allowed(axes: Axes, frame: pl.DataFrame, rows: list[tuple[str, str]]) -> None:
    """Grey where a value may lie; the axis ends a little beyond everything drawn and every bound."""
    known = (
        frame.select("value", "value_low", "value_high", "bound").unpivot(value_name="x")["x"].drop_nulls()
    )
    low, high = (0.0, 1.0) if known.is_empty() else (float(known.min()), float(known.max()))  # type: ignore[arg-type]
    space = 0.12 * (high - low or 1)
    axes.set_xlim(low - space, high + space)
    for row in frame.drop_nulls("bound").iter_rows(named=True):
        y, edge = (
            rows.index((row["model"], row["task"])),
            low - space if row["side"] == "max" else high + space,
        )
        axes.fill_betweenx([y - 0.5, y + 0.5], edge, row["bound"], color=PAPER, alpha=0.25, lw=0, zorder=0)
