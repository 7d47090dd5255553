"""Weighted rank statistics against the same statistic of the sample written out in full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.analysis import ranks

FEW = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0])  # few values, many ties


@st.composite
def samples(draw):
    """Values, a second column, labels, documents, and rows of multiplicities (row 0: once each)."""
    n, documents = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    value = FEW | st.floats(-1e6, 1e6)
    columns = [np.array(draw(st.lists(value, min_size=n, max_size=n))) for _ in range(2)]
    label = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    cluster = np.array(draw(st.lists(st.integers(0, documents - 1), min_size=n, max_size=n)))
    counts = st.lists(st.integers(0, 3), min_size=documents, max_size=documents)
    weights = np.array([[1] * documents, *draw(st.lists(counts, max_size=4))])
    return *columns, label, cluster, weights


def written_out(array, cluster, counts):
    return np.repeat(array, counts[cluster])


@given(samples(), st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.99, 1.0]))
def test_quantile_is_numpys_quantile_of_the_written_out_sample(sample, q):
    x, _, _, cluster, weights = sample
    found = ranks.quantile(x, cluster, weights, q)
    for value, counts in zip(found, weights, strict=True):
        full = written_out(x, cluster, counts)
        if len(full) == 0:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(np.quantile(full, q), rel=1e-12, abs=1e-12)


def test_quantile_meets_infinity_only_where_it_must():
    x, cluster, weights = np.array([1.0, 2.0, np.inf]), np.zeros(3, dtype=int), np.ones((1, 1), dtype=int)
    found = [ranks.quantile(x, cluster, weights, q)[0] for q in (0.0, 0.5, 0.51, 1.0)]
    assert found == [1.0, 2.0, np.inf, np.inf]


@given(samples())
def test_share_is_the_mean_of_the_written_out_flags(sample):
    _, _, label, cluster, weights = sample
    for value, counts in zip(ranks.share(label, cluster, weights), weights, strict=True):
        full = written_out(label, cluster, counts)
        assert np.isnan(value) if len(full) == 0 else value == pytest.approx(full.mean())


@given(samples())
def test_auc_counts_every_pair_and_half_of_the_ties(sample):
    x, _, label, cluster, weights = sample
    for value, counts in zip(ranks.auc(x, label, cluster, weights), weights, strict=True):
        score, true = written_out(x, cluster, counts), written_out(label, cluster, counts)
        pairs = [(a > b) + (a == b) / 2 for a in score[true] for b in score[~true]]
        assert np.isnan(value) if not pairs else value == pytest.approx(np.mean(pairs))


@given(samples())
def test_spearman_is_pearson_of_mean_ranks(sample):
    x, y, _, cluster, weights = sample
    for value, counts in zip(ranks.spearman(x, y, cluster, weights), weights, strict=True):
        a, b = (mean_ranks(written_out(v, cluster, counts)) for v in (x, y))
        if len(a) == 0 or np.ptp(a) == 0 or np.ptp(b) == 0:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)


def mean_ranks(values):
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


@pytest.mark.parametrize("name", ["quantile", "share", "auc", "spearman"])
def test_an_empty_sample_has_no_statistic(name):
    empty, flags, cluster = np.array([]), np.array([], dtype=bool), np.array([], dtype=int)
    weights = np.ones((3, 2), dtype=int)
    arguments = {
        "quantile": (empty, cluster, weights, 0.5),
        "share": (flags, cluster, weights),
        "auc": (empty, flags, cluster, weights),
        "spearman": (empty, empty, cluster, weights),
    }
    assert np.isnan(getattr(ranks, name)(*arguments[name])).all()
