"""Within a cell: does the dropped mass tell apart the rows of one layer and head?"""

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.prediction import logistic_columns
from ceiling.analysis.ranks import auc
from ceiling.analysis.tables import table

BINS = 64
"""Bins (count) of the dropped mass for the resampled fits of one cell, which has a few hundred rows: each
holds a handful, and 1000 resamplings of hundreds of cells take seconds."""


def cell_predictions(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """AUC and logistic fit of the label kappa > 1.11 on the dropped mass, per layer and head.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, layer and head, all budgets pooled: `model, layer, head, n_pooled, n_labelled,
        auc, intercept, slope` (each with `_low` and `_high`) and `fit`, as in
        `ceiling.analysis.prediction_table`. An interval needs both labels in every resampling.

    Notes
    -----
    arXiv 2608.25230, prediction: the AUC is given per family, budget and cell.
    """
    rows = []
    for group in groups(instances, pooled=True, draws=draws, seed=seed):
        cells = group.rows.partition_by("layer", "head", as_dict=True)
        for (layer, head), mine in sorted(cells.items()):
            cell = Group(group.model, None, mine, group.weights, 0, 0)
            label = mine["label"].to_numpy()
            row = {"model": group.model, "layer": layer, "head": head}
            row |= {"n_pooled": mine.height, "n_labelled": int(label.sum())}
            row |= estimate("auc", auc(cell.values("dropped_mass"), label, cell.cluster, cell.weights))
            rows.append(row | logistic_columns(cell, bins=BINS))
    return table(rows)


def cell_summary(predictions: pl.DataFrame) -> pl.DataFrame:
    """How `cell_predictions` spread over the cells of a model.

    Returns
    -------
    polars.DataFrame
        `model, cells`, `with_auc` (cells that hold both labels), `auc_p10, auc_median, auc_p90` and
        `above_half` (share of them whose AUC exceeds 1/2), `fitted` and `slope_median`.
    """
    known = pl.col("auc")
    return (
        predictions.group_by("model", maintain_order=True)
        .agg(
            cells=pl.len().cast(pl.Int64),
            with_auc=known.count().cast(pl.Int64),
            auc_p10=known.quantile(0.1, "linear"),
            auc_median=known.median(),
            auc_p90=known.quantile(0.9, "linear"),
            above_half=(known > 0.5).mean(),
            fitted=(pl.col("fit") == "fitted").sum().cast(pl.Int64),
            slope_median=pl.col("slope").median(),
        )
        .sort("model")
    )
