"""Figure 2: one cell, every press's score without and with sight of the question, joined by a line."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.audit_looks import ARMS, arm_handle, lines, looks, rows_of
from ceiling.plots.style import COLUMN, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

ROW = 0.25
"""Height of a row, inches."""

ASIDE = 0.17
"""How far the arms stand from a row's middle, as a share of its height."""


def sharp_dots(cell: pl.DataFrame) -> Figure:
    """Draw the cell in which sight of the question changes a verdict most.

    Parameters
    ----------
    cell : polars.DataFrame
        From `ceiling.analysis.audit_flips.sharp_cell`.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    look = looks(cell)
    arms = [arm for arm in ARMS if arm in cell["arm"]]
    first = cell.filter(arm=arms[0]).sort("score", "label", descending=[True, False])
    labels, anchor = first["label"].to_list(), cell["anchor"][0]
    with style():
        figure = blank(COLUMN, 1.0 + ROW * len(labels))
        axes: Any = figure.subplots()
        scores = []
        for arm, aside in zip(arms, (-ASIDE, ASIDE), strict=True):
            mine = cell.filter(arm=arm)
            place = {label: i + aside for i, label in enumerate(labels)}
            y = pl.col("label").replace_strict(place, return_dtype=pl.Float64)
            mine = mine.with_columns(y=y).sort("y")
            scores.append(mine.select("score", "y").to_numpy())
            for row in mine.partition_by("label"):
                own = look[row["label"][0]]
                whiskers(axes, row["y"].to_numpy(), row, "score", own.colour, across=True)
                shape: dict[str, Any] = {"marker": ARMS[arm][0], "ms": 4, "mec": "black", "mew": 0.5}
                axes.plot(numbers(row, "score"), row["y"], ls="", mfc=own.face, **shape)
            target = mine.filter(pl.col("label") == pl.col("target"))["score"][0]
            axes.axvline(target, color="0.3", lw=0.8, ls=ARMS[arm][1], zorder=0.5)
        for ends in np.stack(scores, axis=1):
            axes.plot(*ends.T, color="0.6", lw=0.6, zorder=1)
        axes.axvline(anchor, color="black", lw=1.2, zorder=0.4)
        rows_of(axes, labels)
        for tick, label in zip(axes.get_yticklabels(), labels, strict=True):
            tick.set_fontweight("bold" if label == cell["flipped"][0] else "normal")
        axes.set_xlabel(f"mean score: {cell['axis'][0]}, {cell['budget'][0]}\n{lines(cell['model'][0])}")
        open_spines(axes)
        _legend(figure, arms)
    return figure


def _legend(figure: Figure, arms: list[str]) -> None:
    handles = [arm_handle(arm) for arm in arms]
    for handle, arm in zip(handles, arms, strict=True):
        handle.set_label(f"{arm}; line: best trivial")
    handles.append(Line2D([], [], color="black", lw=1.2, label="full cache"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, handlelength=2.4)
