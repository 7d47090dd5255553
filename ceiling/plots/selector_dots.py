"""Figure 3: how far every selector is from the pool's best, a row a selector, a mark a budget."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

from ceiling.plots.style import COLUMN, PAGE, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

READINGS = ("per-query", "cache")
"""The panels of a model, from left to right."""

COLUMN_MODELS = 2
"""Models (count) that stand above each other in a column; more take the page's width, two abreast."""

ROW, LINE = 0.22, 0.12
"""Least height of a selector's row, and that of a line of its name, inches."""

TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Labelled ratios (dimensionless); where they would touch, fewer are."""

MOST_TICKS = 4
"""Labels (count) that fit below a panel of half a column."""


def selector_dots(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the median excess of every selector, reading and budget.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.selector_table`, rows with an `excess`, and a column `kind`.
    paper : polars.DataFrame
        `quantity, s, low, high`: the range `excess_` and a kind is drawn as a band behind the selectors of
        that kind that have a mark at this budget.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, page width for more than two models, inches; a pair of panels a model.
    """
    models = table.partition_by("model", maintain_order=True)
    selectors = table["selector"].unique(maintain_order=True).to_list()
    budgets = table["s"].unique().sort().to_list()
    abreast = 1 if len(models) <= COLUMN_MODELS else 2
    down = -(-len(models) // abreast)
    row = max(ROW, LINE * (1 + max(name.count("\n") for name in map(_lines, selectors))))
    with style():
        figure = blank(COLUMN if abreast == 1 else PAGE, 0.75 + down * (0.6 + row * len(selectors)))
        grid: Any = figure.subplots(down, 2 * abreast, squeeze=False, sharex=True, sharey=True)
        panels = grid.reshape(-1, 2)
        for pair, frame in zip(panels, models, strict=False):
            for axes, reading in zip(pair, READINGS, strict=True):
                _bands(axes, selectors, frame.filter(reading=reading), paper)
                for i, (s, colour) in enumerate(zip(budgets, colours(len(budgets)), strict=True)):
                    aside = (i + 1) / (len(budgets) + 1) - 1 / 2
                    mine = frame.filter(reading=reading, s=s)
                    y = [selectors.index(name) + aside for name in mine["selector"]]
                    _marks(axes, y, mine, (colour, marker(i)))
                axes.set_title(reading, pad=3)
            rests_on = frame.filter(pl.col("n") == pl.col("n").max())
            pair[0].set_xlabel(f"{frame['model'][0]}:", loc="right")
            pair[1].set_xlabel(f"{rests_on['documents'][0]} documents, n ≤ {rests_on['n'][0]:,}", loc="left")
        for pair in panels[len(models) :]:
            for axes in pair:
                axes.set_visible(False)
        _axes(grid, selectors, table)
        _legend(figure, budgets)
    return figure


def _marks(
    axes: Axes, y: list[float], frame: pl.DataFrame, look: tuple[tuple[float, float, float], str]
) -> None:
    colour, mark = look
    whiskers(axes, np.array(y), frame, "excess", colour, across=True)
    axes.plot(numbers(frame, "excess"), y, ls="", color=colour, marker=mark, ms=3, mew=0)


def _bands(axes: Axes, selectors: list[str], frame: pl.DataFrame, paper: pl.DataFrame) -> None:
    ranges = {(row["quantity"], row["s"]): (row["low"], row["high"]) for row in paper.iter_rows(named=True)}
    for name, kind, s in frame.drop_nulls("excess").select("selector", "kind", "s").iter_rows():
        if band := ranges.get((f"excess_{kind}", s)):
            y = selectors.index(name)
            axes.fill_betweenx([y - 0.5, y + 0.5], *band, color=PAPER, alpha=0.25, lw=0.6, zorder=0)


def _axes(grid: Any, selectors: list[str], table: pl.DataFrame) -> None:
    first = grid[0, 0]
    first.set_xscale("log")
    reach = table.select(pl.max_horizontal("excess", "excess_high").max()).item() or 2
    least = table.select(pl.min_horizontal("excess", "excess_low").min()).item() or 1
    first.set_xlim(min(0.93, least / 1.07), max(2.5, 1.15 * reach))
    shown = [tick for tick in TICKS if tick <= first.get_xlim()[1]]
    step = -(-len(shown) // MOST_TICKS)
    first.xaxis.set_major_locator(FixedLocator(shown[::step]))
    first.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    first.xaxis.set_minor_locator(NullLocator())
    first.xaxis.set_minor_formatter(NullFormatter())
    first.set_ylim(len(selectors) - 0.5, -0.5)
    first.set_yticks(range(len(selectors)), [*map(_lines, selectors)])
    for axes in grid.ravel():
        axes.axvline(1, color="black", lw=0.6, zorder=0.5)
        for y in range(1, len(selectors)):
            axes.axhline(y - 0.5, color="0.85", lw=0.4, zorder=0)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelbottom=True)
        open_spines(axes)


def _lines(selector: str) -> str:
    """A selector's name, each of its parameters on a line of its own."""
    return selector.replace(":", ":\n").replace(",", ",\n")


def _legend(figure: Figure, budgets: list[int]) -> None:
    handles: list[Any] = [
        Line2D([], [], color=colour, marker=marker(i), ms=3, mew=0, lw=0.8)
        for i, colour in enumerate(colours(len(budgets)))
    ]
    handles.append(Patch(facecolor=PAPER, alpha=0.25, lw=0))
    labels = [f"s = {s}" for s in budgets]
    figure.legend(
        handles,
        [*labels, "paper, s = 8"],
        loc="outside upper center",
        ncols=3,
        frameon=False,
        handlelength=1.4,
        title="error / pool's best (median)",
    )
