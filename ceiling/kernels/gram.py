"""Inner products; plain loops, as a compiled ``@`` would need SciPy and array expressions compile slowly."""

import numpy as np

from ceiling.kernels.compiled import compiled


@compiled
def products(columns: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``<v_j, x>``, float64 [k], of the vectors in the columns, float64 [d, k]."""
    d, k = columns.shape
    out = np.zeros(k)
    for c in range(d):
        column = columns[c]
        for j in range(k):
            out[j] += column[j] * x[c]
    return out


@compiled
def dot(a: np.ndarray, b: np.ndarray) -> float:
    """``<a, b>`` over four partial sums, which pipeline."""
    first = second = third = fourth = 0.0
    whole = len(a) // 4 * 4
    for c in range(0, whole, 4):
        first += a[c] * b[c]
        second += a[c + 1] * b[c + 1]
        third += a[c + 2] * b[c + 2]
        fourth += a[c + 3] * b[c + 3]
    for c in range(whole, len(a)):
        first += a[c] * b[c]
    return (first + second) + (third + fourth)
