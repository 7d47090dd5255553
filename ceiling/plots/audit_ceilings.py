"""Ceilings beside scores: how far kept sets are from top-mass, and what their answers score."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

from ceiling.plots.audit_looks import ARMS, Look, looks, ordered, press_handle
from ceiling.plots.style import PAGE, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Labelled ratios (dimensionless)."""

FAINT = 0.4
"""Opacity of intervals (of 1): there are two to a mark, and forty marks."""

TICK = 0.03
"""Height of the ticks of balancing (share of the panel's)."""

BALANCING: dict[str, Any] = {"marker": "|", "ls": "", "ms": 6, "mew": 0.6, "color": "black"}
"""Its ticks: one colour, as a set that balances is no press's."""

MOST_TICKS = 6
"""Labels (count) that fit below a panel."""


def ceiling_dots(table: pl.DataFrame) -> Figure:
    """Draw mean scores against the median error over the top-mass set's.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.audit_join.ceiling_scores`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; for each model, a row the question's and one the answer's attention rows, a panel
        an arm. A press's budgets are joined, larger marks keep more. Ticks along the bottom: balancing, where
        it was taken.
    """
    rows = table.select("model", "rows_of").unique().sort("model", "rows_of", descending=[False, True]).rows()
    several = table["model"].n_unique() > 1
    arms = [arm for arm in ARMS if arm in table["arm"]]
    labels, look = ordered(table, "score"), looks(table)
    with style():
        figure = blank(PAGE, 0.95 + 2.1 * len(rows))
        grid: Any = figure.subplots(len(rows), len(arms), squeeze=False, sharex=True, sharey=True)
        for line, (model, kind) in zip(grid, rows, strict=True):
            for axes, arm in zip(line, arms, strict=True):
                mine = table.filter(model=model, rows_of=kind, arm=arm)
                for label in labels:
                    _press(axes, mine.filter(label=label), look[label])
                axes.set_title(f"{model}\n{arm}, {kind} rows" if several else f"{arm}, {kind} rows", pad=3)
                _balancing(axes, mine["balance_over_top"].drop_nulls())
                axes.axvline(1, color="black", lw=0.6, zorder=0.5)
                axes.tick_params(labelbottom=True)
                open_spines(axes)
            line[0].set_ylabel("mean score (share of gold)")
        _scale(grid[0, 0], table)
        words = "error of the kept set / top-mass set's (median over instances and layers)"
        figure.supxlabel(words, fontsize=grid[0, 0].xaxis.label.get_fontsize())
        handles = [press_handle(label, look[label]) for label in labels]
        if table["balance_over_top"].count():
            handles.append(Line2D([], [], label="balancing", **BALANCING))
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _balancing(axes: Axes, ratios: pl.Series) -> None:
    """A tick a press and budget, along the bottom."""
    axes.plot(ratios, np.full(len(ratios), TICK), transform=axes.get_xaxis_transform(), **BALANCING)


def _press(axes: Axes, mine: pl.DataFrame, look: Look) -> None:
    """Budgets from the most kept, whose mark is largest, to the least."""
    x, y = numbers(mine, "error_over_top"), numbers(mine, "score")
    faint = to_rgba(look.colour, FAINT)
    whiskers(axes, x, mine, "score", faint)
    whiskers(axes, y, mine, "error_over_top", faint, across=True)
    axes.plot(x, y, lw=0.6, ls=look.mark()["ls"], color=look.colour)
    for at, size in zip(np.stack([x, y], axis=1), np.linspace(5, 2.5, len(x)), strict=True):
        axes.plot(*at, **{**look.mark(size), "ls": ""})


def _scale(axes: Axes, table: pl.DataFrame) -> None:
    """A logarithmic axis with round labels over what there is."""
    ends = [table[f"error_over_top{end}"].drop_nulls() for end in ("", "_low", "_high")]
    known = np.concatenate([end.to_numpy() for end in (*ends, table["balance_over_top"].drop_nulls())])
    axes.set_xscale("log")
    low, high = min(0.8, known.min(initial=1)), max(2.1, known.max(initial=1))
    axes.set_xlim(low / 1.05, high * 1.1)
    shown = [tick for tick in TICKS if low <= tick <= high * 1.1]
    axes.xaxis.set_major_locator(FixedLocator(shown[:: -(-len(shown) // MOST_TICKS)]))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
