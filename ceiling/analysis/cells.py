"""Cells: the map of (layer, head) on which the dropped mass tells flat attention from peaked."""

from math import ceil
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate, null
from ceiling.analysis.instances import LABEL_RATIO, Group, checked, groups, is_measured, label
from ceiling.analysis.ranks import auc, ratio, share, spearman
from ceiling.analysis.tables import table
from ceiling.problem import InputError

MAP_BUDGET = 8
"""Budget (keys) at which the paper draws its map."""

FLAT_MASS = 0.25
"""Median dropped mass (probability) above which the paper calls a cell flat."""

EDGE_SHARE = 1 / 8
"""Share of the layers that is "edge" at each end, rounded up; this project's reading of the paper."""


def cell_map(
    instances: pl.DataFrame | pl.LazyFrame, *, budget: int = MAP_BUDGET, flat_mass: float = FLAT_MASS
) -> pl.DataFrame:
    """Median dropped mass and median kappa of every (layer, head) at one budget.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    budget : int
        The budget of the map, keys.
    flat_mass : float
        A cell is flat when its median dropped mass exceeds this.

    Returns
    -------
    polars.DataFrame
        `model, layer, head, n, trivial, degenerate, dropped_mass, kappa, label_rate, flat`, sorted;
        medians are over the `n` measured rows and null without any. A null kappa of a row counts as
        above every number, and a median beyond every number is null.

    Raises
    ------
    InputError
        When no instance has this budget; see also `ceiling.analysis.instances.groups`.

    Notes
    -----
    arXiv 2608.25230, map (figure 2): a flat cell has a median m_8 above 0.25.
    """
    frame = at_budget(checked(instances), budget)
    measured, trivial = is_measured(), pl.col("status") == "trivial"
    kappa = pl.col("kappa").fill_null(np.inf).filter(measured).median()
    return (
        frame.group_by("model", "layer", "head")
        .agg(
            n=measured.sum().cast(pl.Int64),
            trivial=trivial.sum().cast(pl.Int64),
            degenerate=(~measured & ~trivial).sum().cast(pl.Int64),
            dropped_mass=pl.col("dropped_mass").filter(measured).median(),
            kappa=pl.when(kappa.is_finite()).then(kappa),
            label_rate=label().filter(measured).mean(),
        )
        .with_columns(flat=pl.col("dropped_mass") > flat_mass)
        .sort("model", "layer", "head")
    )


def map_table(
    instances: pl.DataFrame | pl.LazyFrame,
    *,
    budget: int = MAP_BUDGET,
    flat_mass: float = FLAT_MASS,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """What the map says, per model.

    Returns
    -------
    polars.DataFrame
        The identity columns at `budget`; `cells`, `flat_cells`; `cell_auc` (AUC of a cell's median
        dropped mass for a median kappa above 1.11, null when all cells agree); `edge_interior` with
        `_low` and `_high` (rate of the label in edge layers over interior layers); `rho_depth`
        (Spearman, over layers, of the median dropped mass and the rate of the label). Each of these two
        needs every layer: null where a model's layers are not 0, 1, and so on without a gap; layers that are
        missing at the end go unnoticed.

    Notes
    -----
    arXiv 2608.25230, map and table 6. The paper gives no formula for the last three; the edge is
    read as the first and last eighth of the layers, rounded up. Rates are those of the map's budget.
    """
    frame = at_budget(checked(instances), budget)
    cells = cell_map(frame, budget=budget, flat_mass=flat_mass)
    rows = []
    for group in groups(frame, draws=draws, seed=seed):
        mine = cells.filter((pl.col("model") == group.model) & (pl.col("n") > 0))
        row = group.identity() | {"cells": mine.height, "flat_cells": int(mine["flat"].sum())}
        closable = (mine["kappa"].fill_null(np.inf) > LABEL_RATIO).to_numpy()
        row["cell_auc"] = once(auc, mine["dropped_mass"].to_numpy(), closable)
        rows.append(row | _depth(group, frame.filter(model=group.model)["layer"].unique().sort().to_list()))
    return table(rows)


def at_budget(frame: pl.DataFrame, budget: int) -> pl.DataFrame:
    """The rows of one budget, or `InputError` saying what to enumerate."""
    rows = frame.filter(pl.col("s") == budget)
    if rows.is_empty():
        there = frame["s"].unique().sort().to_list()
        wanted = ",".join(map(str, sorted([*there, budget])))
        raise InputError(
            f"s: the store has no instances at s = {budget} (it has {', '.join(map(str, there))}); "
            f"run `ceiling enumerate --budgets {wanted}` into a new store"
        )
    return rows


def _depth(group: Group, layers: list[int]) -> dict[str, Any]:
    """`edge_interior` and `rho_depth` of a model with results in `layers`; null unless those are all."""
    if layers != list(range(len(layers))):
        return estimate("edge_interior", np.full(len(group.weights), np.nan)) | {"rho_depth": None}
    each = group.rows.group_by("layer").agg(pl.col("dropped_mass").median(), pl.col("label").mean())
    rho = once(spearman, each["dropped_mass"].to_numpy(), each["label"].to_numpy())
    return estimate("edge_interior", _edge_interior(group, len(layers))) | {"rho_depth": rho}


def _edge_interior(group: Group, layers: int) -> np.ndarray:
    """Rate of the label in the edge of so many layers over the rate in the interior, shape (R,)."""
    layer, hit = group.rows["layer"].to_numpy(), group.rows["label"].to_numpy()
    depth = ceil(layers * EDGE_SHARE)
    edge = (layer < depth) | (layer >= layers - depth)
    rates = [share(hit[side], group.cluster[side], group.weights) for side in (edge, ~edge)]
    return ratio(rates[0], rates[1])


def once(statistic: Any, x: np.ndarray, y: np.ndarray) -> float | None:
    """`statistic` of an unweighted sample: every element its own count, no resampling."""
    return null(statistic(x, y, np.zeros(len(x), dtype=np.int64), np.ones((1, 1), dtype=np.int64))[0])
