"""Tables 6, 2 and 1: each number against the table or the rows it comes from."""

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import (
    budget_profile,
    content_table,
    map_table,
    native_table,
    panel_table,
    prediction_table,
)
from ceiling.analysis.content import content_name
from ceiling.analysis.instances import ALL_FAMILIES, groups
from ceiling.analysis.native import native_missing, sources
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances, toy_scores

TWO = pl.concat([toy_instances(m, documents=5, layers=8, seed=i) for i, m in enumerate(("b", "a"))])
EMPTY = toy_scores(TWO).head(0)


def test_the_panel_is_the_prediction_the_map_and_the_rows():
    table, maps = panel_table(TWO, draws=20), map_table(TWO, draws=20)
    pooled = prediction_table(TWO, draws=20).filter(pl.col("s").is_null())
    assert table["model"].to_list() == ["a", "b"]
    for ours, column in (("auc_dropped_mass", "auc"), ("auc_dropped_mass_low", "auc_low")):
        assert table[ours].equals(pooled[column].alias(ours), null_equal=True)
    for column in ("edge_interior", "edge_interior_high", "rho_depth"):
        assert table[column].to_list() == maps[column].to_list()
    rows = TWO.filter(pl.col("status") == "exact", model="a")
    over = (rows["e_balance"] / rows["e_pool"]).set(rows["kappa"].is_null(), np.inf)
    assert table["median_kappa_bal"][0] == pytest.approx(over.median())


def test_the_panel_knows_no_depth_of_some_layers():
    table = panel_table(TWO.filter((pl.col("model") == "a") | (pl.col("layer") % 3 == 0)), draws=20)
    for column in ("edge_interior", "edge_interior_low", "rho_depth"):
        assert table[column].is_null().to_list() == [False, True]  # of a every layer, of b some
    assert table["auc_dropped_mass"].null_count() == 0


def test_kappa_bal_of_a_pool_optimum_of_zero_is_beyond_every_number():
    rows = [{"e_pool": 0.0, "e_balance": 0.0}, {"e_balance": 0.99}, {"e_balance": 0.9}]
    assert panel_table(hand_made(*rows))["median_kappa_bal"].to_list() == [pytest.approx(1.1)]


def test_all_families_pool_the_rows_and_keep_documents_apart():
    (group,) = groups(TWO, pooled=True, together=True)
    apart = list(groups(TWO, pooled=True))
    assert group.model == ALL_FAMILIES
    assert group.documents == sum(g.documents for g in apart) == 10
    assert group.rows.height == sum(g.rows.height for g in apart)
    assert budget_profile(TWO, together=True, draws=0)["s"].to_list() == [4, 8, 16, 32]


def test_one_text_id_in_two_families_is_two_documents_and_no_repeated_row():
    rows = [{"model": m, "dump": m, "text_id": "t", "e_pool": e} for m, e in (("a", 0.5), ("b", 0.9))]
    (group,) = groups(hand_made(*rows), together=True, draws=0)
    assert (group.documents, group.rows.height) == (2, 2)


def test_content_ranges_over_budgets():
    table = content_table({"python-docs": TWO, "task:qa": TWO.filter(model="a")}, draws=20)
    assert table.select("content", "model").rows() == [
        ("English prose", "a"),
        ("English prose", "b"),
        ("task, qa", "a"),
    ]
    budgets = prediction_table(TWO, draws=20).filter(pl.col("s").is_not_null(), model="a")
    row = table.row(0, named=True)
    assert (row["auc_dropped_mass_low"], row["auc_dropped_mass_high"]) == (
        budgets["auc"].min(),
        budgets["auc"].max(),
    )
    rates = budgets["n_labelled"] / budgets["n"]
    assert (row["share_kappa_gt_1_11_low"], row["share_kappa_gt_1_11_high"]) == (rates.min(), rates.max())
    assert row["auc_low"] < row["auc"] < row["auc_high"]


@pytest.mark.parametrize(
    ("text", "content"),
    [("python-code", "source code"), ("task:needle", "task, needle"), ("un roman", "un roman")],
)
def test_what_a_text_is_called(text, content):
    assert content_name(text) == content


def test_no_text_says_what_to_run():
    with pytest.raises(InputError, match="run `ceiling enumerate`"):
        content_table({})


def test_native_budgets_come_from_scores_and_the_rest_from_instances():
    wide = toy_instances("a", documents=5, layers=2, budgets=(4, 8, 64))
    native = toy_scores(wide.filter(pl.col("s") != 4))
    table = native_table(wide.filter(pl.col("s") <= 8), native, draws=20)
    assert table.select("model", "s", "source").rows() == [
        (model, s, source)
        for model in ("a", ALL_FAMILIES)
        for s, source in ((4, "instances"), (8, "scores"), (64, "scores"))
    ]
    rows = wide.filter(pl.col("status") == "exact", s=64)
    row = table.row(2, named=True)
    assert row["median_balancing_closure"] == pytest.approx((1 - rows["e_balance"] / rows["e_top"]).median())
    assert row["median_dropped_mass"] == pytest.approx(rows["dropped_mass"].median())
    at_eight = wide.filter(pl.col("status") == "exact", s=8)
    where = ["document", "layer", "head", "position"]
    both = rows.join(at_eight, on=where, suffix="_8")
    assert row["gap_share_of_s8"] == pytest.approx((both["e_top"] / both["e_top_8"]).median())
    assert row["n"] == rows.height
    assert sources(table) == "Read: a at s = 4 from `instances`; a at s = 8, 64 from `scores`."
    assert native_missing(table, [8, 64, 128]) == ("Not measured: s = 128; `ceiling score` measures them.")


def test_either_table_is_enough_and_none_is_not():
    from_instances = native_table(TWO, EMPTY, draws=0)
    from_scores = native_table(TWO.head(0), toy_scores(TWO), draws=0)
    numbers = ["model", "s", "n", "trivial", "degenerate", "median_balancing_closure", "gap_share_of_s8"]
    assert from_scores.select(numbers).equals(from_instances.select(numbers))
    with pytest.raises(InputError, match="run `ceiling enumerate`"):
        native_table(TWO.head(0), EMPTY)


def test_only_uniform_per_query_balancing_counts_and_one_configuration():
    scores = toy_scores(TWO)
    other = scores.with_columns(allocation=pl.lit("map"), error=pl.lit(0.0))
    assert native_table(TWO, pl.concat([scores, other]), draws=0).equals(native_table(TWO, scores, draws=0))
    with pytest.raises(InputError, match=r"a was scored under configurations .* --config"):
        native_table(TWO, pl.concat([scores, scores.with_columns(config=pl.lit("6" * 8))]))


def test_without_the_maps_budget_there_is_no_gap_share():
    table = native_table(TWO.filter(pl.col("s") == 16), EMPTY, draws=0)
    assert table["gap_share_of_s8"].null_count() == table.height
