"""Prediction: does the dropped mass, known before any search, say where a better set exists?"""

from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate, null
from ceiling.analysis.fits import BINS, logistic, probability
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.ranks import auc
from ceiling.analysis.tables import table

DECILES = 10
"""Bins (count) of a calibration table."""


def prediction_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """AUC of the dropped mass for the label kappa > 1.11, and the logistic fit of the label on it.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model with all budgets pooled (`s` null), then one per budget: the identity
        columns, `n_labelled`; `auc` (null when all labels are equal), `intercept` and `slope`
        (logits, logits per unit of dropped mass), each with `_low` and `_high`; and `fit`, which is
        "fitted", "separated", "one class" or "no variation".

    Notes
    -----
    arXiv 2608.25230, prediction: AUC of the least achievable dropped mass m_s = 1 - p(A*_s), ties
    counted one half. The logistic fit is this project's addition.
    """
    both = chain(
        groups(instances, pooled=True, draws=draws, seed=seed), groups(instances, draws=draws, seed=seed)
    )
    return table(_row(group) for group in both).sort("model", "s", nulls_last=False, maintain_order=True)


def calibration_table(instances: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Observed rate of the label beside the fitted one, per decile of dropped mass and model.

    Returns
    -------
    polars.DataFrame
        `model, decile, n, dropped_mass` (mean), `predicted` (mean probability of the pooled fit, null
        when there is none) and `observed` (share of labels); at most ten rows per model, fewer where
        many masses are equal.
    """
    rows = []
    for group in groups(instances, pooled=True, draws=0):
        mass, label = group.values("dropped_mass"), group.rows["label"].to_numpy()
        if not len(mass):
            continue
        fit = logistic(mass, label, group.cluster, group.weights)
        edges = np.quantile(mass, np.arange(1, DECILES) / DECILES)
        decile = np.searchsorted(edges, mass, "left")
        for d in np.unique(decile):
            here = decile == d
            rows.append(
                {"model": group.model, "decile": int(d) + 1, "n": int(here.sum())}
                | {"dropped_mass": float(mass[here].mean())}
                | {"predicted": null(probability(fit, mass[here]).mean())}
                | {"observed": float(label[here].mean())}
            )
    return table(rows)


def logistic_columns(group: Group, *, bins: int = BINS) -> dict[str, Any]:
    """The columns `intercept`, `slope` (with intervals) and `fit` of the label on the dropped mass."""
    mass, label = group.values("dropped_mass"), group.rows["label"].to_numpy()
    fit = logistic(mass, label, group.cluster, group.weights, bins=bins)
    return estimate("intercept", fit.intercept) | estimate("slope", fit.slope) | {"fit": fit.ending}


def _row(group: Group) -> dict[str, Any]:
    mass, label = group.values("dropped_mass"), group.rows["label"].to_numpy()
    row = group.identity() | {"n_labelled": int(label.sum())}
    row |= estimate("auc", auc(mass, label, group.cluster, group.weights))
    return row | logistic_columns(group)
