"""Means over resampled rows: all columns share each resampling, so their differences stay paired."""

import numpy as np

from ceiling.kernels.compiled import compiled


@compiled
def resampled_means(values: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Mean of every column over every resampling of the rows.

    Parameters
    ----------
    values : ndarray of float64, shape (n, c), C-contiguous
        A row an instance, a column a quantity.
    draws : ndarray of int32, shape (b, m)
        Rows of each resampling, with repetition; below n, which is not checked.

    Returns
    -------
    ndarray of float64, shape (c, b)
        Resamplings last: what comes next, differences and quantiles, runs along them.
    """
    count, each = draws.shape
    columns = values.shape[1]
    out = np.empty((columns, count))
    total = np.empty(columns)
    for b in range(count):
        for c in range(columns):
            total[c] = 0.0
        for i in range(each):
            row = values[draws[b, i]]
            for c in range(columns):
                total[c] += row[c]
        for c in range(columns):
            out[c, b] = total[c] / each
    return out
