"""Groups of certificates: proved intervals, joined with the pool optimum where the store has it."""

from collections.abc import Iterator

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, document_weights
from ceiling.analysis.instances import WHERE, Group, is_measured
from ceiling.objective import TIE
from ceiling.problem import InputError, Status

FLOATS = (
    "dropped_mass",
    "sigma",
    "e_top",
    "es_lower",
    "es_upper",
    "closable_lower",
    "closable_upper",
    "top_share",
    "seconds",
)
COLUMNS = (*WHERE, "mass_floor", "dump", "config", "document", "decile", "degenerate", "status", *FLOATS)
"""The columns of the table of certificates that the analysis reads."""

INSTANCE = ("dump", "document", "layer", "head", "position", "s")
"""What one instance is called in both tables."""

POOL = ("e_pool", "closable", "kappa")
"""The columns of the instances that are joined."""

SOUND = 1e-12
"""In units of sigma: how far a computed e_pool may lie below a proved lower bound. Both tables sum at most a
few hundred float64 terms near sigma; a larger difference says that one of them is wrong."""


def floor_name(mass_floor: float) -> str:
    """A mass floor as it is written on the command line: `none` for 0."""
    return f"{mass_floor:g}" if mass_floor else "none"


def certified(
    certificates: pl.DataFrame | pl.LazyFrame,
    instances: pl.DataFrame | pl.LazyFrame | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Iterator[tuple[float, Group]]:
    """Yield the mass floor and the measured certificates of one model, floor and budget, in that order.

    Parameters
    ----------
    certificates : polars.DataFrame or LazyFrame
        The store's `certificates`.
    instances : polars.DataFrame or LazyFrame, optional
        The store's `instances`, of the same dumps. Where one is there, its `e_pool`, `closable_pool` and
        `resolved` (whether masses resolve e_pool) stand beside the interval; else they are null.
    draws, seed : int
        Of the cluster bootstrap over documents; all floors and budgets of a model share the resamplings.

    Raises
    ------
    InputError
        Empty frame, missing column, a number that is not finite, one model under several configurations,
        or a pool optimum below what is proved of all sets.
    """
    frame = checked_certificates(certificates, instances)
    for (model,), family in frame.partition_by("model", as_dict=True, maintain_order=True).items():
        text = pl.coalesce("text_id", pl.format("{} {}", "dump", "document"))
        family = family.with_columns(cluster=text.rank("dense").cast(pl.Int64) - 1)
        weights = document_weights(family["cluster"].n_unique(), draws=draws, seed=seed)
        for (floor, s), part in family.partition_by(
            "mass_floor", "s", as_dict=True, maintain_order=True
        ).items():
            trivial = part.filter(pl.col("status") == Status.TRIVIAL).height
            rows = part.filter(is_measured())
            left_out = part.height - trivial - rows.height
            yield floor, Group(str(model), s, rows, weights, trivial, left_out)


def checked_certificates(
    certificates: pl.DataFrame | pl.LazyFrame, instances: pl.DataFrame | pl.LazyFrame | None = None
) -> pl.DataFrame:
    """The columns the analysis reads, sorted by model, floor and budget; see `certified`.

    A row of one text that several dumps of a model hold counts once.
    """
    lazy = certificates.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(
            f"certificates: no column {missing[0]!r}; expected the columns of the store's certificates"
        )
    frame = lazy.select(COLUMNS).collect()
    if frame.is_empty():
        raise InputError("certificates: the store holds none; run `ceiling certify` on a dump first")
    broken = frame.select((~pl.col("mass_floor", *FLOATS).is_finite()).any())
    for column in broken.columns:
        if broken[column][0]:
            raise InputError(f"certificates: {column} holds a number that is not finite")
    for model, configs in frame.group_by("model").agg(pl.col("config").unique().sort()).iter_rows():
        if len(configs) > 1:
            raise InputError(
                f"certificates: {model} was certified under configurations {', '.join(configs)}, whose rows "
                "or limits differ; name one with --config, or keep them in separate stores"
            )
    repeated = pl.col("text_id").is_not_null() & ~pl.struct(*WHERE, "mass_floor").is_first_distinct()
    frame = frame.filter(~repeated).sort("model", "mass_floor", "s", maintain_order=True)
    return _beside_pools(frame, instances)


def _beside_pools(certificates: pl.DataFrame, instances: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    """`certificates` with `e_pool`, `closable_pool` and `resolved`, null where there is no instance."""
    names = pl.col("e_pool"), pl.col("closable").alias("closable_pool")
    if instances is None:
        types = {"e_pool": pl.Float64, "closable_pool": pl.Float64, "resolved": pl.Boolean}
        return certificates.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in types.items())
    wanted = certificates.select(INSTANCE).unique()
    dumps = wanted["dump"].unique().to_list()  # a filter that reaches the scan
    pools = (
        instances.lazy()
        .select(*INSTANCE, *POOL)
        .filter(pl.col("dump").is_in(dumps))
        .join(wanted.lazy(), on=INSTANCE, how="semi")
        .select(*INSTANCE, *names, resolved=pl.col("kappa").is_not_null())
        .collect()
    )
    if pools.select(pl.struct(INSTANCE).is_duplicated().any()).item():
        raise InputError("instances: a row stands there twice; name one configuration with --config")
    joined = certificates.join(pools, on=INSTANCE, how="left", maintain_order="left")
    above = joined.filter(
        pl.col("es_lower") > pl.col("e_pool") * (1 + TIE) + SOUND * pl.col("sigma"),
        pl.col("mass_floor") == 0,  # a floor may forbid the pool's best set
    )
    if above.height:
        where = ", ".join(f"{name} {above[name][0]}" for name in INSTANCE)
        raise InputError(
            f"certificates: es_lower {above['es_lower'][0]!r} of {where} is above e_pool "
            f"{above['e_pool'][0]!r} of the instances: one of the two tables is wrong"
        )
    return joined
