"""Gaps to the best trivial press: a row a press, a mark an arm; alone with points and boxes, or in panels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.audit_looks import ARMS, Look, arm_handle, hatched, looks, ordered, rows_of
from ceiling.plots.style import PAGE, PAPER, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

LINE = 0.13
"""Height of one arm in a row, inches."""

NAMES = 0.25
"""Least height of a row, inches: two lines of a press's name."""

SPREAD = 0.8
"""Share of a row's height that its arms take."""

MARGIN = 1.02
"""Where what stands beside the rows begins, as a share of the panel's width."""

GAP = "mean score − best trivial press's"


def by_arm(verdicts: pl.DataFrame) -> pl.DataFrame:
    """`verdict_table`'s columns of arms as rows: `arm`, `gap` with its ends, `wins`, beside the others."""
    parts = []
    for arm in ARMS:
        name = arm.replace("-", "_")
        if f"{name}_gap" in verdicts.columns:
            ends = {f"gap{end}": f"{name}_gap{end}" for end in ("", "_low", "_high")}
            there = {new: old for new, old in ends.items() if old in verdicts.columns}
            kept = [c for c in ("model", "axis", "label", "press", "role", "cells") if c in verdicts.columns]
            parts.append(verdicts.select(*kept, arm=pl.lit(arm), **there))
    return pl.concat(parts).filter(pl.col("gap").is_not_null())


