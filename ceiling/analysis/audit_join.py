"""Join: how far each press's kept sets are from their ceiling, beside the score of the same records."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_bytes import bytes_table
from ceiling.analysis.audit_cells import DRAWS, anchor_table, budget_order, resamplings
from ceiling.analysis.audit_gate import ASKED, gate
from ceiling.analysis.bootstrap import DRAWS as MEDIAN_DRAWS
from ceiling.analysis.bootstrap import FEWEST_DOCUMENTS, estimate
from ceiling.analysis.tables import table
from ceiling.problem import InputError

RATIOS = ("error_over_top", "balance_over_top")
MEANS = ("error", "e_top", "e_balance", "bound", "e_lower", "kept_mass", "top_mass", "count")
"""Columns of `audit_ceilings` that are averaged: errors over sigma, masses, kept keys."""

FEWEST_PRESSES = 4
"""Presses (count) below which no rank correlation is given: of three, one in six orders agrees by luck."""


def ceiling_scores(
    ceilings: pl.DataFrame | pl.LazyFrame, audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS
) -> pl.DataFrame:
    """Errors of kept sets over the top-mass sets' beside mean scores, for every press and budget.

    Parameters
    ----------
    ceilings, audit : polars.DataFrame or LazyFrame
        The store's `audit_ceilings` and `audit`.
    draws : int
        Resamplings of the scores; medians take at most 1000.

    Returns
    -------
    polars.DataFrame
        One row per model, arm, `rows_of` (question or answer), label and budget: `press, role, instances`;
        `error_over_top` with `_low` and `_high`, the median over instances of each one's median over layers
        (resampled within tasks), `balance_over_top` likewise where it was taken; means of `error, e_top,
        e_balance, bound, e_lower` (over sigma), `kept_mass, top_mass, count`; `score` with `_low` and
        `_high` and `held_share` as in `ceiling.analysis.audit_bytes.bytes_table`. Axes at the floor are left
        out.

    Raises
    ------
    InputError
        Where no kept set was judged, or the records refuse a ranking; see `bytes_table`.
    """
    records = gate(audit)
    scores = bytes_table(records, draws=draws)
    above = anchor_table(records, draws=0).filter(~pl.col("floor")).select("model", "axis")
    label = (
        pl.when(pl.col("parameters") == "").then("press").otherwise(pl.format("{}:{}", "press", "parameters"))
    )
    of = ("model", "arm", *ASKED, "label", "budget")  # a killed run may have judged more than it answered
    judged = ceilings.lazy().with_columns(label=label).collect().join(above, on=("model", "axis"))
    judged = judged.join(records.select(of), on=of, how="semi")
    if judged.is_empty():
        raise InputError(
            "audit_ceilings: no kept set was judged; run `ceiling audit` with --backend eager, --ceilings top"
        )
    keys = ("model", "arm", "rows_of", "label", "budget")
    columns = ["press", "role", "held_share", "score", "score_low", "score_high", "interval"]
    rows = [
        dict(zip(keys, key, strict=True)) | _medians(part, min(draws, MEDIAN_DRAWS))
        for key, part in sorted(judged.partition_by(keys, as_dict=True).items())
    ]
    both = table(rows).join(
        scores.select("model", "arm", "label", "budget", *columns), on=("model", "arm", "label", "budget")
    )
    place = pl.col("budget").replace_strict(
        {b: i for i, b in enumerate(sorted(both["budget"].unique(), key=budget_order))}
    )
    return both.sort("model", "arm", "rows_of", "label", place)


def _medians(part: pl.DataFrame, draws: int) -> dict[str, Any]:
    """Medians and means of one press at one budget, over instances."""
    units = (
        part.group_by("task", "instance").agg(pl.col(RATIOS).median(), pl.col(MEANS).mean()).sort(ASKED[:2])
    )
    tasks = dict(units.group_by("task").len().sort("task").iter_rows())
    rows = resamplings(tasks, draws if min(tasks.values()) >= FEWEST_DOCUMENTS else 0)
    found: dict[str, Any] = {"instances": units.height}
    for name in RATIOS:
        values = units[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        found |= estimate(name, np.median(values[rows], axis=1))
    return found | {name: units[name].cast(pl.Float64).mean() for name in MEANS}


def agreement(joined: pl.DataFrame) -> pl.DataFrame:
    """Whether presses that stay closer to the ceiling score better: their rank correlation, cell by cell.

    Parameters
    ----------
    joined : polars.DataFrame
        From `ceiling_scores`.

    Returns
    -------
    polars.DataFrame
        One row per model, arm, `rows_of` and budget: `presses` (one form of each), and `rho`, Spearman's
        correlation of score with error over top-mass's; -1: the smaller the error, the better the
        score. Null for fewer than four presses or where all scores are equal.
    """
    keys = ("model", "arm", "rows_of", "budget")
    rows = []
    for key, part in joined.partition_by(keys, as_dict=True, maintain_order=True).items():
        known = part.drop_nulls(["error_over_top", "score"]).sort("label")
        known = known.filter(pl.col("press").is_first_distinct())
        rho = known.select(pl.corr("error_over_top", "score", method="spearman")).item()
        enough = known.height >= FEWEST_PRESSES and rho is not None and np.isfinite(rho)
        where = dict(zip(keys, key, strict=True))
        rows.append(where | {"presses": known.height, "rho": float(rho) if enough else None})
    return table(rows)
