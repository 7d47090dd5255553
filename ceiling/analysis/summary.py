"""The summary: what a store says about the ceiling, in sentences, beside what the paper says."""

from collections.abc import Callable
from typing import Any

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED
from ceiling.analysis.cells import FLAT_MASS, MAP_BUDGET, map_table
from ceiling.analysis.closable import ceiling_table
from ceiling.analysis.instances import checked
from ceiling.analysis.penalty import CAVEAT, penalty_fit, penalty_table
from ceiling.analysis.prediction import prediction_table
from ceiling.analysis.tables import counts
from ceiling.problem import InputError

LOWER_BOUND = (
    "The pool optimum lies above the optimum over all subsets, so the closable share is a lower bound of "
    "what any kept set could win, and the shares attained and of κ̂ within a bound are upper bounds; on "
    "the instances with κ̂ > 1.11, which the pool itself selects, the closable share is neither."
)
"""Shown beside figure 1, the sweep and the summary."""


def percent(x: float) -> str:
    """`x` as a percentage with one decimal."""
    return f"{100 * x:.1f}%"


def number(x: float) -> str:
    """`x` with two decimals."""
    return f"{x:.2f}"


def summary(
    instances: pl.DataFrame | pl.LazyFrame,
    reference: pl.DataFrame,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[str]:
    """What was found, one sentence or two per element, each beside the paper's range.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    reference : polars.DataFrame
        Columns `quantity, s, low, high`: the numbers the paper states in its text (the project's
        `figures/reference/forced_weights_text.csv`).
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        Empty or malformed frames.
    """
    if missing := {"quantity", "s", "low", "high"} - set(reference.columns):
        raise InputError(f"reference: no column {sorted(missing)[0]!r}; expected quantity, s, low, high")
    frame = checked(instances)
    ceiling = ceiling_table(frame, draws=draws, seed=seed)
    prediction = prediction_table(frame, draws=draws, seed=seed)
    penalty, fits = penalty_table(frame, draws=draws, seed=seed), penalty_fit(frame, draws=draws, seed=seed)
    cells = None
    if (frame["s"] == MAP_BUDGET).any():
        cells = map_table(frame, draws=draws, seed=seed)
    lines = []
    for model in ceiling["model"].unique(maintain_order=True):
        mine = pl.col("model") == model
        lines += [counts(ceiling.filter(mine)), *_ceiling(ceiling.filter(mine), reference)]
        lines.append(_prediction(prediction.filter(mine), reference))
        lines += _penalty(penalty.filter(mine), fits.filter(mine), reference)
        if cells is not None:
            lines += [_map(row, reference) for row in cells.filter(mine).iter_rows(named=True)]
    return [*lines, LOWER_BOUND, CAVEAT]


def _ceiling(rows: pl.DataFrame, reference: pl.DataFrame) -> list[str]:
    def each(quantity: str, show: Callable[[float], str] = percent) -> str:
        return _each(rows, quantity, reference, show)

    return [
        f"The best kept set of the pool closes this much of top-mass's error (median): {each('closable')}.",
        f"Where κ̂ > 1.11 it closes (median): {each('closable_labelled')}.",
        f"Top-mass already is the pool optimum on this share of instances: {each('attained')}.",
        f"Balancing by single swaps recovers this share of what is closable (median): "
        f"{each('recovered', number)}.",
        f"κ̂ ≤ 1.5 on this share of instances: {each('kappa_le_1_5')}.",
        f"κ̂ ≤ 2 on this share of instances: {each('kappa_le_2')}.",
    ]


def _prediction(rows: pl.DataFrame, reference: pl.DataFrame) -> str:
    pooled = rows.row(by_predicate=pl.col("s").is_null(), named=True)
    if pooled["auc"] is None:
        return "Every instance bears the same label, so there is nothing for dropped mass to predict."
    fit = f"no logistic fit: {pooled['fit']}"
    if pooled["slope"] is not None:
        fit = f"logistic slope {_value(pooled, 'slope', number)} logits per unit of mass"
    auc = _value(pooled, "auc", number) + _paper(reference, "auc", None, number)
    return f"Dropped mass tells the instances with κ̂ > 1.11 with AUC {auc}; {fit}."


def _penalty(rows: pl.DataFrame, fits: pl.DataFrame, reference: pl.DataFrame) -> list[str]:
    median, tail = (_each(rows, quantity, reference, number) for quantity in ("median_pi", "p99_pi"))
    lines = [
        f"The penalty π̂ = e_pool/ef_fw of forcing the weights (median): {median}.",
        f"The penalty π̂ = e_pool/ef_fw, 99th percentile: {tail}.",
    ]
    below = [
        f"{percent(row['below_one'])} at s = {row['s']}"
        for row in rows.drop_nulls("below_one").iter_rows(named=True)
    ]
    if below:
        lines.append(
            f"e_pool/ef_fw is below 1, which the true penalty never is, on this share: {'; '.join(below)}."
        )
    if rows["n_pi_improved"].sum() > 0:
        better, far = (_each(rows, f"{q}_pi_improved", reference, number) for q in ("median", "p99"))
        lines.append(f"π̂ = e_pool/ef, over the closer bound of EF (median): {better}.")
        lines.append(f"π̂ = e_pool/ef, 99th percentile: {far}.")
    fit = fits.row(0, named=True)
    if fit["slope"] is not None:
        slope = _value(fit, "slope", number)
        lines.append(f"e_pool/ef_fw goes as m_s √s to the power {slope}, R² = {number(fit['r2'])}.")
    return lines


def _map(row: dict[str, Any], reference: pl.DataFrame) -> str:
    text = (
        f"{row['flat_cells']} of {row['cells']} cells (layer, head) are flat, "
        f"median dropped mass above {FLAT_MASS} at s = {MAP_BUDGET}; "
    )
    if row["cell_auc"] is None:
        return text + "all cells lie on one side of a median κ̂ of 1.11, so there is no cell AUC."
    auc = number(row["cell_auc"]) + _paper(reference, "cell_auc", None, number)
    return text + f"dropped mass tells the cells of median κ̂ > 1.11 with AUC {auc}."


def _each(rows: pl.DataFrame, quantity: str, reference: pl.DataFrame, show: Callable[[float], str]) -> str:
    """`quantity` budget by budget, the paper's number after each, its overall range after the last."""
    parts = [
        f"{_value(row, quantity, show)} at s = {row['s']}" + _paper(reference, quantity, row["s"], show)
        for row in rows.iter_rows(named=True)
    ]
    return "; ".join(parts) + _paper(reference, quantity, None, show)


def _value(row: dict[str, Any], quantity: str, show: Callable[[float], str]) -> str:
    """One estimate and its interval, where it has one."""
    if row[quantity] is None:
        return "(undefined)"
    low, high = row[f"{quantity}_low"], row[f"{quantity}_high"]
    return show(row[quantity]) + ("" if low is None else f" [{show(low)}, {show(high)}]")


def _paper(reference: pl.DataFrame, quantity: str, s: int | None, show: Callable[[float], str]) -> str:
    """The paper's number or range in brackets, or nothing where it states none."""
    rows = reference.filter(pl.col("quantity") == quantity, pl.col("s").eq_missing(pl.lit(s, pl.Int64)))
    if rows.is_empty():
        return ""
    low, high = show(rows["low"][0]), show(rows["high"][0])
    return f" (paper: {low})" if low == high else f" (paper: {low} to {high})"
