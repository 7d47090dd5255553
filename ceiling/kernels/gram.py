"""Inner products of a set of vectors; plain loops, as a compiled ``@`` would need SciPy."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def gram(columns: np.ndarray) -> np.ndarray:
    """``<v_i, v_j>``, float64 [k, k], of the vectors in the columns, float64 [d, k]."""
    d, k = columns.shape
    out = np.zeros((k, k))
    for c in range(d):
        column = columns[c]
        for i in range(k):
            row = out[i]
            for j in range(k):  # over the contiguous axis, so that it vectorises without fast-math
                row[j] += column[i] * column[j]
    return out


@numba.njit(cache=True, nogil=True)
def products(columns: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``<v_j, x>``, float64 [k], of the vectors in the columns, float64 [d, k]."""
    d, k = columns.shape
    out = np.zeros(k)
    for c in range(d):
        column = columns[c]
        for j in range(k):
            out[j] += column[j] * x[c]
    return out
