"""Predictors side by side, the sweep of the label's cut, ROC curves, and cells on their own."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.analysis import (
    cell_predictions,
    cell_summary,
    prediction_table,
    predictor_table,
    roc_table,
    threshold_table,
)
from ceiling.analysis.predictors import MEANING, PREDICTORS, missing_note
from ceiling.analysis.thresholds import kendall
from tests.toy_store import hand_made, toy_instances


def scores(rows):
    """The predictors, straight from their definitions."""
    m, d, sigma = (rows[c].to_numpy() for c in ("dropped_mass", "radius", "sigma"))
    bound = np.sqrt(m / (1 - m)) * sigma
    return {"dropped_mass": m, "radius": d, "radius_mass": 2 * d * m, "sigma_mass": bound} | {
        c: rows[c].to_numpy() for c in ("phi", "spectral")
    }


def pearson_of_ranks(x, y):
    ranks = [pl.Series(v).rank("average").to_numpy() for v in (x, y)]
    return np.corrcoef(*ranks)[0, 1]


def test_every_predictor_against_its_definition():
    frame = toy_instances(documents=2, layers=2, heads=2, budgets=(4, 8))
    rows = frame.filter(pl.col("status") == "exact", s=8)
    label = ((rows["e_pool"] < rows["e_top"] / 1.11) | rows["kappa"].is_null()).to_numpy()
    table = predictor_table(frame).filter(s=8)
    assert table["predictor"].to_list() == list(PREDICTORS) == list(MEANING)
    for row, x in zip(table.iter_rows(named=True), scores(rows).values(), strict=True):
        above = x[label][:, None] - x[~label][None]
        assert row["auc"] == pytest.approx(((above > 0) + (above == 0) / 2).mean())
        assert row["rho_e_top"] == pytest.approx(pearson_of_ranks(x, rows["e_top"]))
        assert row["rho_e_pool"] == pytest.approx(pearson_of_ranks(x, rows["e_pool"]))
        assert row["rho_kappa"] == pytest.approx(
            pearson_of_ranks(x, rows["kappa"].fill_null(np.inf)), abs=1e-12
        )


def test_pooled_first_and_the_dropped_mass_has_the_fits_of_the_prediction():
    frame = toy_instances(documents=6, layers=3, heads=2)
    table = predictor_table(frame, draws=50)
    assert table["s"].unique(maintain_order=True).to_list() == [None, 4, 8, 16, 32]
    mass = table.filter(predictor="dropped_mass")
    columns = ["s", "n", "n_labelled", "auc", "auc_low", "auc_high", "intercept", "slope", "slope_low", "fit"]
    assert mass.select(columns).equals(prediction_table(frame, draws=50).select(columns))
    others = table.filter(pl.col("predictor") != "dropped_mass")
    assert others["fit"].null_count() == others.height
    assert (table["rho_e_top_low"] < table["rho_e_top_high"]).all()


def test_rows_without_the_spectral_statistic_are_left_out_of_it_alone():
    frame = toy_instances(documents=1)
    half = frame.with_columns(spectral=pl.when(pl.col("layer") < 3).then("spectral"))
    table, kept = predictor_table(half), predictor_table(frame.filter(pl.col("layer") < 3))
    spectral = pl.col("predictor") == "spectral"
    columns = ["n", "n_labelled", "auc", "rho_e_top", "rho_kappa"]
    assert table.filter(spectral).select(columns).equals(kept.filter(spectral).select(columns))
    assert table.filter(~spectral)["n"].max() == predictor_table(frame)["n"].max()
    assert missing_note(table) == ""


def test_a_store_older_than_the_spectral_statistic_says_so():
    table = predictor_table(toy_instances(documents=1).with_columns(spectral=None))
    assert table.filter(predictor="spectral")["auc"].null_count() == 5
    assert missing_note(table).startswith("Not measured: spectral (the store is older")


def test_at_the_papers_cut_the_sweep_is_the_prediction():
    frame = toy_instances(documents=6)
    sweep = threshold_table(frame, draws=50)
    row = sweep.row(by_predicate=pl.col("threshold") == 1.11, named=True)
    pooled = prediction_table(frame, draws=50).row(0, named=True)
    for column in ("n", "n_labelled", "auc", "auc_low", "auc_high"):
        assert row[column] == pooled[column]
    assert (row["tau_predictors"], row["tau_groups"]) == (1.0, 1.0)
    assert sweep["share"].is_sorted(descending=True)


def test_a_cut_that_no_row_reaches_has_no_auc():
    rows = [{"e_pool": e, "dropped_mass": m} for e, m in ((0.5, 0.4), (0.6, 0.5), (1.0, 0.1))]
    table = threshold_table(hand_made(*rows), thresholds=(1.11, 3.0))
    assert table["share"].to_list() == [pytest.approx(2 / 3), 0.0]
    assert table["auc"].to_list() == [1.0, None]
    assert table["tau_groups"].to_list() == [None, None]  # one budget has no order


def test_a_swapped_order_of_families_shows_in_tau():
    """In `a`, a larger mass goes with kappa > 1.11 but not with kappa > 1.5; in `b` the other way."""
    a = [(0.1, 1.0), (0.3, 1.6), (0.5, 1.2), (0.6, 1.2)]
    b = [(0.1, 1.2), (0.3, 1.0), (0.5, 1.6), (0.6, 1.6)]
    rows = [
        {"model": model, "dropped_mass": m, "e_pool": 1 / kappa}
        for model, points in (("a", a), ("b", b))
        for m, kappa in points
    ]
    table = threshold_table(hand_made(*rows), thresholds=(1.11, 1.5)).filter(model="a")
    assert table["tau_groups"].to_list() == [1.0, -1.0]


VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0, np.nan]) | st.floats(-5, 5), min_size=2, max_size=8)


@given(VALUES, st.randoms())
def test_kendall_counts_pairs(x, random):
    y = random.sample(x, len(x))
    pairs = [(i, j) for i in range(len(x)) for j in range(i) if not np.isnan([x[i], y[i], x[j], y[j]]).any()]
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs]
    untied = [sum(a != 0 for a, _ in signs), sum(b != 0 for _, b in signs)]
    found = kendall(np.array(x), np.array(y))
    if min(untied, default=0) == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(sum(a * b for a, b in signs) / np.sqrt(untied[0] * untied[1]))


def test_the_area_under_the_curve_is_the_auc():
    frame = toy_instances(documents=3)
    curve = roc_table(frame)
    area = np.trapezoid(curve["true_rate"], curve["false_rate"])
    assert area == pytest.approx(prediction_table(frame)["auc"][0], abs=2e-3)  # 201 points of the curve
    assert curve["true_rate"].is_sorted()
    assert (curve["false_rate"][0], curve["true_rate"][-1]) == (0.0, 1.0)


def test_ties_make_a_diagonal_and_equal_labels_no_curve():
    rows = [{"dropped_mass": 0.3, "e_pool": e} for e in (0.5, 1.0, 1.0)]
    curve = roc_table(hand_made(*rows))
    assert np.allclose(curve["true_rate"], curve["false_rate"])
    assert roc_table(hand_made({"e_pool": 1.0})).is_empty()


def test_a_cell_alone_is_a_model_of_one_cell():
    frame = toy_instances(documents=6, layers=2, heads=2)
    cells = cell_predictions(frame, draws=30)
    assert cells.select("layer", "head").rows() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    one = prediction_table(frame.filter(layer=1, head=0), draws=30).row(0, named=True)
    row = cells.row(2, named=True)
    for column in ("n_labelled", "auc", "auc_low", "auc_high", "intercept", "slope", "fit"):
        assert row[column] == one[column], column
    assert row["n_pooled"] == one["n"]


def test_the_summary_counts_cells_with_both_labels():
    rows = [
        *({"head": 0, "dropped_mass": m, "e_pool": e} for m, e in ((0.5, 0.5), (0.1, 1.0), (0.2, 0.5))),
        *({"head": 1, "dropped_mass": m, "e_pool": 1.0} for m in (0.1, 0.2)),
    ]
    summary = cell_summary(cell_predictions(hand_made(*rows))).row(0, named=True)
    assert (summary["cells"], summary["with_auc"], summary["above_half"]) == (2, 1, 1.0)
    assert summary["auc_median"] == 1.0
