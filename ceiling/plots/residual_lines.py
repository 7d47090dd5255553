"""The value-side residual as a picture: what each side explains, layer by layer, and what balancing pays."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ceiling.plots.style import PAGE, blank, colours, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

LINES = {"mass": ("o", ":"), "values": ("s", "--"), "both": ("D", "-")}
"""Marker and line of each side."""

PARTS = {"mass_part": "mass", "offset_part": "values", "gain": "both"}
"""The side that each part of balancing's gain is of."""

ASIDE = 0.08
"""Room right of the layers for all of them together, as a share of their number."""

LOWEST = -0.5
"""R² (dimensionless) at which the axis ends below; fits of few rows may be worse without limit."""


def residual_lines(residual: pl.DataFrame, split: pl.DataFrame) -> Figure:
    """Draw the R² of the three fits against the layer, and the medians of balancing's gain below.

    Parameters
    ----------
    residual, split : polars.DataFrame
        From `ceiling.analysis.residual`; `split` may be empty, and is drawn at the budgets of `residual`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; a column a budget, one or two rows a model. Right of the layers, with whiskers,
        all of them together.
    """
    models = residual["model"].unique(maintain_order=True).to_list()
    budgets = residual["s"].unique().sort().to_list()
    frames = [(residual, {side: side for side in LINES}, "R²")]
    frames += [] if split.is_empty() else [(split, PARTS, "balancing, log ratio")]
    with style():
        figure = blank(PAGE, 0.45 + 1.45 * len(models) * len(frames))
        grid: Any = figure.subplots(
            len(models) * len(frames), len(budgets), squeeze=False, sharex="row", sharey="row"
        )
        for i, model in enumerate(models):
            for j, (frame, sides, quantity) in enumerate(frames):
                row = grid[i * len(frames) + j]
                for axes, s in zip(row, budgets, strict=True):
                    _lines(axes, frame.filter(model=model, s=s), sides)
                    axes.set_title(f"{model}, s = {s}" if j == 0 else "", pad=3)
                    open_spines(axes)
                row[0].set_ylabel(quantity)
                if j == 0:
                    row[0].set_ylim(max(LOWEST, row[0].get_ylim()[0]), None)
        for axes in grid[-1]:
            axes.set_xlabel("layer, then all")
        handles, _ = grid[0, 0].get_legend_handles_labels()
        labels = ["mass", "values (below: offset)", "both (below: the gain)"]
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _lines(axes: Axes, frame: pl.DataFrame, sides: dict[str, str]) -> None:
    layers, whole = frame.drop_nulls("layer").sort("layer"), frame.filter(pl.col("layer").is_null())
    last = float(layers["layer"].max() or 0)  # type: ignore[arg-type]
    axes.axhline(0, color="black", lw=0.5, zorder=0.5)
    for i, ((quantity, side), colour) in enumerate(zip(sides.items(), colours(len(sides)), strict=True)):
        mark, line = LINES[side]
        axes.plot(layers["layer"], numbers(layers, quantity), ls=line, color=colour, lw=0.9, label=side)
        place = last + (2 + i) * max(1.0, ASIDE * last)
        at = np.full(whole.height, place)
        whiskers(axes, at, whole, quantity, colour)
        axes.plot(at, numbers(whole, quantity), ls="", marker=mark, ms=3, mew=0, color=colour)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
