"""The ceiling table: by hand on four rows, against polars on a toy store, and its intervals."""

import polars as pl
import pytest

from ceiling.analysis import ceiling_table
from tests.toy_store import hand_made, toy_instances


def test_by_hand():
    table = ceiling_table(
        hand_made(
            {"e_pool": 1.0, "e_balance": 1.0},  # attained; nothing to recover
            {"e_pool": 0.8, "e_balance": 0.9},  # closes 0.2, balancing half of it
            {"e_pool": 0.4, "e_balance": 0.4},  # kappa 2.5
            {"e_pool": 1e-9, "e_balance": 0.5},  # kappa null
        )
    )
    row = table.row(0, named=True)
    assert row["closable"] == pytest.approx((0.2 + 0.6) / 2)
    assert row["ratio"] == pytest.approx(1 - row["closable"])
    assert row["closable_p75"] == pytest.approx(0.75 * 0.6 + 0.25 * 1)
    assert row["n_labelled"] == 3
    assert row["closable_labelled"] == pytest.approx(0.6)
    assert row["n_recovered"] == 3
    assert row["recovered"] == pytest.approx(0.5)
    assert row["attained"] == 0.25
    assert (row["kappa_le_1_5"], row["kappa_le_2"]) == (0.5, 0.5)
    assert row["closable_low"] is None
    assert row["interval"] == "none: 1 documents, at least 5 needed"


def test_a_tie_within_rounding_is_attained():
    table = ceiling_table(hand_made({"e_pool": 1.0 - 1e-13}, {"e_pool": 1.0 - 1e-11}))
    assert table["attained"][0] == 0.5


def test_a_budget_without_a_measured_row_is_a_row_of_nulls():
    table = ceiling_table(hand_made({"status": "trivial", "e_top": 0.0, "e_pool": 0.0}))
    row = table.row(0, named=True)
    assert (row["n"], row["trivial"]) == (0, 1)
    assert row["closable"] is None
    assert row["attained"] is None


def test_agrees_with_polars_on_a_toy_store():
    frame = toy_instances()
    expected = (
        frame.filter(pl.col("status") == "exact")
        .group_by("s")
        .agg(
            n=pl.len(),
            closable=pl.col("closable").median(),
            closable_p90=pl.col("closable").quantile(0.9, "linear"),
            closable_balance=pl.col("closable_balance").median(),
            recovered=pl.col("recovered").median(),
            kappa_le_2=(pl.col("kappa") <= 2).sum() / pl.len(),
        )
        .sort("s")
    )
    table = ceiling_table(frame, draws=0)
    for name in expected.columns:
        assert table[name].to_list() == pytest.approx(expected[name].to_list()), name


def test_intervals_hold_the_estimate_repeat_and_depend_on_the_seed():
    frame = toy_instances(documents=6)
    table, again, other = ceiling_table(frame), ceiling_table(frame), ceiling_table(frame, seed=1)
    assert table.equals(again)
    assert not table.equals(other)
    for name in ("closable", "closable_labelled", "attained", "kappa_le_1_5"):
        inside = (pl.col(f"{name}_low") <= pl.col(name)) & (pl.col(name) <= pl.col(f"{name}_high"))
        assert table.select(inside.all()).item(), name


def test_tables_hold_nulls_and_never_nan():
    frame = pl.concat([toy_instances(documents=3), hand_made({"status": "trivial"})])
    for column in ceiling_table(frame).iter_columns():
        assert column.dtype != pl.Null
        if column.dtype == pl.Float64:
            assert column.drop_nulls().is_finite().all()
