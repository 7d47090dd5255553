"""The cluster bootstrap: multiplicities, percentile intervals, and when there are none."""

import numpy as np
import pytest

from ceiling.analysis import ranks
from ceiling.analysis.bootstrap import document_weights, estimate, interval_note


def test_every_resampling_counts_as_many_documents_as_there_are():
    weights = document_weights(8)
    assert weights.shape == (1001, 8)
    assert (weights.sum(axis=1) == 8).all()
    assert (weights[0] == 1).all()
    assert abs(weights[1:].mean() - 1) < 1e-12
    assert weights[1:].var() == pytest.approx(1 - 1 / 8, rel=0.05)  # multinomial


def test_same_seed_same_weights_other_seed_other_weights():
    assert np.array_equal(document_weights(6, seed=3), document_weights(6, seed=3))
    assert not np.array_equal(document_weights(6, seed=3), document_weights(6, seed=4))


@pytest.mark.parametrize(("documents", "rows"), [(1, 1), (4, 1), (5, 1001)])
def test_fewer_than_five_documents_are_not_resampled(documents, rows):
    weights = document_weights(documents)
    assert len(weights) == rows
    assert interval_note(documents, rows - 1).startswith("none" if rows == 1 else "95%")


def test_estimate_gives_nulls_for_what_is_undefined():
    assert estimate("x", np.array([np.nan])) == {"x": None, "x_low": None, "x_high": None}
    assert estimate("x", np.array([np.inf, 1.0, 2.0])) == {"x": None, "x_low": None, "x_high": None}
    assert estimate("x", np.array([1.0, 1.0, np.nan])) == {"x": 1.0, "x_low": None, "x_high": None}


def test_estimate_takes_the_middle_95_percent():
    found = estimate("x", np.concatenate([[50.0], np.arange(101.0)]))
    assert found == pytest.approx({"x": 50.0, "x_low": 2.5, "x_high": 97.5})


def test_few_documents_are_said_to_cover_less():
    assert interval_note(6, 1000) == (
        "95% percentile, 1000 resamplings of 6 documents, fewer than 20: it covers less"
    )
    assert interval_note(20, 1000) == "95% percentile, 1000 resamplings of 20 documents"


def test_interval_of_a_mean_has_the_width_theory_gives():
    rng = np.random.default_rng(0)
    documents, per = 40, 50
    rate = rng.uniform(0.2, 0.8, documents)
    cluster = np.repeat(np.arange(documents), per)
    flags = rng.random(documents * per) < rate[cluster]
    found = estimate("x", ranks.share(flags, cluster, document_weights(documents)))
    by_document = flags.reshape(documents, per).mean(axis=1)
    wide = 2 * 1.96 * by_document.std() / np.sqrt(documents)  # between documents, not between rows
    assert found["x_high"] - found["x_low"] == pytest.approx(wide, rel=0.1)
