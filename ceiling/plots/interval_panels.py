"""Proved intervals against dropped mass: a panel a budget, mass floors side by side in every decile."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ceiling.plots.certified_bars import interval_bars, interval_handles, share_axis, spread
from ceiling.plots.style import PAGE, blank, colours, marker, open_spines, style

WIDTH = 0.66
"""What the bars of all floors take of a decile."""


def interval_panels(table: pl.DataFrame) -> Figure:
    """Draw the median interval of every decile.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.interval_table`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; two panels a row.
    """
    panels = table.partition_by("model", "s", maintain_order=True)
    panels = sorted(panels, key=lambda panel: (panel["model"][0], panel["s"][0]))
    floors = table["mass_floor"].unique().sort().to_list()
    rows = (len(panels) + 1) // 2
    with style():
        figure = blank(PAGE, 0.35 + 1.75 * rows)
        grid = figure.subplots(rows, 2, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            for i, (floor, colour) in enumerate(zip(floors, colours(len(floors)), strict=True)):
                mine = panel.filter(mass_floor=floor)
                x = mine["decile"].to_numpy() + WIDTH * ((i + 1 / 2) / len(floors) - 1 / 2)
                interval_bars(axes, x.tolist(), mine, (colour, marker(i)))
            _axes(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        handles, labels = interval_handles(floors)
        figure.legend(handles, labels, loc="outside upper center", ncols=len(floors), frameon=False)
    return figure


def _axes(axes: Axes, panel: pl.DataFrame) -> None:
    deciles = panel.group_by("decile").agg(pl.col("dropped_mass").median()).sort("decile")
    axes.set_xticks(deciles["decile"].to_list(), [_short(mass) for mass in deciles["dropped_mass"]])
    share_axis(axes, float(panel["closable_upper"].max()))  # type: ignore[arg-type]  # measured rows: a number
    axes.set_title(f"{panel['model'][0]}, s = {panel['s'][0]}, n = {spread(panel['n'])} a bar", pad=3)
    axes.set_xlabel("dropped mass, median of its decile")
    open_spines(axes)


def _short(mass: float) -> str:
    """Two digits after the point, or what is below them."""
    return f"{mass:.2f}" if mass >= 0.005 else "<.01"
