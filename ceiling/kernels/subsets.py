"""Exhaustive minimum of the forced error over all size-s subsets of a pool, by one add a subset.

The screen.  With an incumbent error ``tau``, a set ``A`` beats it iff

    |g_A|^2 - tau^2 p(A)^2  =  x^T (Z Z^T - tau^2 p p^T) x  <  0,     x the indicator of A,

a quadratic form with one fixed matrix ``H``.  Enumerating the smaller of the kept and the dropped
set (the other follows from the pool's total), adding key ``i`` changes the form by ``t_i`` and
every later ``t_j`` by ``2 H_ij``: with the last two levels fused, a subset costs one add and one
compare.

The proof.  Let ``R`` be the sum of ``|z_j|`` and ``P`` that of ``p_j`` over the pool. The terms that
enter the form of one subset (the pool's total counted as one more vector) have absolute sum at
most ``4 (R^2 + tau^2 P^2)``. Each carries at most ``d + m`` roundings of its dot product and of the
total and ``(k + 4)^2`` of the additions down the tree; the square of the direct sum strays less.
So a set whose direct error is at most ``tau (1 + TIE)`` has a computed form below
``slack = 16 (d + m + (k + 4)^2) eps (R^2 + tau^2 P^2) + 4 TIE tau^2 P^2``, a factor of four to
spare, and is not screened out, for any d and any pool. Whoever passes is
decided by the direct float64 sum, so the answer is the direct sum's minimum whatever the screen
let through.
"""

import numba
import numpy as np

from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.gram import gram, products

EPSILON = float(np.finfo(np.float64).eps)
"""Relative: spacing of float64."""


@numba.njit(cache=True, nogil=True)
def minimum(
    residuals: np.ndarray,  # float64 [m, d], pool in ascending positions
    masses: np.ndarray,  # float64 [m]
    s: int,
    tau: float,  # error of a size-s set of this pool
    tie: float,  # relative tolerance of ties
    zero: float,  # errors up to this are zero
    best: np.ndarray,  # bool [m], out: the winner
) -> tuple[float, int]:
    """Write the winning set into `best`; return its error and the number of tied sets.

    The winner is the lexicographically smallest of all sets within the tie tolerance of the
    minimum. A first pass finds the two smallest errors; only where they tie, a second counts.
    """
    found = np.array([np.inf, np.inf, 0.0])  # smallest, second smallest, count
    _scan(residuals, masses, s, max(tau, zero), tie, -1.0, best, found)
    limit = max(found[0] * (1 + tie), zero)
    if found[1] > limit:
        return found[0], 1
    _scan(residuals, masses, s, limit, tie, limit, best, found)
    return forced_error(residuals, masses, best, np.empty(residuals.shape[1])), int(found[2])


@numba.njit(cache=True, nogil=True)
def _scan(
    residuals: np.ndarray,  # float64 [m, d]
    masses: np.ndarray,  # float64 [m]
    s: int,
    tau: float,
    tie: float,
    limit: float,  # < 0: find the two smallest errors; else: count errors <= limit
    best: np.ndarray,  # bool [m], out
    found: np.ndarray,  # float64 [3], out
) -> None:
    """Visit every subset, deciding directly on those the screen lets through."""
    m, d = residuals.shape
    dropping = m - s < s
    k = m - s if dropping else s
    kept, g, chosen = np.empty(m, dtype=np.bool_), np.empty(d), np.zeros(max(k, 1), dtype=np.int64)
    if k < 2:  # a handful of sets: no screen
        for i in range(m if k == 1 else 1):
            chosen[0] = i
            _decide(residuals, masses, chosen[:k], dropping, limit, kept, g, best, found)
        return
    twice, levels, slack = _forms(residuals, masses, k, s, tau, tie)
    depth, last = 0, k - 2  # levels[depth, j] is t_j after `depth` choices, levels[depth, m] the form
    chosen[0] = -1
    while depth >= 0:
        i = chosen[depth] + 1
        if i > m - k + depth:  # too few keys left for the deeper levels
            depth -= 1
            continue
        chosen[depth] = i
        t, row = levels[depth], twice[i]
        if depth < last:
            deeper = levels[depth + 1]
            for j in range(i + 1, m):
                deeper[j] = t[j] + row[j]
            deeper[m] = t[m] + t[i]
            depth += 1
            chosen[depth] = i
            continue
        bound = slack - (t[m] + t[i])
        hits = 0
        for j in range(i + 1, m):  # a comparison summed as an integer: this loop vectorises
            hits += t[j] + row[j] <= bound
        if hits > 0:
            for j in range(i + 1, m):
                if t[j] + row[j] <= bound:
                    chosen[k - 1] = j
                    _decide(residuals, masses, chosen, dropping, limit, kept, g, best, found)


@numba.njit(cache=True, nogil=True)
def _decide(
    residuals: np.ndarray,  # float64 [m, d]
    masses: np.ndarray,  # float64 [m]
    chosen: np.ndarray,  # int64 [k], kept or dropped indices
    dropping: bool,
    limit: float,
    kept: np.ndarray,  # bool [m], scratch
    g: np.ndarray,  # float64 [d], scratch
    best: np.ndarray,  # bool [m], out
    found: np.ndarray,  # float64 [3], out
) -> None:
    """Compare one set's direct error with the best so far, or count it (limit >= 0)."""
    kept[:] = dropping
    for i in chosen:
        kept[i] = not dropping
    error = forced_error(residuals, masses, kept, g)
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


@numba.njit(cache=True, nogil=True)
def _forms(
    residuals: np.ndarray,  # float64 [m, d]
    masses: np.ndarray,  # float64 [m]
    k: int,
    s: int,
    tau: float,
    tie: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """``2 H`` [m, m], the level array [k - 1, m + 1] with level 0 filled, and the slack."""
    m, d = residuals.shape
    dropping = k != s
    columns = residuals.T.copy()
    dots, square = gram(columns), tau * tau
    base, mass, sign = np.zeros(d), 0.0, 1.0
    if dropping:
        base, mass, sign = residuals.sum(axis=0), masses.sum(), -1.0
    cross = products(columns, base)
    twice, levels = np.empty((m, m)), np.empty((k - 1, m + 1))
    for i in range(m):
        for j in range(m):
            twice[i, j] = 2.0 * (dots[i, j] - square * masses[i] * masses[j])
        levels[0, i] = 2.0 * sign * (cross[i] - square * mass * masses[i]) + 0.5 * twice[i, i]
    base_square = (base * base).sum()
    levels[0, m] = base_square - square * mass * mass

    reach, weight = np.sqrt(np.diag(dots)).sum(), masses.sum()
    terms = reach * reach + square * weight * weight
    slack = 16.0 * (d + m + (k + 4) ** 2) * EPSILON * terms + 4.0 * tie * square * weight * weight
    return twice, levels, slack
