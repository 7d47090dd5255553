"""Exhaustive minimum of the forced error over all size-s subsets of a pool, by one add a subset.

The screen.  With an incumbent error ``tau``, a set ``A`` beats it iff

    |g_A|^2 - tau^2 p(A)^2  =  x^T (Z Z^T - tau^2 p p^T) x  <  0,     x the indicator of A,

a quadratic form with one fixed matrix ``H``. The smaller of the kept and the dropped set is
enumerated (the other follows from the pool's total): ``k`` keys, some from the head of the pool and
the other ``r`` from its tail. A tree over the head keeps the form of the chosen ones and, for every
key ``j``, what it would add, ``t_j``. The tail's subsets ``B`` then cost

    form + sum_B t_j + w_B,      w_B = sum of 2 H_ij over the pairs of B,

with ``w_B`` tabled once for all heads. In colexicographic order the subsets of size ``r`` whose
largest key is ``j`` are the first ``C(j, r - 1)`` of size ``r - 1``, each with ``j`` added: sums
over them grow by contiguous, vectorised loops, and the last size is compared without being stored.

The proof.  Let ``R`` be the sum of ``|z_j|`` and ``P`` that of ``p_j`` over the pool. The terms that
enter the form of one subset (the pool's total counted as one more vector) have absolute sum at
most ``4 (R^2 + tau^2 P^2)``. Each carries at most ``d + 2 m`` roundings of its dot product and of the
totals, and at most ``3 k + 8 <= (k + 4)^2`` of the additions; the square of the direct sum strays
less. So a set whose direct error is at most ``tau (1 + TIE)`` has a computed form below
``slack = 16 (d + 2 m + (k + 4)^2) eps (R^2 + tau^2 P^2) + 4 TIE tau^2 P^2``, a factor of four to
spare, and is not screened out, for any d and any pool (`ceiling.problem.Row` keeps squares away
from under- and overflow). Whoever passes is decided by the direct float64 sum, so the answer is the
direct sum's minimum whatever the screen let through.
"""

import numba
import numpy as np

from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.gram import dot, gram, products

EPSILON = float(np.finfo(np.float64).eps)
"""Relative: spacing of float64."""

TABLED = 2**14
"""Subsets of the tail that are tabled at most: two tables of 128 KiB, so that both stay in cache."""


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
    found = np.zeros(3)  # smallest and second smallest error, count
    found[0], found[1] = np.inf, np.inf
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
    twice, start, slack = _forms(residuals, masses, k, s, tau, tie)
    choose, first = _tail(m, k)
    tail = len(choose) - 1
    head = m - tail
    sums = np.zeros(first[-1])
    pairs = _pairs(twice[head:, head:], choose, first, sums)
    kept, g = np.empty(m, dtype=np.bool_), np.empty(d)
    chosen, cursor = np.empty(k, dtype=np.int64), np.zeros(k + 1, dtype=np.int64)
    cursor[0] = -1
    levels = np.empty((k + 1, m + 1))  # levels[depth, j] is t_j, levels[depth, m] the form
    levels[0] = start
    depth, fresh = 0, True
    while depth >= 0:
        r, t = k - depth, levels[depth]
        if fresh and r <= tail:
            chosen[:depth] = cursor[:depth]
            bound = slack - t[m]
            if r > 0:
                _grow(t[head:], tail, r - 1, choose, first, sums)
            elif bound >= 0:
                _decide(residuals, masses, chosen, dropping, limit, kept, g, best, found)
            at = first[r]
            for j in range(max(r - 1, 0), tail if r > 0 else 0):
                # The head's choices, key j of the tail, and every r - 1 keys of the tail below j.
                n, below = choose[j, r - 1], bound - t[head + j]
                a, b = sums[first[r - 1] : first[r]], pairs[at : at + n]
                hits = 0
                for i in range(n):  # a comparison summed as an integer: this loop vectorises
                    hits += a[i] + b[i] <= below
                for i in range(n if hits > 0 else 0):
                    if a[i] + b[i] <= below:
                        chosen[depth] = head + j
                        _unrank(i, j, choose, head, chosen[depth + 1 :])
                        _decide(residuals, masses, chosen, dropping, limit, kept, g, best, found)
                at += n
        i = cursor[depth] + 1
        if r == 0 or i >= head or head - i + tail < r:
            depth, fresh = depth - 1, False
            continue
        deeper, row = levels[depth + 1], twice[i]
        for j in range(i + 1, m):
            deeper[j] = t[j] + row[j]
        deeper[m] = t[m] + t[i]
        cursor[depth] = cursor[depth + 1] = i
        depth, fresh = depth + 1, True


