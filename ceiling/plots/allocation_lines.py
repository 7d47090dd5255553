"""Allocation: the error under each spread of one total budget over the uniform one's, against the budget."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ceiling.plots.profile_lines import DODGE
from ceiling.plots.style import COLUMN, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers


def allocation_lines(table: pl.DataFrame) -> Figure:
    """Draw the median ratio of summed errors, of plain sums and of sums in units of σ.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.allocation_table`.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches; two panels a model.
    """
    models = table.partition_by("model", maintain_order=True)
    names = table["allocation"].unique(maintain_order=True).to_list()
    with style():
        figure = blank(COLUMN, 0.35 + 1.75 * len(models))
        grid = figure.subplots(len(models), 2, squeeze=False, sharey="row")
        for line, frame in zip(grid, models, strict=True):
            for axes, quantity in zip(line, ("median", "median_scaled"), strict=True):
                for i, (name, colour) in enumerate(zip(names, colours(len(names)), strict=True)):
                    aside = DODGE ** (i - (len(names) - 1) / 2)
                    _line(axes, frame.filter(allocation=name), quantity, aside, (colour, marker(i)))
                _axes(axes, frame["s"].unique().sort().to_list())
            line[0].set_title("plain sums", pad=3)
            line[1].set_title("sums in units of σ", pad=3)
            line[0].set_ylabel("Σ error / uniform's\n(median)")
            n, documents = max(frame["n"].to_list()), frame["documents"][0]
            line[0].set_xlabel(f"budget s\n{frame['model'][0]}:", loc="right")
            line[1].set_xlabel(f"(mean keys a head)\n{documents} documents, n ≤ {n:,}", loc="left")
        handles = [
            Line2D([], [], color=colour, marker=marker(i), ms=3.5, mew=0)
            for i, colour in enumerate(colours(len(names)))
        ]
        figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _line(
    axes: Axes, frame: pl.DataFrame, quantity: str, aside: float, look: tuple[tuple[float, float, float], str]
) -> None:
    colour, mark = look
    x = frame["s"].to_numpy() * aside
    whiskers(axes, x, frame, quantity, colour)
    axes.plot(x, numbers(frame, quantity), color=colour, marker=mark, ms=3.5, mew=0)


def _axes(axes: Axes, budgets: list[int]) -> None:
    axes.axhline(1, color="black", lw=0.6, zorder=0.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(s) for s in budgets])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.12, y=0.08)
    open_spines(axes)
