"""The two fits: known coefficients, stationarity, separation, and resamplings."""

import numpy as np
import pytest

from ceiling.analysis.bootstrap import document_weights
from ceiling.analysis.fits import line, logistic, probability

ONE = np.ones((1, 1), dtype=int)


def drawn(n, documents, seed=0):
    rng = np.random.default_rng(seed)
    x, cluster = rng.random(n), rng.integers(0, documents, n)
    label = rng.random(n) < 1 / (1 + np.exp(2 - 5 * x))
    return x, label, cluster


def test_logistic_satisfies_the_likelihood_equations():
    x, label, cluster = drawn(4000, 1)
    fit = logistic(x, label, cluster, ONE)
    rest = label - probability(fit, x)
    assert fit.ending == "fitted"
    assert abs(rest.sum()) < 1e-8
    assert abs((rest * x).sum()) < 1e-8
    assert fit.intercept[0] == pytest.approx(-2, abs=0.3)
    assert fit.slope[0] == pytest.approx(5, abs=0.5)


def test_logistic_of_two_points_is_exact():
    x, label = np.array([0.0] * 4 + [1.0] * 4), np.array([1, 0, 0, 0, 1, 1, 1, 0], dtype=bool)
    fit = logistic(x, label, np.zeros(8, dtype=int), ONE)
    assert fit.intercept[0] == pytest.approx(np.log(1 / 3))
    assert fit.slope[0] == pytest.approx(2 * np.log(3))


@pytest.mark.parametrize(
    ("x", "label", "ending"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1], "separated"),
        ([0, 1, 2, 3], [1, 1, 0, 0], "separated"),
        ([0, 1, 1, 2], [0, 0, 1, 1], "separated"),  # they touch, the slope is still unbounded
        ([0, 1, 2, 3], [1, 1, 1, 1], "one class"),
        ([], [], "one class"),
        ([1, 1, 1], [0, 1, 1], "no variation"),
    ],
)
def test_logistic_names_why_there_is_no_fit(x, label, ending):
    cluster = np.zeros(len(x), dtype=int)
    fit = logistic(np.array(x, dtype=float), np.array(label, dtype=bool), cluster, ONE)
    assert fit.ending == ending
    assert np.isnan([fit.slope[0], fit.intercept[0]]).all()


def test_binned_resamplings_are_close_to_fits_of_the_written_out_rows():
    x, label, cluster = drawn(6000, 6)
    weights = document_weights(6, draws=8)
    fit = logistic(x, label, cluster, weights)
    spread = fit.slope[1:].std()
    for r in range(1, len(weights)):
        again = np.repeat(np.arange(len(x)), weights[r][cluster])
        full = logistic(x[again], label[again], np.zeros(len(again), dtype=int), ONE)
        assert abs(fit.slope[r] - full.slope[0]) < 0.01 * spread


def test_a_resampling_that_separates_is_undefined():
    x = np.array([0.0, 1.0, 2.0, 0.5, 1.5, 2.5])
    label, cluster = np.array([0, 1, 1, 1, 0, 1], dtype=bool), np.array([0, 0, 0, 1, 1, 1])
    fit = logistic(x, label, cluster, np.array([[1, 1], [2, 0]]))
    assert np.isfinite(fit.slope[0])
    assert np.isnan(fit.slope[1])


def test_line_is_least_squares_of_the_written_out_rows():
    rng = np.random.default_rng(2)
    x, cluster = rng.normal(5, 1, 300), rng.integers(0, 5, 300)
    y = 1 - 2 * x + rng.normal(size=300)
    weights = document_weights(5, draws=5)
    fit = line(x, y, cluster, weights)
    for r, counts in enumerate(weights):
        again = np.repeat(np.arange(300), counts[cluster])
        slope, intercept = np.polyfit(x[again], y[again], 1)
        assert (fit.slope[r], fit.intercept[r]) == pytest.approx((slope, intercept))
        assert fit.r2[r] == pytest.approx(np.corrcoef(x[again], y[again])[0, 1] ** 2)


def test_line_needs_x_to_vary():
    fit = line(np.ones(3), np.arange(3.0), np.zeros(3, dtype=int), ONE)
    assert fit.ending == "no variation"
    assert np.isnan(fit.slope[0])
