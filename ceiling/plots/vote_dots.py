"""Group vote: the price of a shared kept set, a group of marks a model, ordered by heads that share."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ceiling.plots.style import COLUMN, PAGE, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

LETTERS = 48
"""Letters (count) of models' names that fit beside each other in a column; more take the page's width."""

BAND_BUDGET = 8
"""Budget (keys) of the paper's numbers."""


def vote_dots(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the median cost of the shared set.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.group_vote_table`.
    paper : polars.DataFrame
        `quantity, low, high`; the row `cost` is drawn as a band.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, page width where the names need it, inches.
    """
    groups = table.sort("group", "model").partition_by("model", "group", maintain_order=True)
    budgets = table["s"].unique().sort().to_list()
    with style():
        widest = max(len("heads share   "), *(len(group["model"][0]) + 2 for group in groups))
        figure = blank(COLUMN if widest * len(groups) <= LETTERS else PAGE, 2.6)
        axes = figure.subplots()
        for low, high in paper.filter(quantity="cost").select("low", "high").iter_rows():
            axes.axhspan(low, high, color=PAPER, alpha=0.25, lw=0, zorder=0)
        for x, group in enumerate(groups):
            _marks(axes, x, group, budgets)
        axes.axhline(1, color="black", lw=0.6, zorder=0.5)
        axes.set_xticks(range(len(groups)), [_note(group) for group in groups])
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.margins(y=0.08)
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("shared set's error\n/ own top-mass error (median)")
        open_spines(axes)
        _legend(figure, budgets)
    return figure


def _marks(axes: Axes, x: int, group: pl.DataFrame, budgets: list[int]) -> None:
    for i, (s, colour) in enumerate(zip(budgets, colours(len(budgets)), strict=True)):
        mine, at = group.filter(s=s), x + 0.7 * ((i + 1) / (len(budgets) + 1) - 0.5)
        whiskers(axes, np.full(mine.height, at), mine, "cost", colour)
        axes.plot(
            [at] * mine.height, numbers(mine, "cost"), ls="", color=colour, marker=marker(i), ms=3.5, mew=0
        )


def _note(group: pl.DataFrame) -> str:
    model, heads, documents = group.select("model", "group", "documents").row(0)
    return f"{model}\n{heads} heads share\n{documents} documents\nn ≤ {max(group['n'].to_list()):,}"


def _legend(figure: Figure, budgets: list[int]) -> None:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=colour, marker=marker(i), ms=3.5, mew=0, lw=0.8)
        for i, colour in enumerate(colours(len(budgets)))
    ]
    handles.append(Patch(facecolor=PAPER, alpha=0.25, lw=0))
    labels = [*(f"s = {s}" for s in budgets), f"paper, s = {BAND_BUDGET}"]
    figure.legend(
        handles, labels, loc="outside upper center", ncols=3, frameon=False, handlelength=1.4, columnspacing=1
    )
