"""Group vote: the cost by hand, per group size, of the voted sets and of no others."""

import polars as pl
import pytest

from ceiling.analysis.group_vote import group_vote_table
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances, toy_scores


def test_by_hand():
    instances = hand_made(*({"head": h, "e_top": 1.0} for h in range(4)))
    voted = toy_scores(instances).filter(selector="group-vote")
    frame = voted.with_columns(error=pl.Series([0.9, 1.0, 1.2, 2.0]), group=pl.lit(4, pl.Int64))
    (row,) = group_vote_table(pl.concat([toy_scores(instances).filter(selector="h2o"), frame])).to_dicts()
    assert (row["group"], row["s"], row["n"]) == (4, 8, 4)
    assert row["cost"] == pytest.approx(1.1)
    assert row["dearer"] == 0.5


def test_each_group_size_and_budget_has_its_row():
    scores = toy_scores(pl.concat([toy_instances(m, documents=5) for m in ("a", "b")]))
    wider = pl.when(pl.col("model") == "b").then(4).otherwise(2).cast(pl.Int64)
    table = group_vote_table(scores.with_columns(group=wider))
    assert table.select("model", "group", "s").rows() == [
        (model, group, s) for model, group in (("a", 2), ("b", 4)) for s in (4, 8, 16, 32)
    ]
    assert (table["cost_low"] <= table["cost"]).all()
    assert (table["cost"] < table["cost_p90"]).all()


def test_without_a_vote_it_says_what_to_run():
    scores = toy_scores(hand_made({})).filter(pl.col("selector") != "group-vote")
    with pytest.raises(InputError, match=r"run `ceiling score`"):
        group_vote_table(scores)
