"""The panel: one line a family, as in the paper's table 6."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.cells import MAP_BUDGET, map_table
from ceiling.analysis.instances import Group, checked, groups
from ceiling.analysis.ranks import auc, quantile, spearman
from ceiling.analysis.tables import table

PANEL = ("auc_dropped_mass", "edge_interior", "rho_depth", "rho_phi_es_pool", "median_kappa_bal")
"""The quantities of table 6, in its order."""

READING = (
    f"`auc_dropped_mass`, `rho_phi_es_pool` and `median_kappa_bal` pool all budgets; `edge_interior` and "
    f"`rho_depth` are those of the map at s = {MAP_BUDGET}. The paper does not say which budgets its own are "
    "of, but for one family, whose AUC is pooled."
)
"""This project's reading of table 6."""


def panel_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """Table 6, one row per model (arXiv 2608.25230).

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        The identity columns, all budgets pooled; with `_low` and `_high`: `auc_dropped_mass` (for kappa >
        1.11), `edge_interior` (of `ceiling.analysis.map_table`), `rho_phi_es_pool` (Spearman of phi and
        e_pool) and `median_kappa_bal` (of e_balance / e_pool; where masses do not resolve e_pool it counts as
        above every number); and `rho_depth`. See `READING`. `edge_interior` and `rho_depth` are null where
        layers are missing: each needs every layer.

    Raises
    ------
    InputError
        When there are no instances at the map's budget.
    """
    frame = checked(instances)
    maps = map_table(frame, draws=draws, seed=seed).select("model", "^edge_interior.*$", "rho_depth")
    rows = [_row(group) for group in groups(frame, pooled=True, draws=draws, seed=seed)]
    return table(rows).join(maps, on="model", how="left", maintain_order="left")


def _row(group: Group) -> dict[str, Any]:
    mass, e_pool, cluster, weights = (
        group.values("dropped_mass"),
        group.values("e_pool"),
        group.cluster,
        group.weights,
    )
    kappa_bal = (pl.col("e_balance") / pl.col("e_pool")).fill_nan(np.inf)
    beyond = pl.when(pl.col("kappa").is_null()).then(np.inf).otherwise(kappa_bal)
    balanced = group.rows.select(beyond).to_series().to_numpy()
    row = group.identity()
    row |= estimate("auc_dropped_mass", auc(mass, group.rows["label"].to_numpy(), cluster, weights))
    row |= estimate("rho_phi_es_pool", spearman(group.values("phi"), e_pool, cluster, weights))
    return row | estimate("median_kappa_bal", quantile(balanced, cluster, weights, 0.5))
