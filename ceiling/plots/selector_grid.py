"""The table of selectors as a page: a row a selector and reading, a column a budget, the darker the worse."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from ceiling.plots.style import PAGE, blank, style

ROW = 0.14
"""Height of a row, inches."""

SHOWN: dict[str, tuple[str, str, bool]] = {
    "excess": ("error / pool's best, median", ".2f", True),
    "over_top": ("error / top-mass's, median", ".2f", True),
    "better": ("share better than top-mass", ".2f", False),
}
"""Heading, format, and whether it is a ratio (else a share, of which more is better)."""

PALEST = 0.5
"""Darkest shade used (of 1): black text stays readable on it, also in grey."""


def selector_grid(table: pl.DataFrame) -> Figure:
    """Set the numbers of a table of selectors on one page.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.selector_table`.

    Returns
    -------
    matplotlib.figure.Figure
        Page width, inches; a band of panels a model.
    """
    models = table.partition_by("model", maintain_order=True)
    columns = {name: _budgets(table, name) for name in SHOWN}
    columns = {name: budgets for name, budgets in columns.items() if budgets}
    heights = [frame.select("selector", "reading").unique().height for frame in models]
    with style():
        figure = blank(PAGE, sum(0.65 + ROW * height for height in heights))
        widths = [len(budgets) for budgets in columns.values()]
        grid: Any = figure.subplots(
            len(models), len(columns), squeeze=False, width_ratios=widths, height_ratios=heights
        )
        for line, frame in zip(grid, models, strict=True):
            rules = frame.select("selector", "reading").unique(maintain_order=True).rows()
            for axes, (name, budgets) in zip(line, columns.items(), strict=True):
                _panel(axes, frame, name, rules, budgets)
            line[0].set_yticks(range(len(rules)), [f"{name}, {reading}" for name, reading in rules])
            first = frame.row(0, named=True)
            line[0].set_xlabel(f"budget s; {first['model']}: {first['documents']} documents", loc="left")
    return figure


def _panel(axes: Axes, frame: pl.DataFrame, name: str, rules: list[Any], budgets: list[int]) -> None:
    heading, form, is_ratio = SHOWN[name]
    values = np.full((len(rules), len(budgets)), np.nan)
    for row in frame.filter(pl.col("s").is_in(budgets)).drop_nulls(name).iter_rows(named=True):
        values[rules.index((row["selector"], row["reading"])), budgets.index(row["s"])] = row[name]
    finite = values[np.isfinite(values)]
    norm: Normalize = Normalize(0, 1 / PALEST)
    if is_ratio:
        worst = max(2.0, finite.max(initial=1.0))
        norm = LogNorm(1, worst ** (1 / PALEST))
    axes.imshow(np.clip(values, 1, None) if is_ratio else values, "Greys", norm=norm, aspect="auto")
    for (y, x), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else _short(value, form)
        axes.text(x, y, text, ha="center", va="center", color="black")
    axes.set_xticks(range(len(budgets)), [str(s) for s in budgets])
    axes.set_yticks([])
    axes.tick_params(length=0)
    axes.set_title(heading, pad=3)
    for y in range(1, len(rules)):
        if rules[y][0] != rules[y - 1][0]:
            axes.axhline(y - 0.5, color="0.6", lw=0.4)
    axes.spines[:].set_visible(False)


def _short(value: float, form: str) -> str:
    """At most four characters, so that columns stay apart."""
    if value >= 1000:
        return f"{value:.0e}".replace("e+0", "e")
    return format(value, ".0f" if value >= 100 else ".1f" if value >= 10 else form)


def _budgets(table: pl.DataFrame, name: str) -> list[int]:
    """The budgets at which anything of this quantity is known."""
    return table.drop_nulls(name)["s"].unique().sort().to_list()
