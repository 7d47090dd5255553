"""Group vote: what a query head pays when all heads of its KV head must share one kept set."""

from typing import Any

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group
from ceiling.analysis.ranks import quantile, share
from ceiling.analysis.scores import UNIFORM, score_groups, scored
from ceiling.analysis.tables import table
from ceiling.objective import TIE

VOTE = "group-vote"
"""The selector: the keys of largest mass summed over the rows of the group's query heads."""

QUANTILES = {"cost": 0.5, "cost_p90": 0.9}


def group_vote_table(
    scores: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """The cost of the shared set per model, group size and budget (arXiv 2608.25230, group vote).

    Parameters
    ----------
    scores : polars.DataFrame or LazyFrame
        The store's `scores`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, `group` (query heads that share the set) and `s`: the identity columns, then,
        each with `_low` and `_high`, `cost` and `cost_p90` (median and 90th percentile of the shared set's
        error over the row's own top-mass error) and `dearer` (share of rows that the shared set costs
        anything, beyond a tie).

    Raises
    ------
    InputError
        See `ceiling.analysis.scores.scored`.
    """
    voted = pl.col("selector") == VOTE, pl.col("allocation") == UNIFORM, pl.col("reading") == "per-query"
    frame = scored(scores.lazy().filter(*voted))
    groups = score_groups(frame, "group", draws=draws, seed=seed)
    rows = [{"model": group.model} | size | _row(group) for size, group in groups]
    return table(rows).sort("model", "group", "s")


def _row(group: Group) -> dict[str, Any]:
    cost = group.values("over_top")
    row = group.identity()
    for name, q in QUANTILES.items():
        row |= estimate(name, quantile(cost, group.cluster, group.weights, q))
    return row | estimate("dearer", share(cost > 1 + TIE, group.cluster, group.weights))
