"""Allocation: one total budget spread over the heads in several ways, each against the same for all."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, document_weights, estimate, interval_note
from ceiling.analysis.ranks import quantile, ratio
from ceiling.analysis.scores import UNIFORM, scored
from ceiling.analysis.tables import table
from ceiling.problem import InputError

ALLOCATIONS = (UNIFORM, "map", "mass-greedy", "pyramid")
"""In which tables and figures name the allocations; others come last, in alphabetic order."""

QUERY = ("model", "dump", "document", "position", "s")
"""One query of all cells (layer, head): what a total budget is spread over."""


def allocation_table(
    scores: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """Errors of top-mass sets under every allocation over those under the uniform one.

    Parameters
    ----------
    scores : polars.DataFrame or LazyFrame
        The store's `scores`; those of selector top-mass, per query, are read.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, `allocation` (but uniform) and `s`: `documents`; `n` queries, each the sum over its
        cells (layer, head); `cells`, the median number of them, and `instances`, all of them; `unmatched`
        queries left out because the allocation keeps another number of keys in all than the uniform one
        does, or was not scored in the same cells; `interval`; then, each with `_low` and `_high`,

        * `median`, `mean` over queries of Σ error / Σ error of uniform;
        * `median_scaled`, `mean_scaled`: the same with every error divided by its row's σ, so that cells of
          large values do not speak for all;

        and, without intervals, `cell_median` (over queries, of the median of error over uniform's on
        measured cells), `kept_mass` and `kept_mass_uniform` (means over queries and cells).

    Raises
    ------
    InputError
        See `ceiling.analysis.scores.scored`; also when there is no allocation but uniform, none of uniform
        to compare with, or no query has a matched total.

    Notes
    -----
    Trivial and degenerate cells belong to the totals: a budget is matched over all heads.
    """
    panel = pl.col("selector") == "top-mass", pl.col("reading") == "per-query"
    frame = scored(scores.lazy().filter(*panel))
    queries = _queries(frame)
    if not queries["matched"].any():
        first = queries.row(0, named=True)
        raise InputError(
            f"scores: no query has the same total budget under two allocations (e.g. {first['allocation']}, "
            f"dump {first['dump']}, document {first['document']}, position {first['position']}, "
            f"s = {first['s']}: {first['kept']} keys in {first['cells']} cells, uniform "
            f"{first['kept_uniform']} in {first['cells_uniform']}); run `ceiling score` to the end"
        )
    rows = []
    for (model,), family in queries.partition_by("model", as_dict=True, maintain_order=True).items():
        weights = document_weights(int(family["cluster"].max()) + 1, draws=draws, seed=seed)  # type: ignore[arg-type]
        for (allocation, s), part in family.partition_by("allocation", "s", as_dict=True).items():
            rows.append({"model": model, "allocation": allocation, "s": s} | _row(part, weights))
    place = pl.col("allocation").replace_strict(list(ALLOCATIONS), range(len(ALLOCATIONS)), default=9)
    return table(rows).sort("model", place, "allocation", "s")


def _queries(frame: pl.DataFrame) -> pl.DataFrame:
    """The sums of every query under every other allocation, and whether uniform spends as much there."""
    is_uniform = pl.col("allocation") == UNIFORM
    sums = frame.group_by(*QUERY, "allocation", "cluster").agg(
        pl.col("over_top").median().alias("cell_median"),
        cells=pl.len(),
        kept=pl.col("kept_count").sum(),
        error=pl.col("error").sum(),
        scaled=(pl.col("error") / pl.col("sigma")).filter(pl.col("sigma") > 0).sum(),
        kept_mass=pl.col("kept_mass").mean(),
    )
    uniform, others = sums.filter(is_uniform).drop("allocation", "cluster"), sums.filter(~is_uniform)
    for part, name in ((uniform, "the uniform"), (others, "any other")):
        if part.is_empty():
            raise InputError(
                f"scores: top-mass has none under {name} allocation; run `ceiling score` with its allocation "
                "panel"
            )
    same = (pl.col(name) == pl.col(f"{name}_uniform") for name in ("kept", "cells"))
    return (
        others.join(uniform, on=QUERY, how="left", suffix="_uniform")
        .with_columns(
            matched=pl.all_horizontal(*same, pl.col("error_uniform") > 0).fill_null(False),
            ratio=pl.col("error") / pl.col("error_uniform"),
            ratio_scaled=pl.col("scaled") / pl.col("scaled_uniform"),
        )
        .sort(*QUERY, "allocation")
    )


def _row(part: pl.DataFrame, weights: np.ndarray) -> dict[str, Any]:
    queries = part.filter("matched")
    cluster, documents = queries["cluster"].to_numpy(), weights.shape[1]
    row: dict[str, Any] = {
        "documents": documents,
        "n": queries.height,
        "cells": queries["cells"].median(),
        "instances": int(queries["cells"].sum()),
        "unmatched": part.height - queries.height,
        "interval": interval_note(documents, len(weights) - 1),
    }
    for suffix in ("", "_scaled"):
        values = queries[f"ratio{suffix}"].to_numpy()
        total = weights @ np.bincount(cluster, values, minlength=documents)
        count = weights @ np.bincount(cluster, minlength=documents)
        row |= estimate(f"median{suffix}", quantile(values, cluster, weights, 0.5))
        row |= estimate(f"mean{suffix}", ratio(total, count))
    means = ("kept_mass", "kept_mass_uniform")
    return (
        row
        | {"cell_median": queries["cell_median"].median()}
        | {name: queries[name].mean() for name in means}
    )
