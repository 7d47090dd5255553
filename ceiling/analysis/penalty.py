"""The penalty of forced weights: how far the best forced set stays behind re-solved weights."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.fits import line
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.ranks import quantile
from ceiling.analysis.tables import table

CAVEAT = (
    "The paper's π̂ = e_pool/ef_fw divides the pool optimum by the Frank–Wolfe distance after s steps, "
    "the improved π̂ = e_pool/ef by the least distance found for s keys with re-solved weights "
    "(fully-corrective steps and swaps). All three lie above what they estimate, so the bias of either "
    "ratio has no sign. The true penalty is at least 1: where e_pool/ef_fw is below, Frank–Wolfe has "
    "not come as near in s steps as some forced set of s keys; e_pool/ef never is."
)
"""Shown beside table 8 and in the summary."""

RATIOS = ("pi", "pi_improved")
"""The paper's penalty, e_pool / ef_fw, and the one over the closer bound, e_pool / ef."""


def penalty_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """Median and 99th percentile of the penalty per model and budget, by both estimates of EF.

    Returns
    -------
    polars.DataFrame
        The identity columns; of pi = e_pool / ef_fw `n_pi` (rows where it exists), `below_one` (their
        share with pi < 1, where it says more of Frank-Wolfe than of the penalty), `median_pi` and
        `p99_pi` with `_low` and `_high`; of pi_improved = e_pool / ef `n_pi_improved`,
        `median_pi_improved` and `p99_pi_improved` likewise.

    Notes
    -----
    arXiv 2608.25230, penalty: pi(s) = ES(s)/EF(s). `CAVEAT` belongs beside every number.
    """
    return table(group.identity() | pi_columns(group) for group in groups(instances, draws=draws, seed=seed))


def pi_columns(group: Group) -> dict[str, Any]:
    """The columns of `penalty_table` that one group has beside its identity."""
    row: dict[str, Any] = {}
    for ratio in RATIOS:
        known = group.keep(pl.col(ratio).is_not_null())
        pi = known.values(ratio)
        row[f"n_{ratio}"] = len(pi)
        if ratio == "pi":
            row["below_one"] = float((pi < 1).mean()) if len(pi) else None
        for name, q in ((f"median_{ratio}", 0.5), (f"p99_{ratio}", 0.99)):
            row |= estimate(name, quantile(pi, known.cluster, known.weights, q))
    return row


def penalty_fit(
    instances: pl.DataFrame | pl.LazyFrame, *, ratio: str = "pi", draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """Least-squares fit log pi = intercept + slope log(m_s sqrt(s)) per model, all budgets pooled.

    Parameters
    ----------
    instances : polars.DataFrame or polars.LazyFrame
    ratio : str
        Which pi: ``"pi"`` = e_pool / ef_fw (the paper's) or ``"pi_improved"`` = e_pool / ef.
    draws, seed : int
        Of the bootstrap.

    Returns
    -------
    polars.DataFrame
        The identity columns, `n_fit` (rows with pi > 0 and m_s > 0), `intercept`, `slope` and `r2`
        with `_low` and `_high`, and `fit` ("fitted" or "no variation").

    Notes
    -----
    The paper finds that the penalty rises with m_s sqrt(s); the fit is this project's reading of it.
    """
    rows = []
    for group in groups(instances, pooled=True, draws=draws, seed=seed):
        known = group.keep((pl.col(ratio) > 0) & (pl.col("dropped_mass") > 0))
        x = np.log(known.values("dropped_mass") * np.sqrt(known.values("s")))
        fit = line(x, np.log(known.values(ratio)), known.cluster, known.weights)
        row = group.identity() | {"n_fit": len(x)}
        row |= estimate("intercept", fit.intercept) | estimate("slope", fit.slope)
        rows.append(row | estimate("r2", fit.r2) | {"fit": fit.ending})
    return table(rows)
