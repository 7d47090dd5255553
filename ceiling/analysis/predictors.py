"""Predictors: the statistics known before any search, side by side as signs of a better kept set."""

from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.prediction import logistic_columns
from ceiling.analysis.ranks import auc, correlation, document_ranks
from ceiling.analysis.tables import table

_MASS, _RADIUS, _SIGMA = pl.col("dropped_mass"), pl.col("radius"), pl.col("sigma")

PREDICTORS: dict[str, pl.Expr] = {
    "dropped_mass": _MASS,
    "radius": _RADIUS,
    "radius_mass": 2 * _RADIUS * _MASS,
    "sigma_mass": (_MASS / (1 - _MASS)).sqrt() * _SIGMA,
    "phi": pl.col("phi"),
    "spectral": pl.col("spectral"),
}
"""By name, in the order shown: the dropped mass m; D; 2 D m and sqrt(m / (1 - m)) sigma, the two bounds of
top-mass's error; Phi, its unnormalised length; and the spectral statistic of the dropped residuals."""

MEANING = {
    "dropped_mass": "m",
    "radius": "D",
    "radius_mass": "2 D m",
    "sigma_mass": "√(m/(1−m)) σ",
    "phi": "Φ",
    "spectral": "spectral",
}
"""As they are written in a figure."""

TARGETS = ("e_top", "e_pool", "kappa")
"""What each is ranked against; a null kappa counts as above every number."""


def predictor_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """How well each statistic tells the label kappa > 1.11, and ranks the errors.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, budget (first all pooled, `s` null) and predictor: the identity columns, where
        `n` counts the measured rows that have the predictor; `predictor`, `n_labelled`; `auc` and Spearman's
        `rho_e_top`, `rho_e_pool`, `rho_kappa`, each with `_low` and `_high`; and of the dropped mass
        `intercept`, `slope` and `fit` of `ceiling.analysis.prediction_table`.

    Notes
    -----
    arXiv 2608.25230, prediction: D = max_j |v_j - mu|, 2 D m and sqrt(m / (1 - m)) sigma bound top-mass's
    error, Phi = |g|. The spectral statistic is named there without a formula: here the largest eigenvalue of
    the second moments of the dropped residuals over their trace.
    """
    both = chain(
        groups(instances, pooled=True, draws=draws, seed=seed), groups(instances, draws=draws, seed=seed)
    )
    rows = [row for group in both for row in _rows(group)]
    return table(rows).sort("model", "s", nulls_last=False, maintain_order=True)


def missing_note(predictors: pl.DataFrame) -> str:
    """Which predictors no row has, in words, or nothing."""
    absent = predictors.group_by("predictor", maintain_order=True).agg(pl.col("n").sum()).filter(n=0)
    if absent.is_empty():
        return ""
    names = ", ".join(absent["predictor"])
    return f"Not measured: {names} (the store is older than the column; enumerate into a new one)."


def _rows(group: Group) -> list[dict[str, Any]]:
    rows, targets = [], _ranked_targets(group)
    for name, score in PREDICTORS.items():
        known = group.keep(score.is_not_null())
        x = known.rows.select(score.cast(pl.Float64)).to_series().to_numpy()
        label = known.rows["label"].to_numpy()
        row = known.identity() | {"predictor": name, "n_labelled": int(label.sum())}
        row |= estimate("auc", auc(x, label, known.cluster, known.weights))
        whole = len(x) == group.rows.height
        against = targets if whole else _ranked_targets(known)
        mine = document_ranks(x, known.cluster, known.weights)
        for target in TARGETS:
            row |= estimate(f"rho_{target}", correlation(mine, against[target], known.weights))
        if name == "dropped_mass":
            row |= logistic_columns(known)
        rows.append(row)
    return rows


def _ranked_targets(group: Group) -> dict[str, list[np.ndarray]]:
    return {
        target: document_ranks(group.values(target, null=np.inf), group.cluster, group.weights)
        for target in TARGETS
    }
