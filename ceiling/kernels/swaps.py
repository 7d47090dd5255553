"""Balancing: from a start set, repeat the one swap that lowers the forced error most."""

import numba
import numpy as np

from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.gram import dot
from ceiling.kernels.subsets import EPSILON


@numba.njit(cache=True, nogil=True)
def balance(
    residuals: np.ndarray,  # float64 [m, d], pool in ascending positions
    masses: np.ndarray,  # float64 [m]
    tie: float,  # relative tolerance of ties
    zero: float,  # errors up to this are zero
    kept: np.ndarray,  # bool [m], in: start set, out: balanced set
) -> tuple[float, int]:
    """Return the error reached and the number of swaps made.

    Among swaps whose errors tie, the lexicographically smallest resulting set wins; the search
    stops when no swap lowers the error beyond the tie tolerance.
    """
    m, d = residuals.shape
    g, errors = np.empty(d), np.empty((m, m))
    trial, best = np.empty(m, dtype=np.bool_), np.empty(m, dtype=np.bool_)
    error, swaps = forced_error(residuals, masses, kept, g), 0
    while error > zero:
        lowest = _swap_errors(residuals, masses, kept, tie, zero, trial, errors)
        limit = max(lowest * (1 + tie), zero)
        if not error > limit:
            break
        found = False
        for i in range(m):
            for j in range(m):
                if errors[i, j] <= limit:
                    trial[:] = kept
                    trial[i], trial[j] = False, True
                    if not found or precedes(trial, best):
                        best[:], found = trial, True
        kept[:] = best
        error, swaps = forced_error(residuals, masses, kept, g), swaps + 1
    return error, swaps


@numba.njit(cache=True, nogil=True)
def _swap_errors(
    residuals: np.ndarray,  # float64 [m, d]
    masses: np.ndarray,  # float64 [m]
    kept: np.ndarray,  # bool [m]
    tie: float,
    zero: float,
    trial: np.ndarray,  # bool [m], scratch
    errors: np.ndarray,  # float64 [m, m], out
) -> float:
    """Direct error after swapping `i` out and `j` in, where it can be the lowest; else inf.

    Returns the lowest. An updated sum of `s` terms is within ``(s + 4) eps`` of the direct one in
    units of the terms' absolute sum; four times that decides which swaps are summed directly.
    """
    m, d = residuals.shape
    g, slack = np.zeros(d), np.zeros((m, m))
    s, reach = 0, 0.0
    for j in range(m):
        if kept[j]:
            s += 1
            reach += np.sqrt(dot(residuals[j], residuals[j]))
            for c in range(d):
                g[c] += residuals[j, c]
    bound = np.inf
    errors[:] = np.inf
    for i in range(m):
        if not kept[i]:
            continue
        rest = 0.0
        for j in range(m):
            if kept[j] and j != i:
                rest += masses[j]
        for j in range(m):
            if kept[j]:
                continue
            square, size = 0.0, 0.0
            for c in range(d):
                step = g[c] - residuals[i, c] + residuals[j, c]
                square += step * step
                size += residuals[j, c] * residuals[j, c]
            mass = rest + masses[j]
            errors[i, j] = np.sqrt(square) / mass
            slack[i, j] = 4 * (s + 4) * EPSILON * (reach + np.sqrt(size) + errors[i, j] * mass) / mass
            bound = min(bound, errors[i, j] + slack[i, j])
    lowest, bound = np.inf, max(bound * (1 + tie), zero)
    for i in range(m):
        for j in range(m):
            if errors[i, j] == np.inf:
                continue
            if errors[i, j] - slack[i, j] > bound:
                errors[i, j] = np.inf
                continue
            trial[:] = kept
            trial[i], trial[j] = False, True
            errors[i, j] = forced_error(residuals, masses, trial, g)
            lowest = min(lowest, errors[i, j])
    return lowest
