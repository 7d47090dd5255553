"""Scores: what selectors leave of the output, beside the pool's best set and what is proved of all sets."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, document_weights
from ceiling.analysis.certificates import INSTANCE, SOUND
from ceiling.analysis.instances import Group
from ceiling.objective import TIE
from ceiling.problem import InputError

RULE = ("selector", "reading", "allocation")
"""What tells the scores of one instance apart."""

UNIFORM = "uniform"
"""The allocation that gives every head the same budget."""

FLOATS = ("error", "kept_mass", "overlap", "e_top", "sigma")
FLAGS = ("trivial", "degenerate")
COLUMNS = ("model", "text_id", *INSTANCE, "config", *RULE, "kept_count", "group", *FLAGS, *FLOATS)
"""The columns of the table of scores that the analysis reads."""


def scored(
    scores: pl.DataFrame | pl.LazyFrame,
    instances: pl.DataFrame | pl.LazyFrame | None = None,
    certificates: pl.DataFrame | pl.LazyFrame | None = None,
) -> pl.DataFrame:
    """Every score, with its error over the least known and the least possible.

    Parameters
    ----------
    scores : polars.DataFrame or LazyFrame
        The store's `scores`; a filter on it reaches the scan.
    instances, certificates : polars.DataFrame or LazyFrame, optional
        The store's tables, of the same dumps.

    Returns
    -------
    polars.DataFrame
        `COLUMNS` and `cluster` (int64, the number of the row's document within the model), `measured`
        (neither trivial nor degenerate), and ratios, null in rows that are not measured:

        * `over_top` = error / e_top;
        * `excess` = error / e_pool, null where the instance was not enumerated;
        * `excess_lower` = error / es_upper and `excess_upper` = error / es_lower, the ends of the proved
          interval of error / ES(s); null where there is no certificate without a mass floor.

        These three are null too where an allocation changes the budget; `excess` is infinite where
        e_pool is below what masses resolve, its bounds where they divide by 0. A row of one text that
        several dumps of a model hold stands once.

    Raises
    ------
    InputError
        Empty frame, missing column, a number that is not finite, one model under several configurations,
        an instance that stands twice, or an error below what is proved of all sets.
    """
    frame = _once(_checked(scores))
    frame = _beside_pools(frame, instances)
    frame = _beside_proofs(frame, certificates)
    measured, whole = ~(pl.col("trivial") | pl.col("degenerate")), pl.col("allocation") == UNIFORM
    frame = frame.with_columns(
        measured=measured,
        over_top=pl.when(measured).then(pl.col("error") / pl.col("e_top")),
        **{
            name: pl.when(measured & whole).then(_over(by))
            for name, by in (("excess", "e_pool"), ("excess_lower", "es_upper"), ("excess_upper", "es_lower"))
        },
    )
    return frame.drop("e_pool", "es_lower", "es_upper")


def score_groups(
    frame: pl.DataFrame, *by: str, draws: int = DRAWS, seed: int = SEED
) -> Iterator[tuple[dict[str, str], Group]]:
    """Yield the values of `by` and the measured scores of one model, budget and those values.

    Parameters
    ----------
    frame : polars.DataFrame
        From `scored`.
    by : str
        Columns that cut the frame further.
    draws, seed : int
        Of the cluster bootstrap over documents; all groups of a model share the resamplings.
    """
    for (model,), family in frame.partition_by("model", as_dict=True).items():
        weights = document_weights(int(family["cluster"].max()) + 1, draws=draws, seed=seed)  # type: ignore[arg-type]
        for (s, *values), part in (
            family.sort("s", *by, maintain_order=True)
            .partition_by("s", *by, as_dict=True, maintain_order=True)
            .items()
        ):
            rows, trivial = part.filter("measured"), int(part["trivial"].sum())
            left_out = part.height - trivial - rows.height
            yield (
                dict(zip(by, values, strict=True)),
                Group(str(model), s, rows, weights, trivial, left_out),
            )


def _over(divisor: str) -> pl.Expr:
    """error / divisor; above every number where the divisor is 0, null where it is."""
    ratio = pl.when(pl.col(divisor) > 0).then(pl.col("error") / pl.col(divisor)).otherwise(np.inf)
    return pl.when(pl.col(divisor).is_not_null()).then(ratio)


def _checked(scores: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    lazy = scores.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(f"scores: no column {missing[0]!r}; expected the columns of the store's scores")
    frame = lazy.select(COLUMNS).collect()
    if frame.is_empty():
        raise InputError("scores: the store holds none of these; run `ceiling score` on a dump first")
    broken = frame.select((~pl.col(*FLOATS).is_finite()).any())
    for column in broken.columns:
        if broken[column][0]:
            raise InputError(f"scores: {column} holds a number that is not finite; undefined must be null")
    row = pl.struct("dump", *INSTANCE[1:], *RULE)
    several = frame.group_by("dump").agg(pl.col("config").n_unique()).filter(pl.col("config") > 1)["dump"]
    twice = frame.filter(pl.col("dump").is_in(several.to_list())).filter(row.is_duplicated())
    if twice.height:
        rule, configs = twice["selector"][0], ", ".join(twice["config"].unique().sort())
        raise InputError(
            f"scores: {rule} was scored under configurations {configs}, whose budgets or rules differ; name "
            "one with --config, or keep them in separate stores"
        )
    return frame


def _once(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with `cluster`, where a text that several dumps of a model hold counts once."""
    name = pl.coalesce("text_id", pl.format("{} {}", "dump", "document"))
    texts = frame.select("model", "dump", "document", "text_id").unique().with_columns(name=name)
    texts = texts.with_columns(
        cluster=pl.col("name").rank("dense").over("model").cast(pl.Int64) - 1,
        repeated=pl.len().over("model", "name") > 1,
    ).select("dump", "document", "cluster", "repeated")
    frame = frame.join(texts, on=("dump", "document"), how="left", maintain_order="left")
    if texts["repeated"].any():
        row = pl.struct("model", "text_id", *INSTANCE[2:], *RULE)
        again = frame.filter("repeated").filter(row.is_first_distinct())
        frame = pl.concat([frame.filter(~pl.col("repeated")), again])
    return frame.drop("repeated")


def _beside_pools(frame: pl.DataFrame, instances: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    if instances is None:
        return frame.with_columns(e_pool=pl.lit(None, pl.Float64))
    resolved = pl.when(pl.col("kappa").is_not_null()).then(pl.col("e_pool")).otherwise(0.0)
    return _joined(frame, instances.lazy().select(*INSTANCE, e_pool=resolved), "instances")


def _beside_proofs(frame: pl.DataFrame, certificates: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    """The proved interval of ES(s); no kept set of the same size has an error below it."""
    if certificates is None:
        return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("es_lower", "es_upper"))
    unrestricted = certificates.lazy().filter(pl.col("mass_floor") == 0, pl.col("status") != "trivial")
    frame = _joined(frame, unrestricted.select(*INSTANCE, "es_lower", "es_upper"), "certificates")
    below = frame.filter(
        pl.col("error") * (1 + TIE) + SOUND * pl.col("sigma") < pl.col("es_lower"),
        pl.col("kept_count") == pl.col("s"),
    )
    if below.height:
        where = ", ".join(f"{name} {below[name][0]}" for name in (*RULE, *INSTANCE))
        raise InputError(
            f"scores: error {below['error'][0]!r} of {where} is below es_lower "
            f"{below['es_lower'][0]!r} of the certificates, which no set can be: one of the tables is wrong"
        )
    return frame


def _joined(frame: pl.DataFrame, other: pl.LazyFrame, table: str) -> pl.DataFrame:
    """`frame` with what `other` says of the same instances."""
    dumps = frame["dump"].unique().to_list()  # a filter that reaches the scan
    there = other.filter(pl.col("dump").is_in(dumps)).collect()
    if there.select(pl.struct(INSTANCE).is_duplicated().any()).item():
        raise InputError(f"{table}: a row stands there twice; name one configuration with --config")
    return frame.join(there, on=INSTANCE, how="left", maintain_order="left")
