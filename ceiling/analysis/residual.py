"""The value-side residual: what of the closable share dropped mass tells, what the values, what both."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.cells import MAP_BUDGET
from ceiling.analysis.finding import Finding
from ceiling.analysis.instances import Group, groups
from ceiling.analysis.ranks import quantile, ratio
from ceiling.analysis.scores import UNIFORM, score_groups, scored
from ceiling.analysis.tables import shown, table
from ceiling.objective import TIE
from ceiling.problem import InputError

MASS = ("mass",)
VALUES = ("offset", "radius", "spectral")
SIDES = {"mass": MASS, "values": VALUES, "both": (*MASS, *VALUES)}
"""The predictors of each fit."""

RESOLVED = 1e-9
"""Dropped mass (probability) below which 1 - kept_mass has fewer than six digits: no part of a split."""

DEFINITIONS = (
    "The forced error of a kept set A is e(A) = m(A)·offset(A): the dropped mass times the distance between "
    "what is dropped and what is kept, the value-side residual; ‖g_A‖ = (1 − m)·e(A). The mass side is the "
    "logit of top-mass's dropped mass; the value side log(offset/σ), log(D/σ) and the spectral statistic."
)
"""Stands below figure and table."""

FLAT = 1e-9
"""Spread of a predictor, relative to its mean, below which it is one number and rounding."""

OUT_OF_DOCUMENT = (
    "R² of a linear least-squares fit of the closable share, each document predicted by a fit to the others: "
    "1 − Σ(y − ŷ)²/Σ(y − ȳ)² with ȳ the mean of the others too. It is below 0 where a fit predicts worse "
    "than that mean. Intervals resample documents with the fits held. The offset contains e_top, the "
    "denominator of the closable share, so part of what it explains is arithmetic: an error that happens to "
    "be large leaves more to close. What no fit explains lies in what these numbers do not hold, such as "
    "directions."
)
"""Says what the first half of figure and table is."""

SPLIT = (
    "The gain of balancing, log(e_top/e_balance), is exactly what it pays in mass, log(m_top/m_balance) ≤ 0, "
    "and what it wins in offset, log(offset_top/offset_balance); medians, which need not add up, over rows "
    "on which balancing lowers the error."
)
"""Says what the second half is."""


def residual_table(
    instances: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pl.DataFrame:
    """How much of the closable share each side of the error explains, per budget and layer.

    Parameters
    ----------
    instances : polars.DataFrame or LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        Per model and budget one row for all layers together (`layer` null) and one a layer: the identity
        columns (`n` fitted rows), `undefined` (measured rows without some predictor, left out), and with
        `_low` and `_high` the out-of-document R² `mass`, `values` and `both` of the three fits, `only_mass`
        = both - values, `only_values` = both - mass, and `difference` = mass - values. `with_spectral` says
        whether the store has that statistic; without it the value side has two predictors.

    Raises
    ------
    InputError
        Where no model has two documents; see also `ceiling.analysis.instances.groups`.

    Notes
    -----
    arXiv 2608.25230 leaves the value side of the error open; this reading is the project's. The identity
    behind it: e_S(A) = m(A)·‖m_{A^c} − m_A‖. Row 0 of the weights is the estimate. Resampling reweights the
    documents' sums of squares and fits nothing anew, so a document twice in a sample never predicts itself.
    """
    rows, most = [], 0
    for group in groups(instances, draws=draws, seed=seed):
        most = max(most, group.documents)
        whole = _with_predictors(group)
        layers = whole.rows["layer"].unique().sort()
        parts = [(None, whole), *((layer, whole.keep(pl.col("layer") == layer)) for layer in layers)]
        measured = dict(group.rows.group_by("layer").len().iter_rows()) | {None: group.rows.height}
        for layer, part in parts:
            left_out = {"undefined": measured[layer] - part.rows.height}
            rows.append({"layer": layer} | part.identity() | left_out | _explained(part))
    if most < 2:
        raise InputError(
            "instances: each model has one document, and a fit must be judged on a document it has not seen; "
            "run `ceiling capture --documents 5` or more"
        )
    return table(rows).select("model", "s", "layer", pl.exclude("model", "s", "layer"))


def out_of_document(
    predictors: np.ndarray, y: np.ndarray, cluster: np.ndarray, documents: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of squares, per document, of what the other documents' fit and their mean leave of `y`.

    Parameters
    ----------
    predictors : ndarray of float64, shape (n, k)
    y : ndarray of float64, shape (n,)
    cluster : ndarray of int64, shape (n,)
        Document of every row.
    documents : int

    Returns
    -------
    tuple of ndarray of float64, each shape (documents,)
        Of the fit and of the mean; 0 for a document without rows or without other documents.
    """
    fit, mean = np.zeros(documents), np.zeros(documents)
    if len(y) == 0:
        return fit, mean
    centre, spread = predictors.mean(axis=0), predictors.std(axis=0)
    varies = spread > FLAT * (1 + np.abs(centre))
    scaled = (predictors - centre) / np.where(varies, spread, np.inf)  # changes no prediction but by rounding
    design = np.column_stack([np.ones(len(y)), scaled])
    for d in range(documents):
        own = cluster == d
        if own.any() and not own.all():
            coefficients = np.linalg.lstsq(design[~own], y[~own], rcond=None)[0]
            fit[d] = ((y[own] - design[own] @ coefficients) ** 2).sum()
            mean[d] = ((y[own] - y[~own].mean()) ** 2).sum()
    return fit, mean


