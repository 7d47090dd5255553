"""Solving times of the zero-error question: seconds against keys, a panel a number of bits."""

from math import ceil, floor, log10

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from ceiling.plots.style import COLUMN, PAGE, blank, colours, marker, open_spines, style

KEYS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""Labelled numbers of keys."""

SHORTEST = 1e-6
"""Seconds: the clock resolves no shorter ones, and a logarithm needs more than 0."""


def time_lines(table: pl.DataFrame) -> Figure:
    """Draw median and 90th percentile of the seconds, one line an engine.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.solving_times`.

    Returns
    -------
    matplotlib.figure.Figure
        Column width for up to two panels, else page width, inches; a panel a model and number of bits.
    """
    panels = table.partition_by("model", "bits", maintain_order=True)
    engines = table["engine"].unique().sort().to_list()
    across = min(len(panels), 2 if len(panels) <= 2 else 4)
    down = -(-len(panels) // across)
    with style():
        figure = blank(COLUMN if across <= 2 else PAGE, 0.55 + 1.85 * down)
        grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            for i, (engine, colour) in enumerate(zip(engines, colours(len(engines)), strict=True)):
                _line(axes, panel.filter(engine=engine), (colour, marker(i)))
            _axes(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes in grid[::across]:
            axes.set_ylabel("seconds a question")
        grid[0].set_ylim(*_decades(table))
        _legend(figure, engines)
    return figure


def _line(axes: Axes, frame: pl.DataFrame, look: tuple[tuple[float, float, float], str]) -> None:
    """Filled marks at the medians, dotted to the 90th percentile; a cross where any stayed unknown."""
    colour, mark = look
    axes.plot(frame["m_to"], frame["seconds"], "-", color=colour, marker=mark, ms=3.5)
    axes.plot(frame["m_to"], frame["seconds_p90"], ":", color=colour)
    unknown = frame.filter(pl.col("unknown") > 0)
    axes.plot(unknown["m_to"], unknown["seconds_max"], ls="", color=colour, marker="x", ms=4)


def _axes(axes: Axes, panel: pl.DataFrame) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = panel["m_to"].min(), panel["m_to"].max()
    shown = [m for m in KEYS if low <= m <= high]  # type: ignore[operator]
    step = 1 + (len(shown) - 1) // 6
    axes.set_xticks(shown[::step], [str(m) for m in shown[::step]])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=7))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.08)
    axes.set_xlabel("keys left by rounding, up to")
    axes.set_title(f"{panel['model'][0]}, {panel['bits'][0]} bits\nn = {panel['n'].sum():,}", pad=3)
    open_spines(axes)


def _decades(table: pl.DataFrame) -> tuple[float, float]:
    """Whole powers of ten around everything drawn, so that at least two are labelled."""
    low, high = float(table["seconds"].min()), float(table["seconds_max"].max())  # type: ignore[arg-type]
    low = max(low, SHORTEST)
    return 10.0 ** floor(log10(low)), 10.0 ** ceil(log10(max(high, 2 * low)))


def _legend(figure: Figure, engines: list[str]) -> None:
    handles = [
        Line2D([], [], color=colour, marker=marker(i), ms=3.5)
        for i, colour in enumerate(colours(len(engines)))
    ]
    others = [("-", "", "median"), (":", "", "90th percentile"), ("", "x", "longest, some unknown")]
    handles += [Line2D([], [], color="black", ls=ls or "none", marker=mark, ms=4) for ls, mark, _ in others]
    labels = [*engines, *(label for *_, label in others)]
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
