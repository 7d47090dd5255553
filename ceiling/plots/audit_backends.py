"""Figure 5: what the attention backend alone does to scores, a row a press and budget."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.audit_looks import looks, rows_of
from ceiling.plots.style import COLUMN, PAGE, PAPER, blank, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

ROW = 0.2
"""Height of a row, inches."""


def backend_dots(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the paired difference between backends.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.audit_contrasts.backend_table`.
    paper : polars.DataFrame
        `label, budget, difference` with its ends.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, page width for several models, inches; a panel a model and dtype.
    """
    parts = table.partition_by("model", "dtype", maintain_order=True)
    rows = table.select("label", "budget").unique(maintain_order=True).rows()
    rows.sort(key=lambda row: row[0] == "pooled")
    look = looks(table.with_columns(press=pl.col("label").str.split(":").list.first()))
    with style():
        figure = blank(COLUMN if len(parts) == 1 else PAGE, 0.85 + ROW * len(rows))
        grid = figure.subplots(1, len(parts), squeeze=False, sharey=True, sharex=True).ravel()
        for axes, part in zip(grid, parts, strict=True):
            for (label, budget), mine in part.partition_by("label", "budget", as_dict=True).items():
                at = np.array([rows.index((label, budget))])
                own = look[str(label)]
                plain = label in ("pooled", "full")
                mark: dict[str, Any] = {"color": "black", "marker": "o", "ms": 4} if plain else own.mark()
                whiskers(axes, at, mine, "difference", mark["color"], across=True)
                axes.plot(numbers(mine, "difference"), at, **{**mark, "ls": ""})
            for row in paper.iter_rows(named=True):
                if (place := (row["label"], row["budget"])) in rows:
                    at = np.array([rows.index(place)])
                    whiskers(axes, at, pl.DataFrame([row]), "difference", PAPER, across=True)
                    axes.plot([row["difference"]], at, ls="", marker="x", ms=4, mew=1, color=PAPER)
            axes.axvline(0, color="black", lw=0.6, zorder=0.5)
            rows_of(axes, [_name(*row) for row in rows])
            axes.set_title(f"{part['model'][0]}, {part['dtype'][0]}", pad=3)
            open_spines(axes)
        figure.supxlabel("score, eager − sdpa", fontsize=grid[0].xaxis.label.get_fontsize())
        handles: list[Any] = [
            Line2D([], [], ls="", marker="o", ms=4, color="black", label="ours"),
            Line2D([], [], ls="", marker="x", ms=4, mew=1, color=PAPER, label="paper, 8,192 tokens"),
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
    return figure


def _name(label: str, budget: str) -> str:
    return label if budget in ("all", "none") else f"{label} {budget.replace('ratio=', 'r=')}"
