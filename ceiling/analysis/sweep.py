"""The widening sweep: how much more does a wider candidate pool close, and what does it cost?"""

from collections.abc import Iterator
from math import comb
from typing import Any

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import COLUMNS, Group, groups, is_measured
from ceiling.analysis.ranks import quantile, ratio, share
from ceiling.analysis.tables import table
from ceiling.objective import TIE, default_extra
from ceiling.problem import InputError

ROW = ("model", "dump", "document", "layer", "head", "position", "s")
"""What one instance is called in every pool."""

COSTS = ("pool_size", "seconds", "extra")
"""The columns read beside those that every analysis reads."""


def sweep_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """The ceiling per model, budget and pool, on the rows that all pools of a budget hold.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances` of several configurations, with one added column: `extra` (Int64), the
        candidates that the configuration takes beside the top-mass set at the row's budget. Column
        `excluded` may be missing or null and then counts as 0.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, budget and `extra`, ascending: the identity columns, then, those marked * with
        `_low` and `_high` (null where there is no interval),

        * `extra`; `default`, whether that is the paper's pool; medians of `pool_size` (keys) and of the
          `subsets` of a pool;
        * `closable`* median of 1 - e_pool/e_top;
        * `change`* of that median against the paper's default pool, and `relative`*, the same over the
          default's median (null where that is 0);
        * `label_rate`* share of rows with kappa > 1.11;
        * `better`* share of rows with a better set than the default pool's (beyond the tie tolerance);
        * `seconds` an instance, mean of balancing and enumeration;
        * `evaluated`, `excluded`: subsets over all rows, computed and ruled out by proof.

    Raises
    ------
    InputError
        See `ceiling.analysis.instances.groups`; also where a budget lacks the default pool.

    Notes
    -----
    Pools of one row are nested (arXiv 2608.25230, section 3: the `extra` keys of largest single-key
    error), so `closable` and `label_rate` only grow with `extra`. All pools of a budget share rows and
    resamplings: the intervals of `change`, `relative` and `better` are paired.
    """
    frame = _paired(_read(instances))
    parts = frame.partition_by("model", "s", maintain_order=True)
    return table(row for part in parts for row in _rows(part, draws, seed))


def _read(instances: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    lazy = instances.lazy()
    names = lazy.collect_schema().names()
    if missing := [c for c in (*COLUMNS, *COSTS) if c not in names]:
        raise InputError(f"instances: no column {missing[0]!r}; expected the store's columns and `extra`")
    excluded = pl.col("excluded").fill_null(0) if "excluded" in names else pl.lit(0, pl.Int64)
    return lazy.select(*COLUMNS, *COSTS, excluded=excluded).collect()


def _paired(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that every pool of their budget holds and judges alike, in the same order in each."""
    pools = pl.col("extra").n_unique()
    everywhere = pools.over(ROW) == pools.over("model", "s")
    alike = is_measured().n_unique().over(ROW) == 1
    paired = frame.filter(everywhere & alike)
    if paired.is_empty():
        raise InputError("instances: no row is in all pools; enumerate one dump with each of them")
    return paired.sort("extra", *ROW).sort("model", "s", maintain_order=True)


def _rows(part: pl.DataFrame, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """One row per pool of one model and budget."""
    s = part["s"][0]
    if (default := default_extra(s)) not in part["extra"]:
        raise InputError(f"extra: the default pool, s={s} + {default}, is missing; changes are against it")
    pools = {extra: rows for (extra,), rows in part.partition_by("extra", as_dict=True).items()}
    grouped = {extra: next(groups(rows, draws=draws, seed=seed)) for extra, rows in pools.items()}
    for extra, group in grouped.items():
        yield (
            group.identity()
            | {"extra": extra, "default": extra == default}
            | _found(group, grouped[default])
            | _cost(pools[extra].filter(is_measured()), s)
        )


def _found(group: Group, default: Group) -> dict[str, Any]:
    median, before = (quantile(g.values("closable"), g.cluster, g.weights, 0.5) for g in (group, default))
    better = (group.rows["e_pool"] < default.rows["e_pool"] * (1 - TIE)).to_numpy()
    return (
        estimate("closable", median)
        | estimate("change", median - before)
        | estimate("relative", ratio(median - before, before))
        | estimate("label_rate", share(group.rows["label"].to_numpy(), group.cluster, group.weights))
        | estimate("better", share(better, group.cluster, group.weights))
    )


def _cost(measured: pl.DataFrame, s: int) -> dict[str, Any]:
    """Sizes and work; the subsets of a pool are counted from its size, whatever was skipped by proof."""
    sizes = measured["pool_size"]
    subsets = sizes.replace_strict({n: comb(n, s) for n in sizes.unique()}, return_dtype=pl.Int64)
    excluded = int(measured["excluded"].sum())
    return {
        "pool_size": sizes.median(),
        "subsets": subsets.median(),
        "seconds": measured["seconds"].mean(),
        "evaluated": int(subsets.sum()) - excluded,
        "excluded": excluded,
    }
