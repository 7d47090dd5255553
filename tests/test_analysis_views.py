"""Views: the same numbers as the tables of the analysis, from lazy expressions."""

from collections.abc import Callable

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ceiling.analysis import budget_profile, ceiling_table, cell_map, prediction_table
from ceiling.analysis.ranks import auc
from ceiling.analysis.views import VIEWS
from ceiling.problem import InputError
from ceiling.store import TABLES
from tests.toy_store import hand_made, toy_documents, toy_instances

ROUNDING = 1e-12
"""Relative: the same statistic by another order of operations."""


def measured_twice() -> pl.DataFrame:
    """A pilot capture beside the whole one, in other words the same rows with other errors."""
    whole = toy_instances(documents=3).with_columns(text_id=pl.format("text {}", "document"))
    pilot = whole.filter(pl.col("document") < 2, pl.col("layer") < 4).with_columns(
        pl.col("e_pool", "e_balance", "kappa", "closable", "dropped_mass") * 0.9,
        dump=pl.lit("a pilot"),
        document=1 - pl.col("document"),
    )
    return pl.concat([pilot, whole])


FRAMES = {
    "two models": pl.concat([toy_instances("b", documents=6), toy_instances("a", documents=2, seed=1)]),
    "a text in two dumps": measured_twice(),
    "kappa beyond every number": hand_made({"e_pool": 1.0}, {"e_pool": 0.5}, {"e_pool": 1e-9}),
    "most kappas beyond every number": hand_made({"e_pool": 1e-9}, {"e_pool": 1e-9}, {"e_pool": 0.9}),
    "one row": hand_made({}),
    "one label": hand_made({"e_pool": 1.0}, {"e_pool": 1.0, "dropped_mass": 0.4}),
    "nothing measured": hand_made(
        {"status": "trivial", "e_top": 0.0, "e_pool": 0.0}, {"status": "degenerate", "degenerate": True}
    ),
    "some not measured": hand_made({}, {"e_pool": 0.2}, {"degenerate": True}, {"status": "trivial"}),
    "no leverage, no pi": hand_made({"e_leverage": None, "e_pool": 1e-9}, {"e_leverage": None}),
}


def cell_maps(frame: pl.DataFrame, **_: int) -> pl.DataFrame:
    budgets = frame["s"].unique().to_list()
    return pl.concat(cell_map(frame, budget=s).insert_column(1, pl.lit(s).alias("s")) for s in budgets)


TABLE: dict[str, tuple[Callable[..., pl.DataFrame], list[str]]] = {
    "ceiling": (ceiling_table, ["model", "s"]),
    "cells": (cell_maps, ["model", "s", "layer", "head"]),
    "profile": (budget_profile, ["model", "s"]),
    "prediction": (prediction_table, ["model", "s"]),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("name", TABLE)
def test_point_values_are_those_of_the_analysis(name: str, frame: pl.DataFrame):
    table, keys = TABLE[name]
    expected = table(frame, draws=0).drop(cs.ends_with("_low", "_high"), "interval", strict=False)
    expected = expected.filter(pl.col("s").is_not_null()).with_columns(cs.by_name("s").cast(pl.Int64))
    view = VIEWS[name](frame.lazy()).collect(engine="streaming")
    shared = [column for column in view.columns if not column.startswith("auc_")]
    omitted = {"intercept", "slope", "fit"} if name == "prediction" else set()
    assert set(shared) == set(expected.columns) - omitted
    assert_frame_equal(view.select(shared).sort(keys), expected.select(shared).sort(keys), rel_tol=ROUNDING)


def test_other_scores_are_ranked_like_the_dropped_mass():
    frame = toy_instances(documents=3).with_columns(
        radius=pl.when(pl.col("position") > 300).then("radius")  # an older shard lacks the column
    )
    view = VIEWS["prediction"](frame.lazy()).collect().sort("s")
    for s, part in frame.filter(pl.col("status") == "exact").partition_by("s", as_dict=True).items():
        row = view.row(by_predicate=pl.col("s") == s[0], named=True)
        m, radius, sigma = (part[c].to_numpy() for c in ("dropped_mass", "radius", "sigma"))
        label = part.select((pl.col("e_pool") < pl.col("e_top") / 1.11) | pl.col("kappa").is_null())
        scores = {
            "auc_radius": radius,
            "auc_radius_mass": 2 * radius * m,
            "auc_sigma_mass": np.sqrt(m / (1 - m)) * sigma,
            "auc_phi": part["phi"].to_numpy(),
        }
        for name, score in scores.items():
            assert row[name] == pytest.approx(once(score, label.to_series().to_numpy())), name


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_ties_count_one_half(rows: list[tuple[int, bool]]):
    frame = hand_made(*({"dropped_mass": m / 8, "e_pool": 0.5 if hit else 1.0} for m, hit in rows))
    value = VIEWS["prediction"](frame.lazy()).collect()["auc"].item()
    pairs = [(a > b) + (a == b) / 2 for a, hit in rows for b, other in rows if hit and not other]
    assert value == (pytest.approx(np.mean(pairs)) if pairs else None)


def once(score: np.ndarray, label: np.ndarray) -> float:
    """AUC of the rows whose score is a number."""
    known = ~np.isnan(score)
    score, label = score[known], label[known]
    return float(auc(score, label, np.zeros(len(score), dtype=np.int64), np.ones((1, 1), dtype=np.int64))[0])


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_main_texts_are_counted_as_the_figures_count_them(view):
    frames = [toy_instances(documents=2, seed=i).with_columns(dump=pl.lit(f"{i}" * 12)) for i in range(4)]
    texts = ("python-docs", "python-code", "task:needle", "stories")
    documents = pl.concat([toy_documents(f, text) for f, text in zip(frames, texts, strict=True)])
    every = pl.concat(frames)

    aside = pl.concat(frames[1:3])
    for frame, known, expected in (
        (every, documents, pl.concat([frames[0], frames[3]])),
        (every, documents.head(0), every),
        (aside, documents, aside),
    ):
        counted, wanted = view(frame.lazy(), known.lazy()).collect(), view(expected.lazy()).collect()
        assert_frame_equal(counted, wanted, rel_tol=ROUNDING, check_row_order=False)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_store_without_instances_has_empty_views(view):
    empty = view(pl.LazyFrame(schema=TABLES["instances"])).collect()
    assert empty.height == 0
    counts = set() if view is VIEWS["fits"] else {"trivial", "degenerate"}  # a fit has no rows of these
    assert {"model", "s", "n"} | counts <= set(empty.columns)


def test_every_view_is_compared_with_its_table():
    assert VIEWS.keys() == {*TABLE, "fits"}  # `fits` is its table, deferred; test_analysis_fitted has it


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_model_under_two_configurations_is_refused(view):
    frame = hand_made({}, {"dump": "e", "config": "d"}, {"model": "other", "config": "x"})
    if view is VIEWS["fits"]:  # deferred: it is refused, by its table, when it is collected
        with pytest.raises(InputError, match=r"toy was enumerated under configurations c, d.*--config"):
            view(frame.lazy()).collect()
        return
    with pytest.raises(
        InputError, match=r"toy was enumerated under several configurations, c and d .*--config"
    ):
        view(frame.lazy())


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_undefined_is_null(view):
    for frame in FRAMES.values():
        values = view(frame.lazy()).collect().select(cs.float())
        assert all(column.drop_nulls().is_finite().all() for column in values)
