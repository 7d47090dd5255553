"""The direct float64 forced error of a kept set: what every decision rests on."""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot


@compiled
def forced_error(
    residuals: np.ndarray,  # float64 [u, d]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m], ascending indices of keys
    kept: np.ndarray,  # bool [m], which of them are kept
    g: np.ndarray,  # float64 [d], scratch
) -> float:
    """``|sum_A z_j| / p(A)``, summed over ascending positions."""
    g[:] = 0.0
    mass = 0.0
    for i in range(len(pool)):
        if kept[i]:
            mass += masses[pool[i]]
            z = residuals[pool[i]]
            for c in range(len(g)):
                g[c] += z[c]
    return np.sqrt(dot(g, g)) / mass


@compiled
def decide(
    error: float,  # direct error of
    kept: np.ndarray,  # bool [m], the set to decide on
    limit: float,  # < 0: find the two smallest errors; else: count errors <= limit
    best: np.ndarray,  # bool [m], out: the smallest error's set; the smallest set of those counted
    found: np.ndarray,  # float64 [3], out: smallest and second smallest error, count
) -> None:
    """Compare one set's direct error with the best so far, or count it."""
    if limit < 0:
        if error < found[0]:
            found[1], found[0] = found[0], error
            best[:] = kept
        elif error < found[1]:
            found[1] = error
    elif error <= limit:
        if found[2] == 0 or precedes(kept, best):
            best[:] = kept
        found[2] += 1


@compiled
def precedes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the set `a` (bool [m]) sorts before the equally large set `b`.

    Sorted lists first differ where only one of the two has a position, and that one is smaller.
    """
    for j in range(len(a)):
        if a[j] != b[j]:
            return a[j]
    return False
