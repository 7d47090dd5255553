"""Figure 1: per model and budget, what the pool optimum leaves of top-mass's error and what it closes."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ceiling.plots.style import COLUMN, PAGE, PAPER, blank, colours, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

BARS_PER_COLUMN = 12
"""Bars (count) beyond which the figure takes the width of the page."""

LEAST_BARS = 3
"""Bars (count) the x-axis always has room for, so that a single budget is no wall."""

HEADROOM = 1.2
"""Space above the tallest mark, as a factor."""


def ceiling_bars(table: pl.DataFrame, reference: pl.DataFrame) -> Figure:
    """Draw the ceiling: the whole error above, the closable share enlarged below.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.ceiling_table`.
    reference : polars.DataFrame
        `quantity, s, low, high`; the row `closable` is drawn as a band.

    Returns
    -------
    matplotlib.figure.Figure
        Column width (page width beyond twelve bars), inches.
    """
    models = table["model"].unique(maintain_order=True).to_list()
    groups = [table.filter(model=model) for model in models]
    starts = np.cumsum([0, *(g.height + 1 for g in groups)])
    palette = colours(len(models))
    with style():
        wide = table.height > BARS_PER_COLUMN
        figure = blank(PAGE if wide else COLUMN, 3.1 + (0.12 if wide else 0.24) * len(models))
        whole, zoom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
        _band(zoom, reference)
        for group, start, colour in zip(groups, starts, palette, strict=False):
            x = start + np.arange(group.height)
            _block(whole, x, group, colour)
            _closable(zoom, x, group, colour)
            whole.annotate(
                group["model"][0],
                (x.mean(), 1),
                (0, 2),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
            )
        _axes(whole, zoom, groups, starts)
        notes = "\n".join(_note(group, " " if wide else "\n") for group in groups)
        zoom.set_xlabel(f"budget s (keys kept)\n{notes}")
        _legend(figure)
    return figure


def _block(axes: Axes, x: np.ndarray, group: pl.DataFrame, colour: tuple[float, float, float]) -> None:
    ratio, closable = numbers(group, "ratio"), numbers(group, "closable")
    axes.bar(x, ratio, 0.8, color=colour, edgecolor="black", linewidth=0.5)
    axes.bar(x, closable, 0.8, bottom=ratio, color="white", edgecolor="black", linewidth=0.5, hatch="/////")


def _closable(axes: Axes, x: np.ndarray, group: pl.DataFrame, colour: tuple[float, float, float]) -> None:
    axes.bar(x, numbers(group, "closable"), 0.8, color="none", edgecolor=colour, linewidth=0.8, hatch="/////")
    whiskers(axes, x, group, "closable", "black")
    axes.plot(x, numbers(group, "closable_balance"), "D", ms=3.5, mfc="white", mec="black", mew=0.8, zorder=4)


def _band(axes: Axes, reference: pl.DataFrame) -> None:
    for row in reference.filter(quantity="closable").iter_rows(named=True):
        axes.axhspan(row["low"], row["high"], color=PAPER, alpha=0.25, lw=0, zorder=0)


def _axes(whole: Axes, zoom: Axes, groups: list[pl.DataFrame], starts: np.ndarray) -> None:
    ticks = np.concatenate([start + np.arange(g.height) for start, g in zip(starts, groups, strict=False)])
    zoom.set_xticks(ticks, [str(s) for g in groups for s in g["s"]])
    whole.tick_params(axis="x", length=0)
    whole.set_ylim(0, 1)
    whole.set_ylabel("error / top-mass's\n(median)")
    zoom.set_ylim(0, zoom.dataLim.ymax * HEADROOM or 1)
    zoom.set_ylabel("closable share (median)")
    middle = ticks.mean()
    reach = max(np.ptp(ticks) / 2, LEAST_BARS / 2) + 0.6
    zoom.set_xlim(middle - reach, middle + reach)
    for axes in (whole, zoom):
        open_spines(axes)


def _note(group: pl.DataFrame, gap: str) -> str:
    counts = group["n"].to_list()
    low, high = min(counts), max(counts)
    n = f"{low:,}" if low == high else f"{low:,}–{high:,}"
    whiskers = "whiskers 95%" if group["closable_low"].is_not_null().any() else "too few for whiskers"
    return f"{group['model'][0]}: {group['documents'][0]} documents, {whiskers},{gap}n = {n} instances a bar"


def _legend(figure: Figure) -> None:
    handles = [
        Patch(facecolor="0.6", edgecolor="black", lw=0.5),
        Patch(facecolor="white", edgecolor="black", lw=0.5, hatch="/////"),
        Line2D([], [], marker="D", ls="", ms=3.5, mfc="white", mec="black", mew=0.8),
        Patch(facecolor=PAPER, alpha=0.25, lw=0),
    ]
    labels = ["pool optimum", "closable", "closed by balancing", "paper's family medians"]
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, handlelength=1.6)
