"""Figure 2: the map of a model's attention, layer by head, as dropped mass and as distance from the best."""

from typing import Any

import numpy as np
import polars as pl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ceiling.plots.style import COLUMN, PAGE, blank, style

SCALE_QUANTILE = 0.98
"""Share of the cells whose kappa the colours resolve; the few above take the darkest."""

LOW, HIGH = 0.75, 1.6
"""Least and greatest height of one map, inches."""

LEAST_SCALE = 1.01
"""Least upper end of the colours of kappa (dimensionless), for a map without any difference."""

STACKED = 2
"""Models (count) up to which the maps stand above each other in one column."""

NO_CELL = "0.85"
"""Grey level of a cell without a measured row."""


def cell_maps(cells: pl.DataFrame, table: pl.DataFrame) -> Figure:
    """Draw two heat maps per model: median dropped mass, and median kappa with the flat cells dotted.

    Parameters
    ----------
    cells : polars.DataFrame
        From `ceiling.analysis.cell_map`.
    table : polars.DataFrame
        From `ceiling.analysis.map_table`, for budget and counts.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches (page width beyond two models); the height follows the number of heads.
    """
    models = table["model"].to_list()
    top = cells["kappa"].quantile(SCALE_QUANTILE, "linear")
    top = max(LEAST_SCALE, top or LEAST_SCALE)
    heights = [_height(cells.filter(model=model)) for model in models]
    stacked = len(models) <= STACKED
    shape = (2 * len(models), 1) if stacked else (len(models), 2)
    heights = [h for h in heights for _ in range(2 if stacked else 1)]
    with style():
        figure = blank(COLUMN if stacked else PAGE, sum(heights) + 0.5 * len(heights))
        grid = figure.subplots(*shape, height_ratios=heights, squeeze=False).ravel()
        for model, mass, kappa in zip(models, grid[::2], grid[1::2], strict=True):
            mine = cells.filter(model=model)
            row = table.row(by_predicate=pl.col("model") == model, named=True)
            _heat(mass, mine, "dropped_mass", "mako_r", (0, 1))
            mass.set_title(f"{model}: median dropped mass at s = {row['s']}", pad=3)
            beyond = mine.with_columns(pl.when(pl.col("n") > 0).then(pl.col("kappa").fill_null(top)))
            _heat(kappa, beyond, "kappa", "rocket_r", (1, top))
            _dots(kappa, mine)
            kappa.set_title(f"{model}: median κ̂ at s = {row['s']}, flat cells dotted", pad=3)
            mass.set_xlabel("" if stacked else _note(mine, row))
            kappa.set_xlabel(_note(mine, row))
    return figure


def _heat(axes: Axes, cells: pl.DataFrame, column: str, cmap: str, limits: tuple[float, float]) -> None:
    grid = _grid(cells, column)
    bar = {"fraction": 0.05, "pad": 0.02, "extend": "max" if column == "kappa" else "neither"}
    low, high = limits
    sns.heatmap(
        grid, ax=axes, cmap=cmap, vmin=low, vmax=high, cbar_kws=bar, xticklabels=False, yticklabels=False
    )
    axes.set_facecolor(NO_CELL)
    axes.set_ylabel("head")
    _ticks(axes, cells)


def _ticks(axes: Axes, cells: pl.DataFrame) -> None:
    """Label every few layers and heads by their own numbers, at the middle of the cell."""
    for axis, column, most in ((axes.xaxis, "layer", 8), (axes.yaxis, "head", 5)):
        numbers = cells[column].unique().sort().to_list()
        step = next(k for k in (1, 2, 4, 5, 8, 10, 20, 50, len(numbers)) if len(numbers) <= k * most)
        axis.set_ticks([i + 0.5 for i in range(0, len(numbers), step)], [str(n) for n in numbers[::step]])
    axes.tick_params(axis="both", rotation=0, pad=1.5)


def _dots(axes: Axes, cells: pl.DataFrame) -> None:
    y, x = np.nonzero(_grid(cells, "flat") > 0)
    axes.plot(x + 0.5, y + 0.5, "o", ms=2, mfc="white", mec="black", mew=0.4, ls="")


def _grid(cells: pl.DataFrame, column: str) -> np.ndarray:
    """`column` as an array of heads by layers, NaN where there is no cell or no number."""
    layer = cells["layer"].rank("dense").to_numpy().astype(np.int64) - 1
    head = cells["head"].rank("dense").to_numpy().astype(np.int64) - 1
    grid = np.full((head.max() + 1, layer.max() + 1), np.nan)
    grid[head, layer] = cells[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return grid


def _height(cells: pl.DataFrame) -> float:
    """Nearly square cells within the bounds, inches."""
    return float(np.clip(cells["head"].n_unique() / cells["layer"].n_unique() * 2.3, LOW, HIGH))


def _note(cells: pl.DataFrame, row: dict[str, Any]) -> str:
    counts = cells["n"].to_list()
    low, high = min(counts), max(counts)
    n = f"{low}" if low == high else f"{low}–{high}"
    return f"layer\nn = {n} rows a cell, {row['documents']} documents"
