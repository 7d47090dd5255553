"""Table 1: scores of the full cache by axis, a mark a model, the floor hatched, the paper's in grey."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ceiling.plots.audit_looks import HATCH
from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers


def anchor_dots(table: pl.DataFrame, paper: pl.DataFrame, floor: float) -> Figure:
    """Draw the full cache's score by axis and model.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.audit_cells.anchor_table`.
    paper : polars.DataFrame
        `model, axis, anchor`.
    floor : float
        Score below which no rank is claimed.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    axes_names = [*dict.fromkeys([*paper["axis"], *table["axis"]])]
    models = table["model"].unique(maintain_order=True).to_list()
    with style():
        figure = blank(COLUMN, 2.2)
        axes: Any = figure.subplots()
        axes.axhspan(0, floor, fc="none", ec="0.8", hatch=HATCH, lw=0, zorder=0)
        theirs = paper["model"].unique(maintain_order=True).to_list()
        places = len(models) + len(theirs)
        for i, (model, colour) in enumerate(zip(models, colours(len(models)), strict=True)):
            mine = table.filter(model=model)
            at = np.array([axes_names.index(axis) for axis in mine["axis"]]) + _aside(i, places)
            whiskers(axes, at, mine, "anchor", colour)
            axes.plot(at, numbers(mine, "anchor"), ls="", marker=marker(i), ms=4, mew=0, color=colour)
        for i, model in enumerate(theirs, start=len(models)):
            rows = paper.filter(model=model)
            at = np.array([axes_names.index(axis) for axis in rows["axis"]]) + _aside(i, places)
            axes.plot(at, rows["anchor"], ls="", marker="x", ms=4, mew=1, color=PAPER)
        axes.set_xticks(range(len(axes_names)), axes_names)
        axes.set_xlim(-0.5, len(axes_names) - 0.5)
        axes.set_ylim(0, 1.04)
        axes.set_ylabel("full cache's score (share of gold)")
        open_spines(axes)
        _legend(figure, models, floor)
    return figure


def _aside(i: int, places: int) -> float:
    return 0.7 * ((i + 0.5) / places - 0.5)


def _legend(figure: Figure, models: list[str], floor: float) -> None:
    handles: list[Any] = [
        Line2D([], [], ls="", marker=marker(i), ms=4, mew=0, color=colour, label=model)
        for i, (model, colour) in enumerate(zip(models, colours(len(models)), strict=True))
    ]
    handles.append(Line2D([], [], ls="", marker="x", ms=4, mew=1, color=PAPER, label="paper's models"))
    handles.append(Patch(fc="none", ec="0.8", hatch=HATCH, lw=0, label=f"floor, below {floor}"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, handlelength=1.2)
