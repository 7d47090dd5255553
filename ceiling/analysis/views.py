"""Views: the tables of the analysis as lazy frames, to be named in SQL; point values, but for the fits."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from polars.lazyframe.group_by import LazyGroupBy

from ceiling.analysis.cells import FLAT_MASS
from ceiling.analysis.closable import COVERAGES, QUANTILES
from ceiling.analysis.contexts import of_text
from ceiling.analysis.fitted import fits_view
from ceiling.analysis.instances import WHERE, is_measured, label
from ceiling.analysis.profile import CLOSE
from ceiling.objective import TIE
from ceiling.problem import InputError, Status

BUDGET = ("model", "s")
"""What the views but `cells` have one row of."""


def ceiling_view(instances: pl.LazyFrame) -> pl.LazyFrame:
    """The point values of `ceiling.analysis.ceiling_table`.

    Parameters
    ----------
    instances : polars.LazyFrame
        The store's `instances`.

    Returns
    -------
    polars.LazyFrame
        One row per model and budget, in no order: `model, s, documents, n, trivial, degenerate, closable,
        closable_balance, closable_labelled, recovered, closable_p25, closable_p75, closable_p90,
        closable_p99, attained, kappa_le_1_5, kappa_le_2, n_labelled, n_recovered, ratio`; `documents`
        are those at this budget. Without instances the frame is empty.

    Raises
    ------
    InputError
        A model under several configurations, as in `ceiling.analysis.instances.checked`.

    Notes
    -----
    One small query runs at once, to find texts that several dumps hold (whose rows count once);
    filters on `model` and `s`, and unused columns, reach the scan of what was passed.
    """
    kappa = _kappa()
    return (
        _grouped(
            instances,
            BUDGET,
            closable=pl.col("closable"),
            closable_balance=pl.col("closable_balance"),
            closable_labelled=pl.when(label()).then(pl.col("closable")),
            recovered=pl.col("recovered"),
            label=label(),
            attained=pl.col("e_top") <= pl.col("e_pool") * (1 + TIE),
            **{name: kappa <= bound for name, bound in COVERAGES.items()},
        )
        .agg(
            *_identity(),
            pl.col("closable", "closable_balance", "closable_labelled", "recovered").median(),
            *(pl.col("closable").quantile(q, "linear").name.suffix(f"_{p}") for p, q in QUANTILES.items()),
            pl.col("attained", *COVERAGES).mean(),
            n_labelled=_total("label"),
            n_recovered=pl.col("recovered").count().cast(pl.Int64),
        )
        .with_columns(ratio=1 - pl.col("closable"))
    )


def cells_view(instances: pl.LazyFrame) -> pl.LazyFrame:
    """`ceiling.analysis.cell_map` at every budget.

    Returns
    -------
    polars.LazyFrame
        One row per model, budget, layer and head, in no order: `model, s, layer, head, n, trivial,
        degenerate, dropped_mass, kappa, label_rate, flat`. The paper's map is that of s = 8, and so is
        its word flat.
    """
    return (
        _grouped(
            instances,
            (*BUDGET, "layer", "head"),
            dropped_mass=pl.col("dropped_mass"),
            kappa=_kappa(),
            label_rate=label(),
        )
        .agg(
            _total("n", "trivial", "degenerate"),
            pl.col("dropped_mass").median(),
            kappa=_finite(pl.col("kappa").median()),
            label_rate=pl.col("label_rate").mean(),
        )
        .with_columns(flat=pl.col("dropped_mass") > FLAT_MASS)
    )


def profile_view(instances: pl.LazyFrame) -> pl.LazyFrame:
    """The point values of `ceiling.analysis.budget_profile`, and `below_one` of the penalty table.

    Returns
    -------
    polars.LazyFrame
        One row per model and budget, in no order: `model, s, documents, n, trivial, degenerate,
        geo_over_top, lev_over_top, share_es_le_0_9_top, median_kappa, p99_kappa, n_pi, below_one,
        median_pi, p99_pi, n_pi_improved, median_pi_improved, p99_pi_improved, rho_phi_es_pool`; pi is
        e_pool / ef_fw, pi_improved e_pool / ef: `ceiling.analysis.penalty.CAVEAT` holds for both.
    """
    e_top, e_pool, kappa, pi = (pl.col(name) for name in ("e_top", "e_pool", "kappa", "pi"))
    improved = pl.col("pi_improved")
    return _grouped(
        instances,
        BUDGET,
        kappa=_kappa(),
        share_es_le_0_9_top=e_pool <= CLOSE * e_top,
        geo_over_top=pl.col("e_geometric") / e_top,
        lev_over_top=pl.col("e_leverage") / e_top,
        pi=pi,
        pi_improved=improved,
        phi=pl.col("phi"),
        e_pool=e_pool,
    ).agg(
        *_identity(),
        pl.col("geo_over_top", "lev_over_top").median(),
        pl.col("share_es_le_0_9_top").mean(),
        median_kappa=_finite(kappa.median()),
        p99_kappa=_finite(kappa.quantile(0.99, "linear")),
        n_pi=pi.count().cast(pl.Int64),
        below_one=(pi < 1).mean(),
        median_pi=pi.median(),
        p99_pi=pi.quantile(0.99, "linear"),
        n_pi_improved=improved.count().cast(pl.Int64),
        median_pi_improved=improved.median(),
        p99_pi_improved=improved.quantile(0.99, "linear"),
        rho_phi_es_pool=_finite(pl.corr(pl.col("phi").rank("average"), e_pool.rank("average"))),
    )


def prediction_view(instances: pl.LazyFrame) -> pl.LazyFrame:
    """The AUC of `ceiling.analysis.prediction_table` per budget, and of other scores beside it.

    Returns
    -------
    polars.LazyFrame
        One row per model and budget, in no order: `model, s, documents, n, trivial, degenerate,
        n_labelled`, then the AUC for the label kappa > 1.11, null when all labels are equal: `auc` of the
        dropped mass m, `auc_radius` of D, `auc_radius_mass` of 2 D m, `auc_sigma_mass` of
        sqrt(m / (1 - m)) sigma, `auc_phi` of phi.

    Notes
    -----
    arXiv 2608.25230, prediction. Rows whose score is null are left out of that score's AUC.
    """
    mass, radius, sigma = pl.col("dropped_mass"), pl.col("radius"), pl.col("sigma")
    scores = {
        "auc": mass,
        "auc_radius": radius,
        "auc_radius_mass": 2 * radius * mass,
        "auc_sigma_mass": (mass / (1 - mass)).sqrt() * sigma,
        "auc_phi": pl.col("phi"),
    }
    return _grouped(instances, BUDGET, label=label(), **scores).agg(
        *_identity(), n_labelled=_total("label"), **{name: _auc(name) for name in scores}
    )


def _of_main_texts(view: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Callable[..., pl.LazyFrame]:
    """`view` on the instances that the figures count; on all where no documents are given."""

    def counted(instances: pl.LazyFrame, documents: pl.LazyFrame | None = None) -> pl.LazyFrame:
        return view(instances if documents is None else of_text(instances, documents))

    return counted


VIEWS: dict[str, Callable[..., pl.LazyFrame]] = {
    "ceiling": _of_main_texts(ceiling_view),
    "cells": _of_main_texts(cells_view),
    "profile": _of_main_texts(profile_view),
    "prediction": _of_main_texts(prediction_view),
    "fits": _of_main_texts(fits_view),
}
"""By their names in SQL; each makes its frame from the store's `instances` and `documents`: of the main
texts, as `ceiling.analysis.of_text` has them."""


def _counted_once(instances: pl.LazyFrame) -> pl.LazyFrame:
    """`instances` where a row of one text that several dumps of a model hold stands once.

    Only the rows of such texts pass the costly `unique`; where there are none, nothing is added.
    """
    where = ("dump", "document", "config")
    ends = [pl.col(where).min().name.suffix("_first"), pl.col(where).max().name.suffix("_last")]
    texts = instances.group_by("model", "text_id").agg(ends).collect(engine="streaming")
    for model, first, last in (
        texts.group_by("model").agg(pl.col("config_first").min(), pl.col("config_last").max()).iter_rows()
    ):
        if first != last:
            raise InputError(
                f"instances: {model} was enumerated under several configurations, {first} and {last} among "
                "them, whose pools or engines differ; name one with --config"
            )
    elsewhere = pl.any_horizontal(pl.col(f"{w}_first") != pl.col(f"{w}_last") for w in ("dump", "document"))
    repeated = texts.filter(elsewhere & pl.col("text_id").is_not_null())["text_id"].unique(
        maintain_order=True
    )
    if repeated.is_empty():
        return instances
    again = pl.col("text_id").is_in(repeated.to_list()).fill_null(False)
    once = instances.filter(again).unique(WHERE, keep="first", maintain_order=True)
    return pl.concat([instances.filter(~again), once])


def _grouped(instances: pl.LazyFrame, by: Sequence[str], **values: pl.Expr) -> LazyGroupBy:
    """`instances` grouped, with the counted columns and `values`, null in rows that are not measured.

    What is null passes by medians, means, counts and ranks, at a fraction of the time that a filter
    inside each aggregate takes.
    The text is not made by `pl.format`, which panics in polars 2.1 on the empty batches that filters leave.
    """
    measured, trivial = is_measured(), pl.col("status") == Status.TRIVIAL
    return (
        _counted_once(instances)
        .select(
            *by,
            text=pl.coalesce("text_id", pl.concat_str("dump", "document", separator=" ")),
            n=measured,
            trivial=trivial,
            degenerate=~measured & ~trivial,
            **{name: pl.when(measured).then(value) for name, value in values.items()},
        )
        .group_by(by)
    )


def _identity() -> list[pl.Expr]:
    documents = pl.col("text").n_unique().cast(pl.Int64).alias("documents")
    return [documents, _total("n", "trivial", "degenerate")]


def _total(*flags: str) -> pl.Expr:
    return pl.col(flags).sum().cast(pl.Int64)


def _kappa() -> pl.Expr:
    """kappa, where a null counts as above every number."""
    return pl.col("kappa").fill_null(np.inf)


def _finite(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_finite()).then(value)


def _auc(score: str) -> pl.Expr:
    """Probability that a labelled row scores above another, ties counting one half: from mean ranks.

    The ranks of the n labelled rows sum to their wins and n (n + 1) / 2, what they sum to among
    themselves; all are multiples of one half, exact in float64 below 2^52: up to 10^7 rows a group.
    """
    label, known = pl.col("label"), pl.col(score).is_not_null()
    trues, falses = ((which & known).sum().cast(pl.Float64) for which in (label, ~label))
    wins = pl.col(score).rank("average").filter(label).sum() - trues * (trues + 1) / 2
    return pl.when(trues * falses > 0).then(wins / (trues * falses))