def split_table(scores: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED) -> pl.DataFrame:
    """What balancing pays in mass and wins in offset, per budget and layer.

    Parameters
    ----------
    scores : polars.DataFrame or LazyFrame
        The store's `scores`; of the uniform allocation, per query, top-mass and balancing are read.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        Per model and budget one row for all layers together (`layer` null) and one a layer: `documents`;
        `n`, the rows on which balancing lowers the error, and `unchanged`, those on which it does not; and
        of the n, with `_low` and `_high`, the medians `gain` of log(e_top/e_balance), `mass_part` of
        log(m_top/m_balance), never above 0 but by rounding, and `offset_part` of
        log(offset_top/offset_balance). In every row gain = mass_part + offset_part; medians need not add
        up. Empty where the scores lack one of the two selectors.

    Raises
    ------
    InputError
        See `ceiling.analysis.scores.scored`.

    Notes
    -----
    Left out: trivial and degenerate rows, and those whose dropped mass is below `RESOLVED` or whose balanced
    error is 0 (`unresolved`).
    """
    wanted = pl.col("selector").is_in(["top-mass", "balancing"]) & (pl.col("reading") == "per-query")
    some = scores.lazy().filter(wanted & (pl.col("allocation") == UNIFORM))
    if some.select(pl.col("selector").n_unique()).collect().item() < 2:
        return pl.DataFrame()
    frame = scored(some).filter("measured")
    where = ("model", "cluster", "layer", "head", "position", "s")
    top, balanced = (frame.filter(selector=name) for name in ("top-mass", "balancing"))
    both = top.join(balanced.select(*where, "error", "kept_mass"), on=where, suffix="_balance")
    rows = []
    for _, group in score_groups(both, draws=draws, seed=seed):
        layers = group.rows["layer"].unique().sort()
        parts = [(None, group), *((layer, group.keep(pl.col("layer") == layer)) for layer in layers)]
        rows += [{"model": group.model, "s": group.s, "layer": layer} | _split(part) for layer, part in parts]
    return table(rows)


def residual_finding(residual: pl.DataFrame, split: pl.DataFrame) -> Finding:
    """Which side explains how much of the closable share, and what balancing pays, family by family.

    Parameters
    ----------
    residual, split : polars.DataFrame
        From `residual_table` and `split_table`.

    Returns
    -------
    Finding
        Of all layers together, at the map's budget, or a family's least where it has not that.
    """
    said, numbers, n = [], [], []
    for mine in residual.filter(pl.col("layer").is_null()).partition_by("model", maintain_order=True):
        budgets = mine["s"].to_list()
        s = MAP_BUDGET if MAP_BUDGET in budgets else min(budgets)
        row = mine.filter(s=s).row(0, named=True)
        n.append(f"{row['n']:,} instances of {row['documents']} documents ({row['model']})")
        if row["both"] is None:
            said.append(f"{row['model']} has too few documents to say")
            continue
        of = f"{row['mass']:.2f} by mass, {row['values']:.2f} by values, {row['both']:.2f} by both"
        said.append(f"{row['model']} at s = {s}: {of}, {_more(row)}{_paid(split, row['model'], s)}")
        numbers.append(f"{shown(row, 'both')} ({row['model']})")
    return Finding(
        sentence=f"Share of the closable share's variance that a linear fit explains: {'; '.join(said)}.",
        n="; ".join(n),
        interval=f"by both, out of document: {'; '.join(numbers)}" if numbers else "none: too few documents",
        paper="none: the paper leaves the value side open",
    )


