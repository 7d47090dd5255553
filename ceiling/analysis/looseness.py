"""Looseness of the pool: by how much the best set known of all keys undercuts the pool's best, by layer."""

import polars as pl

from ceiling.analysis.certificates import certified
from ceiling.analysis.certification import verdicts
from ceiling.objective import TIE
from ceiling.problem import InputError

FEWEST = 10
"""Instances (count) of a budget whose median is shown. A manifest of 240 draws two of each layer and budget:
neighbouring layers are put together until every band of them has as many."""

COLUMNS = ("model", "s", "layer", "head", "dump", "document", "position", "dropped_mass", "status")


def looseness(
    certificates: pl.DataFrame | pl.LazyFrame, instances: pl.DataFrame | pl.LazyFrame
) -> pl.DataFrame:
    """Every instance that was certified without a mass floor and enumerated.

    Parameters
    ----------
    certificates, instances : polars.DataFrame or LazyFrame
        The store's tables; see `ceiling.analysis.certificates.certified`.

    Returns
    -------
    polars.DataFrame
        `model, s, layer, head, dump, document, position, dropped_mass, status`; `looseness` =
        1 - es_upper/e_pool (a set that much better is known; 0 for a tie, below 0 where the search missed
        the pool's best), `looseness_upper` = 1 - es_lower/e_pool (none is better by more, proved);
        `closable_pool`, `closable_lower`, `closable_upper`; `improved_known`. Rows whose e_pool is below
        what masses resolve are left out, as are trivial and degenerate ones.

    Raises
    ------
    InputError
        See `certified`; also when no instance is in both tables.
    """
    e_pool = pl.col("e_pool")
    tied = (pl.col("es_upper") - e_pool).abs() <= TIE * e_pool
    parts = [
        group.rows.filter(pl.col("resolved")).select(
            *COLUMNS,
            looseness=pl.when(tied).then(0.0).otherwise(1 - pl.col("es_upper") / e_pool),
            looseness_upper=1 - pl.col("es_lower") / e_pool,
            closable_pool="closable_pool",
            closable_lower="closable_lower",
            closable_upper="closable_upper",
            improved_known=verdicts()["improved_known"],
        )
        for floor, group in certified(certificates, instances, draws=0)
        if floor == 0
    ]
    if not parts or not sum(part.height for part in parts):
        raise InputError(
            "certificates: none without a mass floor is of an instance in the store; run `ceiling certify` "
            "with --mass-floor none and `ceiling enumerate` on the same dump"
        )
    return pl.concat(parts).sort("model", "s", "layer", maintain_order=True)


def looseness_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Medians per model, budget and band of layers.

    Parameters
    ----------
    rows : polars.DataFrame
        From `looseness`.

    Returns
    -------
    polars.DataFrame
        `model, s, first_layer, last_layer, n`, medians of `looseness`, `looseness_upper`, `closable_pool`,
        `closable_lower`, `closable_upper`; `looseness_p90`; `improved_known`, instances with a set more than
        1% better. Bands are equally wide but for the last, and as narrow as at least ten instances in each
        at every budget allow (one band where none do).
    """
    return pl.concat([_banded(part) for part in rows.partition_by("model", maintain_order=True)])


def _banded(rows: pl.DataFrame) -> pl.DataFrame:
    last = int(rows["layer"].max())  # type: ignore[arg-type]  # a whole number
    for width in range(1, last + 2):
        bands = rows.group_by("s", band=pl.col("layer") // width).len()
        wanted = rows["s"].n_unique() * (last // width + 1)
        if width > last or (bands.height == wanted and bands["len"].min() >= FEWEST):  # type: ignore[operator]
            break
    medians = ("looseness", "looseness_upper", "closable_pool", "closable_lower", "closable_upper")
    return (
        rows.group_by("model", "s", first_layer=pl.col("layer") // width * width)
        .agg(
            pl.len().cast(pl.Int64).alias("n"),
            pl.col(*medians).median(),
            looseness_p90=pl.col("looseness").quantile(0.9, "linear"),
            improved_known=pl.col("improved_known").sum().cast(pl.Int64),
        )
        .with_columns(last_layer=pl.min_horizontal(pl.col("first_layer") + width - 1, last))
        .select(
            "model", "s", "first_layer", "last_layer", pl.exclude("model", "s", "first_layer", "last_layer")
        )
        .sort("model", "s", "first_layer")
    )
