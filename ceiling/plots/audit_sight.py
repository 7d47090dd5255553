"""Figure 3: what sight of the question does to every press, beside how visible it is in the score."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.audit_looks import ARMS, arm_handle, looks, rows_of
from ceiling.plots.style import PAGE, PAPER, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

ROW = 0.27
"""Height of a row, inches."""

ASIDE = 0.2
"""How far the readings stand from a row's middle, as a share of its height."""

SIGHT = {3: "last queries", 2: "all queries", 1: "keys only", 0: "nothing"}
"""What a score reads of the question, in words; see `ceiling.analysis.audit_sight.SEES`."""


def sight_dots(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the effect of sight on every press's mean gap, in both readings of aware.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.audit_sight.sight_table`, of one model or all.
    paper : polars.DataFrame
        `label, reading, delta`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches.
    """
    look = looks(table)
    readings = [arm for arm in ARMS if arm in table["reading"]]
    labels = table.filter(reading=readings[0]).sort("delta", descending=True)["label"].to_list()
    asides = dict(zip(readings, (-ASIDE, ASIDE) if len(readings) > 1 else (0.0,), strict=True))
    with style():
        figure = blank(PAGE, 0.8 + ROW * len(labels))
        axes: Any = figure.subplots()
        for row in table.partition_by("reading", "label"):
            label, reading = row["label"][0], row["reading"][0]
            at, own = np.array([labels.index(label) + asides[reading]]), look[label]
            whiskers(axes, at, row, "delta", own.colour, across=True)
            shape: dict[str, Any] = {"marker": ARMS[reading][0], "ms": 4, "mec": "black", "mew": 0.5}
            axes.plot(numbers(row, "delta"), at, ls="", mfc=own.face, **shape)
        for theirs in paper.filter(pl.col("label").is_in(labels)).iter_rows(named=True):
            if theirs["reading"] in asides:
                y = labels.index(theirs["label"]) + asides[theirs["reading"]]
                axes.plot(theirs["delta"], y, ls="", marker="x", ms=4, mew=1, color=PAPER)
        axes.axvline(0, color="black", lw=0.6, zorder=0.5)
        rows_of(axes, labels)
        _margin(axes, labels, table)
        axes.set_xlabel("Δ: mean gap to the best trivial press, aware − agnostic (share of gold strings)")
        open_spines(axes)
        handles = [arm_handle(arm) for arm in readings]
        for handle in handles:
            handle.set_linestyle("")
        handles.append(Line2D([], [], ls="", marker="x", ms=4, mew=1, color=PAPER, label="paper"))
        figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _margin(axes: Axes, labels: list[str], table: pl.DataFrame) -> None:
    """What the score reads of the question, and in how many records that changed the kept set."""
    top: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 3), "textcoords": "offset points"}
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
    columns = {1.03: "score reads", 1.19: "sets changed"}
    for x, heading in columns.items():
        axes.annotate(heading, (x, 1), **top)
    for row in table.unique("label").iter_rows(named=True):
        seen = "–" if row["seen"] is None else f"{row['seen']:.0%}"
        for x, text in zip(columns, (SIGHT.get(row["sight"], "–"), seen), strict=True):
            axes.annotate(text, (x, labels.index(row["label"])), **beside)
