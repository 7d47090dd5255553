"""Resampled means: as numpy's fancy indexing has them, whatever is drawn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ceiling.kernels.paired import resampled_means


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_equals_indexing(n, columns, draws, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, columns))
    rows = rng.integers(0, n, (draws, n), dtype=np.int32)
    slow = values[rows].mean(axis=1).T
    np.testing.assert_allclose(resampled_means(values, rows), slow, rtol=1e-12, atol=1e-12)


def test_equal_columns_have_equal_means_to_the_last_bit():
    rng = np.random.default_rng(0)
    column = rng.random((20, 1))
    one, other = resampled_means(np.hstack([column, column]), rng.integers(0, 20, (50, 20), dtype=np.int32))
    assert (one == other).all()
