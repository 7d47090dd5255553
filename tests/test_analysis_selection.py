"""Selectors: by hand, top-mass is the ceiling's own numbers, the order of names, the paper's ranges."""

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import ceiling_table
from ceiling.analysis.selection import against_paper, excess_ranges, rests_on, selector_table, with_pool
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_certificates, toy_instances, toy_scores

PAPER = pl.DataFrame(
    {"quantity": ["excess_deployed", "excess_top-mass"], "s": [8, 8], "low": [1.4, 1.02], "high": [2.1, 1.03]}
)


def scores(instances, errors, selector="snapkv"):
    frame = toy_scores(instances).filter(selector=selector, reading="per-query", allocation="uniform")
    return frame.with_columns(error=pl.Series(errors), kept_mass=0.5, overlap=0.25)


def test_by_hand():
    instances = hand_made(*({"head": h, "e_top": 1.0, "e_pool": 0.5} for h in range(4)))
    table = selector_table(scores(instances, [0.5, 1.0, 1.5, 4.0]), instances)
    (row,) = table.to_dicts()
    assert (row["n"], row["n_pool"], row["n_proved"]) == (4, 4, 0)
    assert row["excess"] == pytest.approx(2.5)
    assert row["over_top"] == pytest.approx(1.25)
    assert row["excess_p90"] == pytest.approx(np.quantile([1, 2, 3, 8], 0.9))
    assert row["better"] == 0.25
    assert (row["kept_mass"], row["overlap"]) == (0.5, 0.25)
    assert row["excess_lower"] is row["excess_upper"] is row["excess_low"] is None


def test_a_median_beyond_every_number_is_null_and_counted():
    instances = hand_made({"e_pool": 1e-9}, {"head": 1, "e_pool": 1e-9}, {"head": 2})
    (row,) = selector_table(scores(instances, [1.0, 1.0, 1.0]), instances).to_dicts()
    assert row["excess"] is row["excess_p90"] is None
    assert row["n_pool"] == 3


def test_top_mass_has_the_ceilings_own_numbers():
    instances = toy_instances(documents=5)
    table = selector_table(toy_scores(instances), instances).filter(selector="top-mass")
    ceiling = ceiling_table(instances)
    assert table["n"].to_list() == ceiling["n"].to_list()
    assert (1 / table["excess"]).to_list() == pytest.approx(ceiling["ratio"].to_list(), rel=1e-3)
    assert table["over_top"].to_list() == [1.0] * 4
    assert table["better"].to_list() == [0.0] * 4
    assert table["trivial"].to_list() == ceiling["trivial"].to_list()


def test_proved_bounds_hold_the_excess_between_them():
    instances = toy_instances(documents=5)
    table = selector_table(toy_scores(instances), instances, toy_certificates(instances, every=3), draws=0)
    assert (table["n_proved"] > 200).all()
    assert (table["excess_lower"] <= table["excess_upper"]).all()


def test_budgets_beyond_the_pools_have_no_excess():
    instances = toy_instances(documents=2, budgets=(8, 64))
    table = selector_table(toy_scores(instances), instances.filter(s=8))
    assert table.filter(s=64)["excess"].null_count() == table.filter(s=64).height
    assert table.filter(s=64)["n_pool"].unique().to_list() == [0]
    assert with_pool(table)["s"].unique().to_list() == [8]
    assert table.filter(s=64)["over_top"].null_count() == 0


def test_what_it_rests_on_is_said_of_one_rule_by_name():
    instances = toy_instances(documents=1)
    few = toy_scores(instances).filter((pl.col("selector") == "top-mass") | (pl.col("s") == 8))
    table = selector_table(few, draws=0)
    n = table.filter(selector="top-mass")["n"].sum()
    assert f"n = {n:,} instances" in rests_on(table)
    assert rests_on(table).endswith("So for top-mass; a rule scored at fewer budgets has fewer.")


def test_names_stand_in_the_papers_order_and_a_users_last():
    instances = hand_made({})
    names = ["my_rules:newest", "group-vote", "snapkv:window=4", "top-mass", "snapkv", "balancing"]
    frame = pl.concat([scores(instances, [1.0]).with_columns(selector=pl.lit(name)) for name in names])
    frame = pl.concat([frame, frame.filter(selector="snapkv").with_columns(reading=pl.lit("cache"))])
    table = selector_table(frame, instances)
    assert table.select("selector", "reading").rows() == [
        ("top-mass", "per-query"),
        ("balancing", "per-query"),
        ("snapkv", "per-query"),
        ("snapkv", "cache"),
        ("snapkv:window=4", "per-query"),
        ("group-vote", "per-query"),
        ("my_rules:newest", "per-query"),
    ]


def test_ranges_are_those_of_the_deployed_rules_and_tova_per_query_is_top_mass():
    instances = hand_made({"e_pool": 1.0})
    medians = {
        ("top-mass", "per-query"): 1.02,
        ("tova", "per-query"): 1.02,
        ("tova", "cache"): 1.7,
        ("snapkv", "cache"): 2.5,
        ("leverage", "per-query"): 9.0,
    }
    frame = pl.concat(
        scores(instances, [error]).with_columns(selector=pl.lit(name), reading=pl.lit(reading))
        for (name, reading), error in medians.items()
    )
    ranges = excess_ranges(with_pool(selector_table(frame, instances)), PAPER)
    columns = ("kind", "reading", "rules", "low", "lowest", "high", "highest")
    assert ranges.select(columns).rows() == [
        ("deployed", "cache", 2, 1.7, "tova", 2.5, "snapkv"),
        ("top-mass", "per-query", 2, 1.02, "top-mass", 1.02, "tova"),
    ]
    assert against_paper(ranges) == (
        "toy, cache, s = 8: deployed selectors 1.70 (tova) to 2.50 (snapkv), partly in the paper's 1.40 to "
        "2.10. toy, per-query, s = 8: top-mass 1.02 (top-mass), in the paper's 1.02 to 1.03."
    )
    assert "no selector of the paper's" in against_paper(ranges.clear())


def test_without_a_pool_there_is_no_figure_3():
    with pytest.raises(InputError, match="run `ceiling enumerate` on the same dump"):
        with_pool(selector_table(toy_scores(hand_made({})), hand_made({"position": 7})))


def test_tables_hold_nulls_and_never_nan():
    trivial = hand_made({"status": "trivial", "e_top": 0.0, "e_pool": 0.0})
    table = selector_table(toy_scores(trivial), trivial)
    assert table["n"].unique().to_list() == [0]
    assert table["n_pool"].unique().to_list() == [0]
    for column in table.iter_columns():
        assert column.dtype != pl.Null
        if column.dtype == pl.Float64:
            assert column.drop_nulls().is_finite().all()
