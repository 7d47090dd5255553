"""Figure 4: what every arm costs on held-out text, and below it what one arm gains on another."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
    SymmetricalLogLocator,
)

from ceiling.plots.style import COLUMN, PAGE, blank, colours, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

LOOKS = {"none": ("o", False), "flat": ("s", True), "random": ("^", False), "all": ("D", True)}
"""Marker of an arm by the cells that balance, and whether it is filled: colour says nothing alone."""

NAMES = {"none": "no cell", "flat": "flat cells", "random": "random cells", "all": "all cells"}

WIDE = 20
"""Greatest over least value (ratio), or over the lower quartile of sizes where something drawn is not above
0, from which an axis is logarithmic."""

ROW = 0.15
"""Height of a row, inches."""

POINT = "0.6"
"""Grey level of single documents."""


def loss_dots(arms: pl.DataFrame, pairs: pl.DataFrame, points: pl.DataFrame) -> Figure:
    """Draw the excess loss of every arm, and the contrasts below it, a column a model and budget.

    Parameters
    ----------
    arms, pairs, points : polars.DataFrame
        From `ceiling.analysis.losses`: `loss_table`, `contrasts` and `documents_of`.

    Returns
    -------
    matplotlib.figure.Figure
        Column width for one panel, page width for more, two abreast, inches.
    """
    panels = arms.select("model", "s").unique(maintain_order=True).rows()
    abreast, down = min(2, len(panels)), -(-len(panels) // 2)
    names = arms.select("rule", "balanced").unique(maintain_order=True).rows()
    tests = pairs.select("rule", "first", "second").unique(maintain_order=True).rows()
    heights = [len(names), len(tests)] * down
    with style():
        figure = blank(COLUMN if abreast == 1 else PAGE, 0.65 + down * 1.0 + ROW * sum(heights))
        grid: Any = figure.subplots(2 * down, abreast, squeeze=False, height_ratios=heights, sharey="row")
        above, below = grid[0::2].ravel(), grid[1::2].ravel()
        for axes, other, (model, s) in zip(above, below, panels, strict=False):
            mine = {"model": model, "s": s}
            dots = points.filter(**mine)
            for y, (rule, balanced) in enumerate(names):
                arm = {"rule": rule, "balanced": balanced}
                _row(axes, y, arms.filter(**mine, **arm), "excess", dots.filter(**arm)["excess"], balanced)
            for y, (rule, first, second) in enumerate(tests):
                one, two = (dots.filter(rule=rule, balanced=b).sort("document") for b in (first, second))
                each = one["excess"] - two["excess"] if one.height == two.height else one["excess"].clear()
                row = pairs.filter(**mine, rule=rule, first=first, second=second)
                _row(other, y, row, "difference", each, second)
            _look(axes, names, [_arm(*name) for name in names])
            _look(other, tests, [f"{rule}: {first} − {second}" for rule, first, second in tests])
            axes.set_title(f"{model}, s = {s}, {arms.filter(**mine)['documents'][0]} documents", pad=3)
            axes.set_xlabel("excess loss, nats a token")
            other.set_xlabel("difference of losses, nats a token")
        for axes in (*above[len(panels) :], *below[len(panels) :]):
            axes.set_visible(False)
        _scale(list(above[: len(panels)]), arms["excess"])
        _scale(list(below[: len(panels)]), pairs["difference"])
        for axes in below:
            axes.axvline(0, color="black", lw=0.6, zorder=0.5)
        _legend(
            figure,
            sorted({balanced for _, balanced in names}, key=list(LOOKS).index),
            3 if abreast == 1 else 5,
        )
    return figure


def _row(axes: Axes, y: int, frame: pl.DataFrame, quantity: str, documents: pl.Series, balanced: str) -> None:
    """One estimate with its whisker on single documents in grey."""
    mark, filled = LOOKS[balanced]
    colour = colours(len(LOOKS))[list(LOOKS).index(balanced)]
    axes.plot(documents, [y] * len(documents), ls="", color=POINT, marker="|", ms=4, mew=0.6, zorder=1)
    whiskers(axes, np.full(frame.height, float(y)), frame, quantity, colour, across=True)
    look: dict[str, Any] = {"mfc": colour if filled else "white", "mec": colour, "mew": 0.8}
    axes.plot(numbers(frame, quantity), [y] * frame.height, ls="", marker=mark, ms=3.5, **look)


def _arm(rule: str, balanced: str) -> str:
    return rule if balanced == "none" else f"{rule} + {balanced}"


def _look(axes: Axes, rows: list[Any], labels: list[str]) -> None:
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), labels)
    axes.tick_params(axis="y", length=0)
    for y in range(1, len(rows)):
        if rows[y][0] != rows[y - 1][0]:
            axes.axhline(y - 0.5, color="0.85", lw=0.4, zorder=0)
    open_spines(axes)


def _scale(panels: list[Axes], values: pl.Series) -> None:
    """One range for all panels, logarithmic where the values' sizes are too far apart."""
    reach = [limit for axes in panels for limit in axes.get_xlim()]
    lines = [line for axes in panels for line in axes.lines if line.get_transform() == axes.transData]
    drawn = np.concatenate([np.asarray(line.get_xdata(), dtype=float) for line in lines])
    sizes = values.drop_nulls().abs().to_numpy()
    low, least, most = float(np.quantile(sizes, 0.25)), float(np.nanmin(drawn)), float(np.nanmax(drawn))
    for axes in panels:
        if least > 0 and most > WIDE * least:
            axes.set_xscale("log")
            axes.set_xlim(least / 1.3, 1.3 * most)
            decades = np.log10(most / least)
            steps = (1, 2, 5) if decades < 1.7 else (1, 3) if decades < 3 else (1,)
            axes.xaxis.set_major_locator(LogLocator(subs=steps))
        elif least <= 0 and most > WIDE * low > 0:
            near = 10.0 ** np.floor(np.log10(low))
            axes.set_xscale("symlog", linthresh=near)
            axes.set_xlim(1.3 * min(*reach, -near), 1.3 * max(*reach, near))
            axes.xaxis.set_major_locator(SymmetricalLogLocator(linthresh=near, base=10))
        else:
            axes.set_xlim(min(*reach, 0), max(*reach, 0))
            axes.xaxis.set_major_locator(MaxNLocator(4))
            continue
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, balanced: list[str], columns: int) -> None:
    handles: list[Any] = []
    for name in balanced:
        mark, filled = LOOKS[name]
        colour = colours(len(LOOKS))[list(LOOKS).index(name)]
        look: dict[str, Any] = {"mfc": colour if filled else "white", "mec": colour, "mew": 0.8}
        handles.append(Line2D([], [], ls="", marker=mark, ms=3.5, **look))
    handles.append(Line2D([], [], ls="", color=POINT, marker="|", ms=4, mew=0.6))
    labels = [*(NAMES[name] for name in balanced), "one document"]
    title = "balancing in (below: the second of the pair)"
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, frameon=False, title=title, handlelength=1
    )
