"""Agreement: is the map of a model the same on another text?"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import null
from ceiling.analysis.cells import FLAT_MASS, MAP_BUDGET, cell_map, once
from ceiling.analysis.ranks import spearman

AGREEMENT = (
    "`same_label`: share of the cells measured on both texts that are flat on both or on neither; "
    "`rho_dropped_mass`, `rho_kappa`: Spearman's correlation, over those cells, of the medians. "
    "With one text there is nothing to compare."
)
"""What is compared; the paper names the agreement of the map without a formula."""

SCHEMA: dict[str, type[pl.DataType]] = {
    **{"model": pl.String, "cells": pl.Int64, "flat_first": pl.Int64, "flat_second": pl.Int64},
    **{"same_label": pl.Float64, "rho_dropped_mass": pl.Float64, "rho_kappa": pl.Float64},
}
"""The columns of `map_agreement`."""


def map_agreement(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Compare two maps of the same models, cell by cell.

    Parameters
    ----------
    first, second : polars.DataFrame
        From `ceiling.analysis.cell_map`, each of one text.

    Returns
    -------
    polars.DataFrame
        One row per model in both: `model, cells` (measured in both), `flat_first, flat_second` (cells),
        `same_label`, `rho_dropped_mass`, `rho_kappa`; see `AGREEMENT`. A median kappa beyond every number
        ranks last.
    """
    where = ["model", "layer", "head"]
    both = first.filter(pl.col("n") > 0).join(second.filter(pl.col("n") > 0), on=where, suffix="_second")
    rows = []
    for (model,), cells in both.sort(where).partition_by("model", as_dict=True, maintain_order=True).items():
        row = {"model": model, "cells": cells.height}
        row |= {"flat_first": int(cells["flat"].sum()), "flat_second": int(cells["flat_second"].sum())}
        row["same_label"] = null((cells["flat"] == cells["flat_second"]).mean())
        for column in ("dropped_mass", "kappa"):
            x, y = (cells[name].fill_null(np.inf).to_numpy() for name in (column, f"{column}_second"))
            row[f"rho_{column}"] = once(spearman, x, y)
        rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA)


def agreement_table(
    texts: Mapping[str, pl.DataFrame], *, budget: int = MAP_BUDGET, flat_mass: float = FLAT_MASS
) -> pl.DataFrame:
    """`map_agreement` of every pair of texts.

    Parameters
    ----------
    texts : mapping of str to polars.DataFrame
        Instances by the name of their text, from `ceiling.analysis.contexts.by_context`; texts without
        the budget are left out.
    budget, flat_mass
        As in `ceiling.analysis.cell_map`.

    Returns
    -------
    polars.DataFrame
        `first, second` (texts), then the columns of `map_agreement`; no row where there is one text.
    """
    maps = {
        name: cell_map(frame, budget=budget, flat_mass=flat_mass)
        for name, frame in texts.items()
        if (frame["s"] == budget).any()
    }
    parts = [
        map_agreement(maps[a], maps[b]).select(pl.lit(a).alias("first"), pl.lit(b).alias("second"), pl.all())
        for a, b in combinations(maps, 2)
    ]
    nothing = pl.DataFrame(schema={"first": pl.String, "second": pl.String, **SCHEMA})
    return pl.concat([nothing, *parts])
