"""Native budgets: what balancing closes where no pool is enumerated, as in the paper's table 1."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.cells import MAP_BUDGET
from ceiling.analysis.instances import ALL_FAMILIES, WHERE, Group, checked, grouped, is_measured, is_repeated
from ceiling.analysis.ranks import quantile
from ceiling.analysis.reference import here, ranges
from ceiling.analysis.tables import shown, table
from ceiling.problem import InputError, Status

NATIVE = ("median_balancing_closure", "median_dropped_mass", "gap_share_of_s8")
"""The quantities of table 1."""

READING = (
    "`median_balancing_closure`: median of 1 − e_balance/e_top. `median_dropped_mass`: of top-mass. "
    f"`gap_share_of_s8`: median over rows of e_top(s)/e_top({MAP_BUDGET}), our reading of a column that the "
    "paper does not define."
)

SELECTOR, READ, ALLOCATION = "balancing", "per-query", "uniform"
"""The rows of the table of scores that hold balancing's error."""

_COLUMNS = (*WHERE, "dump", "config", "document", "degenerate", "e_top", "dropped_mass")


def native_table(
    instances: pl.DataFrame | pl.LazyFrame,
    scores: pl.DataFrame | pl.LazyFrame,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """Table 1 per model and budget, then of all models pooled (arXiv 2608.25230).

    Parameters
    ----------
    instances, scores : polars.DataFrame or LazyFrame
        The store's tables. A budget of a model that `scores` holds for balancing is read there, any other
        from `instances`; either may be empty, not both.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        The identity columns, `NATIVE` each with `_low` and `_high`, and `source`, the table that was read;
        `ALL_FAMILIES` last. The gap share rests on rows measured at s = 8 too, and is null without any.

    Raises
    ------
    InputError
        Neither table has a row, or one model has scores of several configurations.
    """
    frame = _closures(instances, scores)
    rows = [
        _row(group)
        for together in (False, True)
        for group in grouped(frame, together=together, draws=draws, seed=seed)
    ]
    return table(rows)


def native_beside(ours: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    """`quantity, whose`, a column a budget and `here`: ours, then every row of the paper's table 1.

    `ours` is a `native_table`, `paper` the reference as text, with columns s4, s8 and so on.
    """
    stated = {int(column[1:]): column for column in paper.columns if column[1:].isdecimal()}
    budgets = sorted({*stated, *ours["s"]})
    models = [model for model in ours["model"].unique(maintain_order=True) if model != ALL_FAMILIES]
    rows = []
    for quantity in NATIVE:
        for frame in ours.partition_by("model", maintain_order=True):
            values = {row["s"]: shown(row, quantity) for row in frame.iter_rows(named=True)}
            cells = {f"s = {s}": values.get(s, "–") for s in budgets}
            rows.append({"quantity": quantity, "whose": frame["model"][0]} | cells | {"here": "–"})
        for row in paper.filter(quantity=quantity).iter_rows(named=True):
            cells = {f"s = {s}": row.get(stated.get(s, ""), None) or "–" for s in budgets}
            whose = {"quantity": quantity, "whose": f"paper, {row['family']}"}
            rows.append(whose | cells | {"here": here(row["family"], models)})
    return table(rows)


def native_paper(paper: pl.DataFrame) -> pl.DataFrame:
    """The reference of table 1 in long form: `family, quantity, s, value` (text), without empty fields."""
    budgets = [column for column in paper.columns if column[1:].isdecimal()]
    long = paper.unpivot(budgets, index=["family", "quantity"], variable_name="s", value_name="value")
    return long.with_columns(pl.col("s").str.slice(1).cast(pl.Int64)).drop_nulls("value")


def native_ranges(long: pl.DataFrame) -> pl.DataFrame:
    """The paper's range over its families, for `ceiling.analysis.differences`; `long` from `native_paper`."""
    wide = long.pivot("quantity", index=["family", "s"], values="value")
    return ranges(wide, NATIVE, "s")


def sources(ours: pl.DataFrame) -> str:
    """Which table the rows of a `native_table` were read from, in words."""
    each = ours.filter(pl.col("model") != ALL_FAMILIES).group_by("model", "source", maintain_order=True)
    parts = [
        f"{model} at s = {', '.join(map(str, sorted(s)))} from `{source}`"
        for model, source, s in each.agg("s").iter_rows()
    ]
    return f"Read: {'; '.join(parts)}."


def native_missing(ours: pl.DataFrame, budgets: Sequence[int]) -> str:
    """The budgets of the paper that our table lacks, and what measures them, or nothing."""
    if not (absent := sorted(set(budgets) - set(ours["s"]))):
        return ""
    return f"Not measured: s = {', '.join(map(str, absent))}; `ceiling score` measures them."


def _closures(instances: pl.DataFrame | pl.LazyFrame, scores: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Every row of both tables once: the identity columns, `closure`, `dropped_mass`, `gap`, `source`."""
    balanced = (pl.col("selector") == SELECTOR) & (pl.col("reading") == READ)
    scored = (
        scores.lazy()
        .filter(balanced & (pl.col("allocation") == ALLOCATION))
        .with_columns(
            status=pl.when("trivial").then(pl.lit(str(Status.TRIVIAL))).otherwise(pl.lit(str(Status.EXACT)))
        )
        .select(*_COLUMNS, "status", e_balance="error", source=pl.lit("scores"))
        .collect()
    )
    configs_of = scored.group_by("model").agg(pl.col("config").unique().sort()).sort("model")
    for model, configs in configs_of.filter(pl.col("config").list.len() > 1).iter_rows():
        raise InputError(
            f"scores: {model} was scored under configurations {', '.join(configs)}; name one with --config"
        )
    scored = scored.filter(~is_repeated())
    parts = [scored]
    if scored.is_empty() or instances.lazy().head(1).collect().height:
        enumerated = checked(instances).select(*_COLUMNS, "status", "e_balance", source=pl.lit("instances"))
        parts.append(enumerated.join(scored, on=["model", "s"], how="anti"))
    frame = pl.concat(parts).sort("model", "s", maintain_order=True)
    row = ["dump", "document", "layer", "head", "position"]
    at_map = frame.filter((pl.col("s") == MAP_BUDGET) & is_measured()).select(*row, e_map="e_top")
    return frame.join(at_map, on=row, how="left", maintain_order="left").with_columns(
        closure=1 - pl.col("e_balance") / pl.col("e_top"), gap=pl.col("e_top") / pl.col("e_map")
    )


def _row(group: Group) -> dict[str, Any]:
    row = group.identity()
    for name, column in zip(NATIVE, ("closure", "dropped_mass", "gap"), strict=True):
        known = group.keep(pl.col(column).is_not_null())
        row |= estimate(name, quantile(known.values(column), known.cluster, known.weights, 0.5))
    return row | {"source": " and ".join(group.rows["source"].unique().sort()) or "–"}
