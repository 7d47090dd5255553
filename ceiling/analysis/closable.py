"""The selection ceiling: how much of the top-mass error any other kept set of the pool could close."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.ranks import quantile, share
from ceiling.analysis.tables import table
from ceiling.objective import TIE

QUANTILES = {"p25": 0.25, "p75": 0.75, "p90": 0.90, "p99": 0.99}
COVERAGES = {"kappa_le_1_5": 1.5, "kappa_le_2": 2.0}
"""Bounds on kappa (dimensionless) whose coverage the paper states."""


def ceiling_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """The ceiling per model and budget (arXiv 2608.25230, figure 1).

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model and budget: `model, s, documents, n, trivial, degenerate, interval`, then,
        each with `_low` and `_high` (null where there is no interval) but for the quantiles,

        * `ratio` median of e_pool / e_top; `closable` median of 1 - e_pool/e_top, with `closable_p25,
          _p75, _p90, _p99`; `closable_balance` median of 1 - e_balance/e_top;
        * `closable_labelled` median of the closable share where kappa > 1.11, on `n_labelled` rows;
        * `recovered` median of (e_top - e_balance)/(e_top - e_pool), on the `n_recovered` rows where
          anything is closable;
        * `attained` share of rows where top-mass reaches the pool optimum (within the tie tolerance);
        * `kappa_le_1_5`, `kappa_le_2` shares of rows; a null kappa counts as above.

    Raises
    ------
    InputError
        See `ceiling.analysis.instances.groups`.

    Notes
    -----
    The pool optimum bounds the optimum over all subsets from above, so `closable` is a lower bound
    of what any subset could win.
    """
    return table(_row(group) for group in groups(instances, draws=draws, seed=seed))


def _row(group: Group) -> dict[str, Any]:
    closable = group.values("closable")
    labelled = group.keep(pl.col("label"))
    open_gap = group.keep(pl.col("recovered").is_not_null())
    attained = (group.rows["e_top"] <= group.rows["e_pool"] * (1 + TIE)).to_numpy()
    kappa = group.values("kappa", null=np.inf)
    row = group.identity() | estimate("ratio", _median(group, 1 - closable))
    row |= estimate("closable", _median(group, closable))
    for name, q in QUANTILES.items():
        row[f"closable_{name}"] = estimate("", quantile(closable, group.cluster, group.weights[:1], q))[""]
    row |= estimate("closable_balance", _median(group, group.values("closable_balance")))
    row |= {"n_labelled": labelled.rows.height}
    row |= estimate("closable_labelled", _median(labelled, labelled.values("closable")))
    row |= {"n_recovered": open_gap.rows.height}
    row |= estimate("recovered", _median(open_gap, open_gap.values("recovered")))
    row |= estimate("attained", share(attained, group.cluster, group.weights))
    for name, bound in COVERAGES.items():
        row |= estimate(name, share(kappa <= bound, group.cluster, group.weights))
    return row


def _median(group: Group, values: np.ndarray) -> np.ndarray:
    return quantile(values, group.cluster, group.weights, 0.5)