def _with_predictors(group: Group) -> Group:
    """The rows on which every predictor is defined, with the predictors as columns."""
    mass, sigma = pl.col("dropped_mass"), pl.col("sigma")
    defined = (
        mass.is_between(0, 1, closed="none") & (pl.col("e_top") > 0) & (sigma > 0) & (pl.col("radius") > 0)
    )
    kept = group.keep(defined & pl.col("closable").is_not_null())
    if kept.rows["spectral"].count():
        kept = kept.keep(pl.col("spectral").is_not_null())
    rows = kept.rows.with_columns(
        mass=mass.log() - (-mass).log1p(),
        offset=(pl.col("e_top") / mass / sigma).log(),
        radius=(pl.col("radius") / sigma).log(),
    )
    return Group(group.model, group.s, rows, group.weights, group.trivial, group.degenerate)


def _explained(part: Group) -> dict[str, Any]:
    found: dict[str, np.ndarray] = {}
    has_spectral = part.rows["spectral"].count() > 0
    for side, names in SIDES.items():
        known = [name for name in names if has_spectral or name != "spectral"]
        columns = part.rows.select(known).to_numpy()
        fit, mean = out_of_document(columns, part.values("closable"), part.cluster, part.documents)
        found[side] = 1 - ratio(part.weights @ fit, part.weights @ mean)
    found["only_mass"], found["only_values"] = found["both"] - found["values"], found["both"] - found["mass"]
    found["difference"] = found["mass"] - found["values"]
    row: dict[str, Any] = {}
    for name, replicates in found.items():
        row |= estimate(name, replicates)
    return row | {"with_spectral": has_spectral}


def _split(part: Group) -> dict[str, Any]:
    kept = pl.col("kept_mass", "kept_mass_balance")
    resolved = part.rows.filter(
        pl.all_horizontal(1 - kept > RESOLVED) & (pl.col("error_balance") > 0) & (pl.col("error") > 0)
    )
    rows = resolved.filter(pl.col("error_balance") < pl.col("error") * (1 - TIE))
    e_top, e_balance, k_top, k_balance = (
        rows[name].to_numpy() for name in ("error", "error_balance", "kept_mass", "kept_mass_balance")
    )
    m_top, m_balance = 1 - k_top, 1 - k_balance
    parts = {
        "gain": np.log(e_top / e_balance),
        "mass_part": np.log(m_top / m_balance),
        "offset_part": np.log((e_top / m_top) / (e_balance / m_balance)),
    }
    row: dict[str, Any] = {"documents": part.documents, "n": rows.height}
    row |= {"unchanged": resolved.height - rows.height, "unresolved": part.rows.height - resolved.height}
    cluster = rows["cluster"].to_numpy()
    for name, values in parts.items():
        row |= estimate(name, quantile(values, cluster, part.weights, 0.5))
    return row


def _more(row: dict[str, Any]) -> str:
    low, high = row["difference_low"], row["difference_high"]
    if low is None or low <= 0 <= high:
        return "which side explains more is open"
    return "mass explains more than values" if low > 0 else "values explain more than mass"


def _paid(split: pl.DataFrame, model: str, s: int) -> str:
    """What balancing pays and wins there, in words; nothing where that is not known."""
    if split.is_empty():
        return ""
    rows = split.filter(pl.col("layer").is_null(), model=model, s=s).drop_nulls("gain")
    if rows.is_empty():
        return ""
    mass, offset = (float(np.exp(-rows[name][0])) for name in ("mass_part", "offset_part"))
    changed = "where balancing changes the set it multiplies"
    return f" ({changed} dropped mass by {mass:.2f} and offset by {offset:.2f})"
