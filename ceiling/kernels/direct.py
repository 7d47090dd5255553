"""The direct float64 forced error of a kept set: what every decision rests on."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def forced_error(
    residuals: np.ndarray,  # float64 [m, d]
    masses: np.ndarray,  # float64 [m]
    kept: np.ndarray,  # bool [m]
    g: np.ndarray,  # float64 [d], scratch
) -> float:
    """``|sum_A z_j| / p(A)``, summed over ascending positions."""
    g[:] = 0.0
    mass = 0.0
    for j in range(len(masses)):
        if kept[j]:
            mass += masses[j]
            for c in range(len(g)):
                g[c] += residuals[j, c]
    square = 0.0
    for c in range(len(g)):
        square += g[c] * g[c]
    return np.sqrt(square) / mass


@numba.njit(cache=True, nogil=True)
def precedes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the set `a` (bool [m]) sorts before the equally large set `b`.

    Sorted lists first differ where only one of the two has a position, and that one is smaller.
    """
    for j in range(len(a)):
        if a[j] != b[j]:
            return a[j]
    return False
