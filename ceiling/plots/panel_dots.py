"""Rows of families as dots or bars in a few narrow panels: tables 2 and 6 as pictures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

ROW = 0.155
"""Height of a row, inches."""

BAR = 4.0
"""Width of a bar from the least to the greatest value, points."""


class Line(NamedTuple):
    """One row: its name, its mark's colour and shape (a heading has none), and its numbers."""

    name: str
    colour: tuple[float, float, float] | str | None
    mark: str
    frame: pl.DataFrame


def panel_dots(ours: pl.DataFrame, paper: pl.DataFrame, panels: Mapping[str, str]) -> Figure:
    """Draw a row a family, ours above the paper's in grey.

    Parameters
    ----------
    ours : polars.DataFrame
        `model` and the quantities, with `_low` and `_high` where they have intervals.
    paper : polars.DataFrame
        `family` and the same.
    panels : mapping of str to str
        Quantities and their titles.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    lines = [
        Line(frame["model"][0], colour, marker(i), frame)
        for i, (frame, colour) in enumerate(zip(ours.iter_slices(1), colours(ours.height), strict=True))
    ]
    lines.append(Line("the paper's", None, "", pl.DataFrame()))
    lines += [Line(frame["family"][0], PAPER, "x", frame) for frame in paper.iter_slices(1)]
    with style():
        figure, grid = _blank(lines, list(panels.values()))
        for axes, quantity in zip(grid, panels, strict=True):
            for y, line in enumerate(lines):
                if line.colour is not None:
                    value = numbers(line.frame, quantity)
                    axes.plot(value, [y], ls="", color=line.colour, marker=line.mark, ms=3.5)
                    whiskers(axes, np.array([y]), line.frame, quantity, line.colour, across=True)
    return figure


def content_bars(ours: pl.DataFrame, paper: pl.DataFrame, panels: Mapping[str, str], family: str) -> Figure:
    """Draw, under every content, the range of each quantity over the budgets.

    Parameters
    ----------
    ours : polars.DataFrame
        `content, model` and each quantity's `_low` and `_high`: the ends of the range.
    paper : polars.DataFrame
        `content` and the same; a missing end is the other one.
    panels : mapping of str to str
        Quantities and their titles.
    family : str
        The family of the paper's rows.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    models = ours["model"].unique(maintain_order=True).sort().to_list()
    looks = dict(zip(models, colours(len(models)), strict=True))
    lines: list[Line] = []
    for content in [*ours["content"].unique(maintain_order=True), *paper["content"]]:
        if any(line.name == content for line in lines):
            continue
        lines.append(Line(content, None, "", pl.DataFrame()))
        for frame in ours.filter(content=content).iter_slices(1):
            name = frame["model"][0]
            lines.append(Line(f"  {name}", looks[name], marker(models.index(name)), frame))
        lines += [
            Line(f"  {family}", PAPER, "x", row) for row in paper.filter(content=content).iter_slices(1)
        ]
    with style():
        figure, grid = _blank(lines, list(panels.values()))
        for axes, quantity in zip(grid, panels, strict=True):
            for y, line in enumerate(lines):
                if line.colour is not None:
                    low, high = (numbers(line.frame, f"{quantity}_{end}") for end in ("low", "high"))
                    ends = np.concatenate(
                        [np.where(np.isnan(low), high, low), np.where(np.isnan(high), low, high)]
                    )
                    axes.plot(ends, [y, y], color=line.colour, lw=BAR, alpha=0.45, solid_capstyle="butt")
                    axes.plot(ends, [y, y], ls="", color=line.colour, marker=line.mark, ms=3.5)
    return figure


def _blank(lines: Sequence[Line], titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Empty panels side by side with the rows' names on the left, headings in italics."""
    figure = blank(COLUMN, 0.75 + ROW * len(lines))
    grid = list(figure.subplots(1, len(titles), sharey=True, squeeze=False).ravel())
    for axes, title in zip(grid, titles, strict=True):
        axes.set_title(title, pad=3)
        axes.xaxis.set_major_locator(MaxNLocator(2 if len(titles) > 2 else 4))
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.12)
        open_spines(axes)
    first = grid[0]
    first.set_yticks(range(len(lines)), [line.name for line in lines])
    first.set_ylim(len(lines) - 0.4, -0.6)
    for label, line in zip(first.get_yticklabels(), lines, strict=True):
        label.set_style("normal" if line.colour is not None else "italic")
        label.set_horizontalalignment("right")
    return figure, grid