@numba.njit(cache=True, nogil=True)
def _tail(m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Binomials ``C(n, q)`` [tail + 1, k + 1] and where the subsets of each size start [k + 2].

    The tail is as long as the tables allow.
    """
    choose, first = np.zeros((m + 1, k + 1), dtype=np.int64), np.zeros(k + 2, dtype=np.int64)
    choose[0, 0], tail, total = 1, -1, 1
    while total <= TABLED and tail < m:
        tail += 1
        for q in range(k + 1):
            first[q + 1] = first[q] + choose[tail, q]
        if tail < m:
            choose[tail + 1, 0], total = 1, 1
            for q in range(1, k + 1):
                choose[tail + 1, q] = choose[tail, q - 1] + choose[tail, q]
                total += choose[tail + 1, q]
    return choose[: tail + 1], first


@numba.njit(cache=True, nogil=True)
def _grow(
    t: np.ndarray,  # float64 [>= n]
    n: int,
    size: int,
    choose: np.ndarray,  # int64 [tail + 1, k + 1]
    first: np.ndarray,  # int64 [k + 2]
    sums: np.ndarray,  # float64 [tabled], in and out; sums[0], of the empty set, is 0
) -> None:
    """Sums of `t` over the subsets of the first `n` tail keys, for every size up to `size`."""
    for r in range(1, size + 1):
        below, at = sums[first[r - 1] : first[r]], first[r]
        for j in range(r - 1, n):
            here = sums[at : at + choose[j, r - 1]]
            for i in range(len(here)):
                here[i] = below[i] + t[j]
            at += len(here)


@numba.njit(cache=True, nogil=True)
def _pairs(
    twice: np.ndarray,  # float64 [tail, tail], 2 H among the tail's keys
    choose: np.ndarray,  # int64 [tail + 1, k + 1]
    first: np.ndarray,  # int64 [k + 2]
    sums: np.ndarray,  # float64 [tabled], scratch
) -> np.ndarray:
    """``w_B``, float64 [tabled]: sum of ``2 H_ij`` over the pairs of every tail subset."""
    k = len(first) - 2
    pairs = np.zeros(len(sums))
    for j in range(len(twice)):
        _grow(twice[j], j, min(j, k - 1), choose, first, sums)
        for r in range(1, min(j + 1, k) + 1):
            below, at = first[r - 1], first[r] + choose[j, r]
            for i in range(choose[j, r - 1]):
                pairs[at + i] = pairs[below + i] + sums[below + i]
    return pairs


@numba.njit(cache=True, nogil=True)
def _unrank(rank: int, n: int, choose: np.ndarray, head: int, out: np.ndarray) -> None:
    """Write the subset of `rank` among those of size ``len(out)`` of the first `n` tail keys."""
    for q in range(len(out), 0, -1):
        n -= 1
        while choose[n, q] > rank:
            n -= 1
        out[len(out) - q] = head + n
        rank -= choose[n, q]


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
    """``2 H`` [m, m]; before any choice, every ``t_j`` and the form itself [m + 1]; the slack."""
    m, d = residuals.shape
    dropping = k != s
    columns = residuals.T.copy()
    dots, square = gram(columns), tau * tau
    reach, weight = 0.0, 0.0
    for i in range(m):
        reach += np.sqrt(dots[i, i])
        weight += masses[i]
    base, mass, sign = np.zeros(d), 0.0, 1.0
    if dropping:
        base, mass, sign = products(residuals, np.ones(m)), weight, -1.0
    cross = products(columns, base)
    twice, start = np.empty((m, m)), np.empty(m + 1)
    for i in range(m):
        for j in range(m):
            twice[i, j] = 2.0 * (dots[i, j] - square * masses[i] * masses[j])
        start[i] = 2.0 * sign * (cross[i] - square * mass * masses[i]) + 0.5 * twice[i, i]
    start[m] = dot(base, base) - square * mass * mass

    terms = reach * reach + square * weight * weight
    slack = 16.0 * (d + 2 * m + (k + 4) ** 2) * EPSILON * terms + 4.0 * tie * square * weight * weight
    return twice, start, slack
