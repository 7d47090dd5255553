"""Proved intervals of the closable share, by budget, mass floor and decile of dropped mass."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED
from ceiling.analysis.certificates import certified
from ceiling.analysis.certification import proved, verdicts
from ceiling.analysis.instances import Group
from ceiling.analysis.tables import table
from ceiling.problem import InputError

DECILES = 10
"""Strata of dropped mass, as in the manifest."""


def interval_table(
    certificates: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """The median interval of the closable share in every decile of dropped mass.

    Parameters
    ----------
    certificates : polars.DataFrame or LazyFrame
        The store's `certificates`.
    draws, seed : int
        Of the cluster bootstrap over documents; no interval is given for a decile that lacks a document
        in some resampling.

    Returns
    -------
    polars.DataFrame
        One row per model, `mass_floor`, budget and `decile` (from 1) that holds instances: `documents, n`,
        the median `dropped_mass`, how many are `solved`, then `closable_lower`, `closable_upper` with
        `_low` and `_high`, `lower_over_upper` and `light`, as in
        `ceiling.analysis.certification.certification_table`. Trivial and degenerate rows are left out.

    Raises
    ------
    InputError
        See `ceiling.analysis.certificates.certified`; also when every row is left out.

    Notes
    -----
    Deciles are those of the manifest, of all eligible rows of the dump at the budget; certificates without
    one are cut into tenths among themselves, ties by their place in the table.
    """
    groups = certified(certificates, draws=draws, seed=seed)
    rows = [row for floor, group in groups for row in _rows(floor, group)]
    if not rows:
        raise InputError("certificates: all are trivial or degenerate; certify rows with more keys")
    return table(rows)


def _rows(floor: float, group: Group) -> Iterator[dict[str, Any]]:
    own = (pl.col("dropped_mass").rank("ordinal") - 1) * DECILES // pl.len() + 1
    drawn = group.rows["decile"].null_count() == 0
    decile = pl.col("decile") if drawn else own.cast(pl.Int64)
    named = Group(
        group.model,
        group.s,
        group.rows.with_columns(decile=decile, solved=verdicts()["solved"]),
        group.weights,
        group.trivial,
        group.degenerate,
    )
    for number in named.rows["decile"].unique().sort():
        part = named.keep(pl.col("decile") == number)
        yield {
            "model": part.model,
            "mass_floor": floor,
            "s": part.s,
            "decile": number,
            "documents": part.rows["cluster"].n_unique(),
            "n": part.rows.height,
            "dropped_mass": part.rows["dropped_mass"].median(),
            "solved": int(part.rows["solved"].sum()),
        } | proved(part, part.weights)
