"""The budget profile: the paper's table 8, one row per model and budget."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.penalty import pi_columns
from ceiling.analysis.ranks import quantile, share, spearman
from ceiling.analysis.tables import table

CLOSE = 0.9
"""Ratio e_pool/e_top (dimensionless) at or below which table 8 counts a row."""

PROFILE = (
    "median_kappa",
    "p99_kappa",
    "share_es_le_0_9_top",
    "geo_over_top",
    "lev_over_top",
    "median_pi",
    "p99_pi",
    "rho_phi_es_pool",
)
"""The quantities of table 8, in its order; pi is e_pool / ef_fw."""

IMPROVED = ("median_pi_improved", "p99_pi_improved")
"""Of e_pool / ef, which the paper does not have."""


def budget_profile(
    instances: pl.DataFrame | pl.LazyFrame,
    *,
    together: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """Table 8 per model and budget (arXiv 2608.25230).

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    together : bool
        Pool the models: one row a budget.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        The identity columns, `n_pi`, `below_one`, `n_pi_improved`, and with `_low` and `_high`:
        `median_kappa` and `p99_kappa` (a null kappa counts as above every number),
        `share_es_le_0_9_top` (rows with e_pool <= 0.9 e_top), `geo_over_top` and `lev_over_top`
        (medians of e_geometric/e_top and e_leverage/e_top), `median_pi`, `p99_pi` (e_pool/ef_fw),
        `median_pi_improved`, `p99_pi_improved` (e_pool/ef), and `rho_phi_es_pool` (Spearman of phi and
        e_pool).

    Notes
    -----
    The paper names `geo_over_top` and `lev_over_top` without a formula; medians of the ratio are this
    project's reading.
    """
    return table(_row(group) for group in groups(instances, together=together, draws=draws, seed=seed))


def _row(group: Group) -> dict[str, Any]:
    cluster, weights = group.cluster, group.weights
    kappa, e_top, e_pool = group.values("kappa", null=np.inf), group.values("e_top"), group.values("e_pool")
    row = group.identity()
    for name, q in (("median_kappa", 0.5), ("p99_kappa", 0.99)):
        row |= estimate(name, quantile(kappa, cluster, weights, q))
    row |= estimate("share_es_le_0_9_top", share(e_pool <= CLOSE * e_top, cluster, weights))
    for name, column in (("geo_over_top", "e_geometric"), ("lev_over_top", "e_leverage")):
        known = group.keep(pl.col(column).is_not_null())
        over = known.values(column) / known.values("e_top")
        row |= estimate(name, quantile(over, known.cluster, weights, 0.5))
    row |= pi_columns(group)
    return row | estimate("rho_phi_es_pool", spearman(group.values("phi"), e_pool, cluster, weights))
