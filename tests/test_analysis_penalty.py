"""The penalty profile and its fit."""

import numpy as np
import pytest

from ceiling.analysis import penalty_fit, penalty_table
from ceiling.analysis.penalty import CAVEAT
from tests.toy_store import hand_made, toy_instances


def test_median_and_tail_leave_out_rows_without_a_ratio():
    rows = [{"e_pool": 0.8, "ef_fw": 0.8 / pi} for pi in (1.0, 1.5, 3.0)]
    row = penalty_table(hand_made(*rows, {"e_pool": 1e-9})).row(0, named=True)
    assert (row["n"], row["n_pi"]) == (4, 3)
    assert row["median_pi"] == pytest.approx(1.5)
    assert row["p99_pi"] == pytest.approx(1.5 + 0.98 * 1.5)


def test_both_penalties_say_what_they_divide():
    rows = [{"e_pool": 0.8, "ef_fw": 1.0, "ef": 0.8 / pi} for pi in (1.0, 2.0, 4.0)]
    row = penalty_table(hand_made(*rows, {"ef": None})).row(0, named=True)
    assert (row["n_pi"], row["n_pi_improved"], row["below_one"]) == (4, 3, 0.75)
    assert (row["median_pi_improved"], row["p99_pi_improved"]) == pytest.approx((2, 2 + 0.98 * 2))
    assert "e_pool/ef_fw" in CAVEAT
    assert "e_pool/ef " in CAVEAT


def test_a_store_of_an_older_engine_has_the_paper_penalty_alone():
    frame = hand_made({"ef": None}, {"ef": None})
    row = penalty_table(frame).row(0, named=True)
    assert (row["n_pi"], row["n_pi_improved"], row["median_pi_improved"]) == (2, 0, None)
    assert penalty_fit(frame, ratio="pi_improved").row(0, named=True)["n_fit"] == 0


def test_fit_finds_the_power_it_was_given():
    rows = [
        {
            "s": s,
            "dropped_mass": m,
            "document": d,
            "e_pool": 0.9,
            "ef_fw": 0.9 / (2 * (m * np.sqrt(s)) ** 0.5),
        }
        for d in range(6)
        for s in (4, 16)
        for m in (0.1 + d / 100, 0.4)
    ]
    row = penalty_fit(hand_made(*rows)).row(0, named=True)
    assert row["slope"] == pytest.approx(0.5)
    assert row["intercept"] == pytest.approx(np.log(2))
    assert row["r2"] == pytest.approx(1)
    assert (row["slope_low"], row["slope_high"]) == pytest.approx((0.5, 0.5))
    assert row["s"] is None


def test_fit_leaves_out_what_has_no_logarithm():
    row = penalty_fit(hand_made({"dropped_mass": 0.0}, {}, {"e_pool": 1e-9})).row(0, named=True)
    assert (row["n_fit"], row["slope"], row["fit"]) == (1, None, "no variation")


def test_toy_penalty_rises_with_the_budget():
    table = penalty_table(toy_instances(documents=5))
    assert table["p99_pi"].is_sorted()
    assert (table["median_pi_low"] < table["median_pi_high"]).all()
