"""Balancing: from a start set, repeat the one swap that lowers the forced error most.

Swapping `i` out and `j` in changes ``|g|^2`` by inner products only. With ``r`` the sum of ``|z|`` over the
kept keys and `j`, the terms have absolute sum at most ``4 r^2`` and each carries at most ``d + 2 m + 8``
roundings, so the computed square is within ``16 (d + 2 m + 8) eps r^2`` of the direct sum's, a factor of
four to spare. Swaps that may be the lowest within that are summed directly; the direct sums decide.
"""

import numba
import numpy as np

from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.forms import EPSILON


@numba.njit(cache=True, nogil=True)
def balance_all(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    gram: np.ndarray,  # float64 [rows, u, u]
    pools: np.ndarray,  # int64 [rows, >= m]
    some: np.ndarray,  # int64 [n], the rows to do
    m: int,
    tie: float,
    zeros: np.ndarray,  # float64 [rows]
    kept: np.ndarray,  # bool [rows, >= m], in: start sets, out: balanced sets
    starts: np.ndarray,  # float64 [rows], out
    errors: np.ndarray,  # float64 [rows], out
    swaps: np.ndarray,  # int64 [rows], out
) -> None:
    """`balance` of some rows with pools of `m` keys."""
    scratch = scratch_of(m, residuals.shape[1], residuals.shape[2])
    for r in some:
        starts[r], errors[r], swaps[r] = balance(
            residuals[r], masses[r], gram[r], pools[r, :m], tie, zeros[r], kept[r, :m], scratch
        )


@numba.njit(cache=True, nogil=True)
def scratch_of(m: int, u: int, d: int) -> tuple:
    """Arrays that `balance` writes to; made once, as making them takes as long as a swap."""
    return (
        np.empty(d),
        np.empty((2, m), dtype=np.bool_),
        np.empty((2, m), dtype=np.int64),
        np.empty((m, m)),
        np.empty(u),
        np.empty((2, m)),
    )


@numba.njit(cache=True, nogil=True)
def balance(
    residuals: np.ndarray,  # float64 [u, d]
    masses: np.ndarray,  # float64 [u]
    gram: np.ndarray,  # float64 [u, u], <z_i, z_j>
    pool: np.ndarray,  # int64 [m], ascending indices
    tie: float,  # relative tolerance of ties
    zero: float,  # errors up to this are zero
    kept: np.ndarray,  # bool [m], in: start set, out: balanced set
    scratch: tuple,  # of `scratch_of`
) -> tuple[float, float, int]:
    """Return the errors of the start set and of the set reached, and the number of swaps made.

    Among swaps whose errors tie, the lexicographically smallest resulting set wins; the search
    stops when no swap lowers the error beyond the tie tolerance.
    """
    m = len(pool)
    g, sets, indices, lowest, along, pair = scratch
    trial, best, inside, outside = sets[0], sets[1], indices[0], indices[1]
    start = forced_error(residuals, masses, pool, kept, g)
    error, swaps = start, 0
    while error > zero:
        s = 0
        for a in range(m):
            if kept[a]:
                inside[s], s = a, s + 1
            else:
                outside[a - s] = a
        bound = _bound_swaps(
            masses, gram, pool, inside[:s], outside[: m - s], len(g), along, pair[0], pair[1], lowest
        )
        bound = max(np.sqrt(bound) * (1 + tie), zero)
        smallest = np.inf
        for a in range(s):
            for b in range(m - s):
                if lowest[a, b] > bound * bound:
                    lowest[a, b] = np.inf
                    continue
                trial[:] = kept
                trial[inside[a]], trial[outside[b]] = False, True
                lowest[a, b] = forced_error(residuals, masses, pool, trial, g)
                smallest = min(smallest, lowest[a, b])
        limit = max(smallest * (1 + tie), zero)
        if not error > limit:
            break
        found = False
        for a in range(s):
            for b in range(m - s):
                if lowest[a, b] <= limit:
                    trial[:] = kept
                    trial[inside[a]], trial[outside[b]] = False, True
                    if not found or precedes(trial, best):
                        best[:], found, error = trial, True, lowest[a, b]
        kept[:] = best
        swaps += 1
    return start, error, swaps


@numba.njit(cache=True, nogil=True)
def _bound_swaps(
    masses: np.ndarray,  # float64 [u]
    gram: np.ndarray,  # float64 [u, u]
    pool: np.ndarray,  # int64 [m]
    inside: np.ndarray,  # int64 [s], kept
    outside: np.ndarray,  # int64 [m - s], not kept
    d: int,
    along: np.ndarray,  # float64 [u], scratch: <g, z_j>
    later: np.ndarray,  # float64 [m], scratch: mass kept after each key
    lengths: np.ndarray,  # float64 [m], scratch: |z_j| of the keys not kept
    lowest: np.ndarray,  # float64 [m, m], out: [s, m - s] lower bounds of the squared errors
) -> float:
    """Bound the squared error after every swap from below; return the least upper bound."""
    m, s, square, reach, rest = len(pool), len(inside), 0.0, 0.0, 0.0
    along[:] = 0.0
    for a in range(s - 1, -1, -1):
        i = pool[inside[a]]
        row = gram[i]
        reach += np.sqrt(row[i])
        later[a] = rest
        rest += masses[i]
        for j in range(len(along)):
            along[j] += row[j]
    for a in range(s):
        square += along[pool[inside[a]]]
    for b in range(len(outside)):
        lengths[b] = np.sqrt(gram[pool[outside[b]], pool[outside[b]]])
    least, earlier, factor = np.inf, 0.0, 16.0 * (d + 2 * m + 8) * EPSILON
    for a in range(s):
        i = pool[inside[a]]
        row, rest = gram[i], earlier + later[a]  # sums: a difference could lose every digit
        earlier += masses[i]
        without = square - 2.0 * along[i] + row[i]
        for b in range(len(outside)):
            j = pool[outside[b]]
            own, mass = gram[j, j], rest + masses[j]
            after = without + 2.0 * (along[j] - row[j]) + own
            span = reach + lengths[b]
            stray, inverse = factor * span * span, 1.0 / (mass * mass)
            lowest[a, b] = max(after - stray, 0.0) * inverse
            least = min(least, (after + stray) * inverse)
    return least
