"""Looseness of the pool against depth: a dot an instance, a line the median of neighbouring layers."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.style import PAGE, blank, colours, open_spines, style
from ceiling.plots.whiskers import numbers

ACROSS = 4
"""Panels (count) beside each other."""

FEW = 1000
"""Dots (count) of a panel beyond which they are drawn fainter."""


def looseness_dots(rows: pl.DataFrame, table: pl.DataFrame) -> Figure:
    """Draw by how much better sets undercut the pool's best, layer by layer.

    Parameters
    ----------
    rows : polars.DataFrame
        From `ceiling.analysis.looseness`.
    table : polars.DataFrame
        From `ceiling.analysis.looseness_table` of them.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; a panel a model and budget.
    """
    panels = rows.partition_by("model", "s", maintain_order=True)
    across = min(ACROSS, rows["s"].n_unique())
    down = -(-len(panels) // across)
    with style():
        figure = blank(PAGE, 0.35 + 1.85 * down)
        grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            model, s = panel["model"][0], panel["s"][0]
            _dots(axes, panel)
            _medians(axes, table.filter(model=model, s=s))
            axes.set_title(f"{model}, s = {s}, n = {panel.height:,}", pad=3)
            axes.set_xlabel("layer")
            open_spines(axes)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes in grid[::across]:
            axes.set_ylabel("1 − best known / pool's best")
        drawn = np.concatenate([numbers(rows, "looseness"), numbers(table, "looseness_upper")])
        low, high = np.nanmin(drawn), np.nanmax(drawn)
        grid[0].set_ylim(min(-0.04, low * 1.1), max(0.1, min(1.02, high * 1.1)))
        _legend(figure)
    return figure


def _dots(axes: Axes, panel: pl.DataFrame) -> None:
    """Filled where the interval is closed; where it is not, more may be missing."""
    colour = colours(1)[0]
    alpha = 0.6 if panel.height < FEW else 0.15
    for closed, fill in ((True, colour), (False, "white")):
        mine = panel.filter((pl.col("status") == "optimal") == closed)
        axes.plot(
            mine["layer"],
            mine["looseness"],
            ls="",
            marker="o",
            ms=2.5,
            mfc=fill,
            mec=colour,
            mew=0.5,
            alpha=alpha,
            rasterized=panel.height >= FEW,
        )


def _medians(axes: Axes, bands: pl.DataFrame) -> None:
    """Steps over the layers of each band, at the median of what is known and of what no set exceeds."""
    for name, line in (("looseness", "-"), ("looseness_upper", ":")):
        left, right = bands["first_layer"].to_numpy() - 0.5, bands["last_layer"].to_numpy() + 0.5
        x = np.stack([left, right], axis=1).ravel()
        axes.plot(x, np.repeat(bands[name].to_numpy(), 2), line, color="black", lw=1)


def _legend(figure: Figure) -> None:
    dot: dict[str, Any] = {"color": colours(1)[0], "marker": "o", "ls": "", "ms": 3, "mew": 0.5}
    handles = [
        Line2D([], [], **dot),
        Line2D([], [], **dot, mfc="white"),
        Line2D([], [], color="black"),
        Line2D([], [], color="black", ls=":"),
    ]
    labels = [
        "proved optimal",
        "interval open",
        "median of a band of layers",
        "median of what no set exceeds",
    ]
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
