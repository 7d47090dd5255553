"""AUC of dropped mass with its logistic fit, and the calibration table."""

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import calibration_table, prediction_table
from tests.toy_store import hand_made, toy_instances


def test_pooled_first_then_budgets():
    table = prediction_table(toy_instances(documents=2))
    assert table["s"].to_list() == [None, 4, 8, 16, 32]
    assert table["n"][0] == table["n"][1:].sum()
    assert table["n_labelled"][0] == table["n_labelled"][1:].sum()


def test_auc_against_all_pairs():
    frame = toy_instances(documents=2, layers=2, heads=2)
    pooled = prediction_table(frame).row(0, named=True)
    rows = frame.filter(pl.col("status") == "exact")
    label = ((rows["e_pool"] < rows["e_top"] / 1.11) | rows["kappa"].is_null()).to_numpy()
    mass = rows["dropped_mass"].to_numpy()
    above = mass[label][:, None] - mass[~label][None]
    assert pooled["auc"] == pytest.approx(((above > 0) + (above == 0) / 2).mean())
    assert 0.5 < pooled["auc"] < 1
    assert pooled["slope"] > 0


@pytest.mark.parametrize(
    ("errors", "fit", "auc"),
    [((1.0, 1.0), "one class", None), ((0.5, 0.5), "one class", None), ((1.0, 0.5), "separated", 1.0)],
)
def test_no_fit_is_said(errors, fit, auc):
    rows = [{"e_pool": e, "dropped_mass": 0.1 + i / 10} for i, e in enumerate(errors)]
    row = prediction_table(hand_made(*rows)).row(0, named=True)
    assert (row["fit"], row["auc"], row["slope"]) == (fit, auc, None)


def test_intervals_of_auc_and_slope():
    row = prediction_table(toy_instances(documents=8)).row(0, named=True)
    for name in ("auc", "slope", "intercept"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]


def test_calibration_covers_every_row_and_balances_overall():
    frame = toy_instances(documents=4)
    table = calibration_table(frame)
    assert table["decile"].to_list() == list(range(1, 11))
    assert table["n"].sum() == frame.filter(pl.col("status") == "exact").height
    assert table["dropped_mass"].is_sorted()
    # maximum likelihood with an intercept predicts the observed rate on average
    assert np.average(table["predicted"] - table["observed"], weights=table["n"]) == pytest.approx(
        0, abs=1e-9
    )


def test_calibration_without_a_fit_shows_what_was_observed():
    table = calibration_table(hand_made({"e_pool": 1.0}, {"e_pool": 1.0, "dropped_mass": 0.5}))
    assert table["predicted"].is_null().all()
    assert table["observed"].to_list() == [0.0, 0.0]
