"""The prediction as a picture: ROC curves, the sweep over kappa's cut, and the predictors side by side."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

TICKS = (1.01, 1.05, 1.2, 2)
"""Labelled cuts of kappa (dimensionless)."""

LINES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
"""One dash pattern per model, so that colour is never the only difference of two curves."""

DODGE = 1.15
"""Factor in kappa - 1 between the marks of neighbouring models, so that whiskers stay apart."""

ROW, EACH, SPREAD = 0.09, 0.08, 0.8
"""Height of a predictor's row, inches: without marks, and what each model adds; and the share of it that
the marks of all models take."""


def prediction_curves(
    roc: pl.DataFrame, sweep: pl.DataFrame, predictors: pl.DataFrame, names: dict[str, str]
) -> Figure:
    """Draw how well the dropped mass predicts, and what predicts beside it.

    Parameters
    ----------
    roc, sweep : polars.DataFrame
        From `ceiling.analysis.roc_table` and `threshold_table`.
    predictors : polars.DataFrame
        From `ceiling.analysis.predictor_table`; the rows of all budgets pooled are drawn.
    names : dict of str to str
        The predictors as they are written.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    pooled = predictors.filter(pl.col("s").is_null())
    models = pooled["model"].unique(maintain_order=True).to_list()
    looks = list(zip(models, colours(len(models)), strict=True))
    rows = (ROW + EACH * len(models)) * len(names)
    with style():
        figure = blank(COLUMN, 2.65 + 0.15 * len(models) + rows)
        grid = figure.add_gridspec(2, 2, height_ratios=(1.75, rows + 0.1))
        curve, cut, below = (figure.add_subplot(grid[at]) for at in ((0, 0), (0, 1), (1, slice(None))))
        curve.plot((0, 1), (0, 1), color=PAPER, lw=0.6)
        for i, (model, colour) in enumerate(looks):
            mine, dash = roc.filter(model=model), LINES[i % len(LINES)]
            curve.plot(mine["false_rate"], mine["true_rate"], color=colour, ls=dash)
            line = sweep.filter(model=model)
            x = (numbers(line, "threshold") - 1) * DODGE ** (i - (len(looks) - 1) / 2)
            cut.plot(x, numbers(line, "auc"), color=colour, ls=dash, marker=marker(i), ms=3, label=model)
            whiskers(cut, x, line, "auc", colour)
            _predictors(below, pooled.filter(model=model), i, looks)
        _axes(curve, cut)
        known = pooled.group_by("predictor").agg(pl.col("auc").count())
        for name in known.filter(auc=0)["predictor"]:
            below.annotate("not measured", (0.02, list(names).index(name)), va="center", color="0.35")
        below.axvline(0.5, color=PAPER, lw=0.6)
        below.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6), xlabel="AUC for κ̂ > 1.11, all budgets pooled")
        below.set_yticks(range(len(names)), list(names.values()))
        below.tick_params(axis="y", length=0)
        open_spines(below)
        figure.legend(
            *cut.get_legend_handles_labels(),
            loc="outside upper center",
            ncols=2,
            frameon=False,
            handlelength=3,
        )
    return figure


def _predictors(
    axes: Axes, frame: pl.DataFrame, index: int, looks: list[tuple[str, tuple[float, float, float]]]
) -> None:
    """One model's marks, a row a predictor, beside the other models' marks."""
    colour, count = looks[index][1], len(looks)
    y = np.arange(frame.height) + SPREAD * ((index + 1 / 2) / count - 1 / 2)
    axes.plot(numbers(frame, "auc"), y, ls="", color=colour, marker=marker(index), ms=3.5)
    whiskers(axes, y, frame, "auc", colour, across=True)


def _axes(curve: Axes, cut: Axes) -> None:
    curve.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="true-positive rate")
    curve.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
    curve.set_yticks((0, 0.5, 1), ("0", "0.5", "1"))
    curve.set_title("ROC of m for κ̂ > 1.11", pad=3)
    cut.set_xscale("log")
    cut.set_xticks([t - 1 for t in TICKS], [f"{t:g}" for t in TICKS])
    cut.xaxis.set_minor_locator(NullLocator())
    cut.margins(x=0.08, y=0.15)
    cut.set_xlabel("label: κ̂ above")
    cut.set_title("AUC of m", pad=3)
    for axes in (curve, cut):
        open_spines(axes)
