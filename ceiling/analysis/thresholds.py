"""Thresholds: does the ranking of predictors and families hang on where kappa is cut?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate, null
from ceiling.analysis.instances import LABEL_RATIO, Group, groups, label
from ceiling.analysis.predictors import PREDICTORS
from ceiling.analysis.ranks import auc
from ceiling.analysis.tables import table

THRESHOLDS = (1.01, 1.02, 1.05, LABEL_RATIO, 1.2, 1.3, 1.5, 1.75, 2.0)
"""Cuts of kappa (dimensionless) of the sweep; the paper's label is one of them."""

RATES = np.linspace(0, 1, 201)
"""False-positive rates at which a ROC curve is given: finer than a column's width in print."""

RANKED = (
    "`tau_predictors` ranks the predictors by AUC within a family, all budgets pooled; `tau_groups` ranks "
    "the pairs of family and budget by the AUC of the dropped mass. Both are Kendall's τ-b of the "
    f"ranking at a threshold and the one at {LABEL_RATIO}; of few pairs it moves in coarse steps, of four "
    "budgets of one family in thirds."
)
"""What the two columns of Kendall's tau compare; the paper does not say what it ranks."""


def threshold_table(
    instances: pl.DataFrame | pl.LazyFrame,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """The AUC of the dropped mass for the label kappa > t, over t, and how rankings by AUC keep.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    thresholds : sequence of float
        The values t.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model and threshold, all budgets pooled: the identity columns, `threshold`, `n_labelled`,
        `share` (of rows with the label), `auc` with `_low` and `_high`, `tau_predictors` and `tau_groups`:
        see `RANKED`. A tau is null where one side has no order.
    """
    by_budget = list(groups(instances, draws=0))
    arms = {t: np.array([_auc(group, t) for group in by_budget]) for t in (*thresholds, LABEL_RATIO)}
    rows = []
    for group in groups(instances, pooled=True, draws=draws, seed=seed):
        usual = _all_aucs(group, LABEL_RATIO)
        for t in thresholds:
            hit = group.rows.select(label(t)).to_series().to_numpy()
            row = group.identity() | {"threshold": t, "n_labelled": int(hit.sum())}
            row["share"] = null(hit.mean()) if len(hit) else None
            row |= estimate("auc", auc(group.values("dropped_mass"), hit, group.cluster, group.weights))
            row["tau_predictors"] = null(kendall(_all_aucs(group, t), usual))
            row["tau_groups"] = null(kendall(arms[t], arms[LABEL_RATIO]))
            rows.append(row)
    return table(rows)


def roc_table(instances: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The ROC curve of the dropped mass for the label kappa > 1.11, per model, all budgets pooled.

    Returns
    -------
    polars.DataFrame
        `model, false_rate, true_rate`: the share of labelled rows above the dropped mass that so large a
        share of the others exceeds, interpolated between attained points. No rows for a model whose labels
        are all equal.
    """
    rows: list[dict[str, Any]] = []
    for group in groups(instances, pooled=True, draws=0):
        hit = group.rows["label"].to_numpy()
        if hit.all() or not hit.any():
            continue
        order = np.argsort(-group.values("dropped_mass"), kind="stable")
        ordered, hit = group.values("dropped_mass")[order], hit[order]
        last = np.append(np.flatnonzero(np.diff(ordered)), len(hit) - 1)  # of every run of ties
        true = np.concatenate([[0], np.cumsum(hit)[last]]) / hit.sum()
        false = np.concatenate([[0], np.cumsum(~hit)[last]]) / (~hit).sum()
        curve = np.interp(RATES, false, true)
        rows += [
            {"model": group.model, "false_rate": float(x), "true_rate": float(y)}
            for x, y in zip(RATES, curve, strict=True)
        ]
    return pl.DataFrame(rows, schema={"model": pl.String, "false_rate": pl.Float64, "true_rate": pl.Float64})


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b of two short lists; pairs with a NaN are left out, NaN where one side is all ties.

    Notes
    -----
    Kendall, "The treatment of ties in ranking problems" (1945).
    """
    known = np.isfinite(x) & np.isfinite(y)
    a, b = (np.sign(v[known][:, None] - v[known][None]) for v in (x, y))
    norm = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / norm) if norm else np.nan


def _all_aucs(group: Group, threshold: float) -> np.ndarray:
    return np.array([_auc(group, threshold, score) for score in PREDICTORS.values()])


def _auc(group: Group, threshold: float, score: pl.Expr = PREDICTORS["dropped_mass"]) -> float:
    """The AUC of `score` for kappa > `threshold` on the rows as they are, NaN where there is none."""
    rows = group.rows.select(score.cast(pl.Float64).alias("x"), label(threshold).alias("hit")).drop_nulls("x")
    x, hit = rows["x"].to_numpy(), rows["hit"].to_numpy()
    return float(auc(x, hit, np.zeros(len(x), dtype=np.int64), np.ones((1, 1), dtype=np.int64))[0])
