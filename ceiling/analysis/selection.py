"""Selection: how far each selector's kept set is from the pool's best, and from top-mass's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group
from ceiling.analysis.ranks import quantile, share
from ceiling.analysis.scores import UNIFORM, score_groups, scored
from ceiling.analysis.tables import counts, table
from ceiling.objective import TIE
from ceiling.problem import InputError

DEPLOYED = ("snapkv", "h2o", "quest", "quest-16", "streaming-llm", "tova")
"""The rules the paper calls deployed; a variant's name is that of its rule, a colon and its parameters."""

ORDER = ("top-mass", "balancing", *DEPLOYED, "leverage", "geometric", "group-vote")
"""In which tables and figures name the selectors; a user's own come last, in alphabetic order."""

TAIL = 0.9
"""Quantile (dimensionless) that stands beside a median as `_p90`."""

READING = (
    "Reading per-query: chosen anew for the query, with sight of it. Reading cache: chosen before the query "
    "came, one set for all query heads of a KV head, and the query's own key always held; the paper names "
    "two readings and gives no formula, so this one is the project's."
)
"""Stands below every figure that tells the readings apart."""


def selector_table(
    scores: pl.DataFrame | pl.LazyFrame,
    instances: pl.DataFrame | pl.LazyFrame | None = None,
    certificates: pl.DataFrame | pl.LazyFrame | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """Every selector of the uniform allocation, per model, reading and budget (arXiv 2608.25230, figure 3).

    Parameters
    ----------
    scores, instances, certificates : polars.DataFrame or LazyFrame
        The store's tables; see `ceiling.analysis.scores.scored`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, `selector`, `reading` and `s`, selectors in the order of `ORDER`: the identity
        columns (`n` measured rows), then

        * `excess` median of error/e_pool with `_low` and `_high`, and `excess_p90`, on the `n_pool` rows
          that were enumerated;
        * `excess_lower`, `excess_upper` medians of error/es_upper and error/es_lower: the ends of the
          proved interval of error/ES(s), on the `n_proved` rows that are certified without a mass floor;
        * `over_top` median of error/e_top with `_low` and `_high`, and `over_top_p90`;
        * `better` share of rows with an error below top-mass's (beyond a tie), with `_low` and `_high`;
        * `kept_mass`, `overlap` medians.

        A quantile beyond every number is null.

    Raises
    ------
    InputError
        See `scored`; also when no score is of the uniform allocation.
    """
    uniform = scores.lazy().filter(pl.col("allocation") == UNIFORM)
    frame = scored(uniform, instances, certificates)
    which = ["model", "selector", "reading", "s"]
    narrow = frame.select(*which, "cluster", "measured", "trivial", "excess", "over_top")
    rows = [
        {"model": group.model} | rule | _row(group)
        for rule, group in score_groups(narrow, "selector", "reading", draws=draws, seed=seed)
    ]
    return (
        table(rows)
        .join(_points(frame, which), on=which, how="left")
        .with_columns(pl.col("n_pool", "n_proved").fill_null(0))
        .sort("model", _place(), "selector", pl.col("reading") == "cache", "s")
    )


def rests_on(selectors: pl.DataFrame) -> str:
    """What the rows of the first selector and reading rest on, in words."""
    first = selectors.row(0, named=True)
    rows = selectors.filter(selector=first["selector"], reading=first["reading"])
    return f"{counts(rows)} So for {first['selector']}; a rule scored at fewer budgets has fewer."


def with_pool(selectors: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table of selectors that have a pool to be measured by, with `kind`, or `InputError`.

    `kind` is what a selector and reading is in the paper's figure 3: "deployed", "top-mass" or null. TOVA
    per query is top-mass: its score is the query's own attention.
    """
    rule, per_query = pl.col("selector").str.split(":").list.first(), pl.col("reading") == "per-query"
    top = rule.is_in(["top-mass", "tova"]) & per_query
    kind = pl.when(top).then(pl.lit("top-mass")).when(rule.is_in(DEPLOYED)).then(pl.lit("deployed"))
    rows = selectors.filter(pl.col("n_pool") > 0).with_columns(kind=kind)
    if rows.is_empty():
        raise InputError(
            "scores: none is of an instance in the store; run `ceiling enumerate` on the same dump and "
            "budgets"
        )
    return rows


def excess_ranges(selectors: pl.DataFrame, reference: pl.DataFrame) -> pl.DataFrame:
    """The least and the greatest median excess of the deployed rules and of top-mass, beside the paper's.

    Parameters
    ----------
    selectors : polars.DataFrame
        From `with_pool`.
    reference : polars.DataFrame
        `quantity, s, low, high`, the quantities `excess_deployed` and `excess_top-mass`.

    Returns
    -------
    polars.DataFrame
        `model, kind, reading, s, rules` (how many), `low, high, lowest, highest` (their names), `paper_low,
        paper_high`, at the budgets of the reference.
    """
    paper = reference.select(
        "s", paper_low="low", paper_high="high", kind=pl.col("quantity").str.strip_prefix("excess_")
    )
    known = selectors.drop_nulls(["kind", "excess"])
    name = pl.col("selector")
    return (
        known.join(paper, on=("kind", "s"))
        .group_by("model", "kind", "reading", "s", "paper_low", "paper_high", maintain_order=True)
        .agg(
            rules=pl.len().cast(pl.Int64),
            low=pl.col("excess").min(),
            high=pl.col("excess").max(),
            lowest=name.sort_by("excess", maintain_order=True).first(),
            highest=name.sort_by("excess", maintain_order=True).last(),
        )
        .select(
            *("model", "kind", "reading", "s", "rules", "low", "lowest", "high", "highest"),
            "paper_low",
            "paper_high",
        )
        .sort("model", "kind", pl.col("reading") == "cache", "s")
    )


def against_paper(ranges: pl.DataFrame) -> str:
    """A table of `excess_ranges` in sentences; a median is in the paper's range at two decimals."""
    sentences = []
    for row in ranges.iter_rows(named=True):
        low, high, least, greatest = (
            round(row[name], 2) for name in ("low", "high", "paper_low", "paper_high")
        )
        ours = f"{low:.2f} ({row['lowest']})"
        ours += f" to {high:.2f} ({row['highest']})" if low < high else ""
        place = "outside" if high < least or low > greatest else "partly in"
        place = "in" if least <= low and high <= greatest else place
        kind = "deployed selectors" if row["kind"] == "deployed" else row["kind"]
        sentences.append(
            f"{row['model']}, {row['reading']}, s = {row['s']}: {kind} {ours}, {place} the paper's "
            f"{least:.2f} to {greatest:.2f}."
        )
    return " ".join(sentences) or "The store has no selector of the paper's at its budget."


def _row(group: Group) -> dict[str, Any]:
    cluster, weights = group.cluster, group.weights
    excess, over = (group.rows[name].to_numpy() for name in ("excess", "over_top"))  # null becomes NaN
    pool = ~np.isnan(excess)
    row = group.identity()
    row |= estimate("excess", quantile(excess[pool], cluster[pool], weights, 0.5))
    row |= estimate("over_top", quantile(over, cluster, weights, 0.5))
    return row | estimate("better", share(over < 1 - TIE, cluster, weights))


def _points(frame: pl.DataFrame, which: Sequence[str]) -> pl.DataFrame:
    """The columns without an interval; a quantile beyond every number is null."""
    medians = pl.col("excess_lower", "excess_upper", "kept_mass", "overlap").median()
    tails = pl.col("excess", "over_top").quantile(TAIL, "linear").name.suffix("_p90")
    return (
        frame.filter("measured")
        .group_by(which)
        .agg(
            medians,
            tails,
            n_pool=pl.col("excess").count().cast(pl.Int64),
            n_proved=pl.col("excess_lower").count().cast(pl.Int64),
        )
        .with_columns(pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64)))
    )


def _place() -> pl.Expr:
    """Where a selector's rule stands in `ORDER`; behind all where it does not."""
    return (
        pl.col("selector")
        .str.split(":")
        .list.first()
        .replace_strict(list(ORDER), list(range(len(ORDER))), default=len(ORDER))
    )