def flip_plot(verdicts: pl.DataFrame, cells: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw every press's gaps in all cells under each arm, their mean, and what sight of the question adds.

    Parameters
    ----------
    verdicts : polars.DataFrame
        From `ceiling.analysis.audit_verdicts.verdict_table`, one row a label.
    cells : polars.DataFrame
        From `ceiling.analysis.audit_cells.cell_table`, without natural text.
    paper : polars.DataFrame
        Columns as `verdicts`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches.
    """
    means = by_arm(verdicts)
    arms = [arm for arm in ARMS if arm in means["arm"]]
    labels = ordered(means.filter(arm=arms[0]), "gap")
    look = looks(verdicts)
    with style():
        figure = blank(PAGE, 0.7 + _row(len(arms)) * len(labels))
        axes: Any = figure.subplots()
        for y, label in enumerate(labels):
            for aside, arm in zip(_asides(len(arms)), arms, strict=True):
                _boxed(axes, y + aside, cells.filter(label=label, arm=arm), look[label], len(arms))
                mine = means.filter(label=label, arm=arm)
                _mean(axes, y + aside, mine, look[label], arm)
        _paper(axes, labels, arms, by_arm(paper))
        _margin(axes, labels, arms, verdicts)
        _frame(axes, labels)
        axes.set_xlabel(f"{GAP} (share of gold strings; a point a cell)")
        _legend(figure, arms, cells["floor"].any())
    return figure


def gap_panels(panels: dict[str, pl.DataFrame], paper: dict[str, pl.DataFrame], across: int = 3) -> Figure:
    """Draw every press's mean gap under each arm, a panel a name.

    Parameters
    ----------
    panels, paper : dict of polars.DataFrame
        `label, press, role, arm, gap` with its ends (see `by_arm`), by title; an empty frame, of what is at
        the floor, is hatched.
    across : int
        Panels beside each other.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches.
    """
    together = pl.concat(panels.values(), how="diagonal")
    arms = [arm for arm in ARMS if arm in together["arm"]]
    labels = ordered(together.filter(arm=arms[0]), "gap")
    look = looks(together)
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    with style():
        figure = blank(PAGE, 0.45 + down * (0.45 + _row(len(arms)) * len(labels)))
        grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
        for axes, (title, frame) in zip(grid, panels.items(), strict=False):
            for y, label in enumerate(labels):
                for aside, arm in zip(_asides(len(arms)), arms, strict=True):
                    _mean(axes, y + aside, frame.filter(label=label, arm=arm), look[label], arm)
            if title in paper:
                _paper(axes, labels, arms, paper[title])
            if frame.is_empty():
                hatched(axes)
            axes.set_title(f"{title} (floor)" if frame.is_empty() else title, pad=3)
            _frame(axes, labels)
            axes.tick_params(axis="x", labelbottom=True)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.supxlabel(GAP, fontsize=grid[0].xaxis.label.get_fontsize())
        _legend(figure, arms, points=False)
    return figure


def _row(arms: int) -> float:
    return max(NAMES, LINE * arms / SPREAD)


def _asides(arms: int) -> np.ndarray:
    """Where the arms stand in a row, from its middle."""
    return ((np.arange(arms) + 0.5) / arms - 0.5) * SPREAD


def _mean(axes: Axes, y: float, frame: pl.DataFrame, look: Look, arm: str) -> None:
    colour, marker = look.colour, ARMS[arm][0]
    at = np.full(frame.height, y)
    whiskers(axes, at, frame, "gap", colour, across=True)
    fill = colour if look.fill == "full" else "white"
    axes.plot(
        numbers(frame, "gap"), at, ls="", marker=marker, ms=4, color=colour, mfc=fill, mec="black", mew=0.5
    )


def _boxed(axes: Axes, y: float, cells: pl.DataFrame, look: Look, arms: int) -> None:
    """Every cell as a point, hollow at the floor; a box from quartile to quartile of those above it."""
    above, below = (cells.filter(pl.col("floor") == floor)["gap"].to_numpy() for floor in (False, True))
    height = SPREAD / arms * 0.8
    if len(above):
        low, middle, high = np.quantile(above, [0.25, 0.5, 0.75])
        axes.barh(y, high - low, height, low, fc=look.colour, alpha=0.18, lw=0)
        axes.plot([middle, middle], [y - height / 2, y + height / 2], color=look.colour, lw=0.8)
    dots: dict[str, Any] = {"ls": "", "marker": ".", "ms": 2.5, "mew": 0.4, "zorder": 1.2}
    axes.plot(above, np.full(len(above), y), color=look.colour, alpha=0.6, **dots)
    axes.plot(below, np.full(len(below), y), mec="0.6", mfc="white", **dots)


def _paper(axes: Axes, labels: Sequence[str], arms: Sequence[str], paper: pl.DataFrame) -> None:
    for row in paper.iter_rows(named=True):
        if row["label"] in labels and row["arm"] in arms:
            y = labels.index(row["label"]) + _asides(len(arms))[arms.index(row["arm"])]
            axes.plot(row["gap"], y, ls="", marker="x", ms=4, mew=1, color=PAPER, zorder=1.8)


def _frame(axes: Axes, labels: Sequence[str]) -> None:
    axes.axvline(0, color="black", lw=0.6, zorder=0.5)
    rows_of(axes, labels)
    open_spines(axes)


def _margin(axes: Axes, labels: Sequence[str], arms: Sequence[str], verdicts: pl.DataFrame) -> None:
    """Beside each aware arm's mark, by how much sight of the question moves the mean gap."""
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
    above: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 3), "textcoords": "offset points"}
    axes.annotate("Δ, aware − agnostic", (MARGIN, 1), **above)
    for arm, aside in zip(arms, _asides(len(arms)), strict=True):
        delta = f"delta_{arm.replace('-', '_')}"
        for row in verdicts.iter_rows(named=True) if delta in verdicts.columns else ():
            axes.annotate(_signed(row, delta), (MARGIN, labels.index(row["label"]) + aside), **where)


def _signed(row: dict[str, Any], name: str) -> str:
    value, low, high = (row[name + end] for end in ("", "_low", "_high"))
    if value is None:
        return "–"
    text = f"{value:+z.3f}" if low is None else f"{value:+z.3f} [{low:z.2f}, {high:z.2f}]"
    return text.replace("-", "−")


def _legend(figure: Figure, arms: Sequence[str], floor: bool = False, points: bool = True) -> None:
    handles: list[Any] = [arm_handle(arm) for arm in arms]
    for handle in handles:
        handle.set_linestyle("")
    if floor and points:
        handles.append(
            Line2D([], [], ls="", marker=".", ms=4, mew=0.4, mec="0.6", mfc="white", label="floor cell")
        )
    handles.append(Line2D([], [], ls="", marker="x", ms=4, mew=1, color=PAPER, label="paper"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
