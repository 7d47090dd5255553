"""Balancing: from a start set, repeat the one swap that lowers the forced error most.

Swapping `i` out and `j` in changes ``|g|^2`` by inner products only. With ``r`` the sum of ``|z|`` over the
kept keys and `j`, the terms have absolute sum at most ``4 r^2`` and each carries at most ``d + 2 m + 8``
roundings, so the computed square is within ``16 (d + 2 m + 8) eps r^2`` of the direct sum's, a factor of
four to spare. Swaps that may be the lowest within that are summed directly; the direct sums decide.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.forms import EPSILON


@compiled
def balance_all(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    gram: np.ndarray,  # float64 [rows, u, u]
    pools: np.ndarray,  # int64 [rows, >= m]
    some: np.ndarray,  # int64 [n], the rows to do
    m: int,
    s: int,
    tie: float,
    zeros: np.ndarray,  # float64 [rows]
    kept: np.ndarray,  # bool [rows, >= m], in: start sets, out: balanced sets
    starts: np.ndarray,  # float64 [rows], out
    errors: np.ndarray,  # float64 [rows], out
    swaps: np.ndarray,  # int64 [rows], out
) -> None:
    """`balance` of some rows with pools of `m` keys."""
    scratch = scratch_of(m, s, residuals.shape[1], residuals.shape[2])
    for r in some:
        starts[r], errors[r], swaps[r] = balance(
            residuals[r], masses[r], gram[r], pools[r, :m], tie, zeros[r], kept[r, :m], scratch
        )


@compiled
def scratch_of(m: int, s: int, u: int, d: int) -> tuple:
    """Arrays that `balance` writes to; made once, as making them takes as long as a swap."""
    sets, indices, columns = np.empty((2, m), np.bool_), np.empty((2, m), np.int64), np.empty(m, np.uint64)
    keys, squares, near = np.empty((4, m)), np.empty((2, s, m - s)), np.empty((s * (m - s), 2), np.int64)
    return np.empty(d), sets, indices, columns, np.empty(u), keys, squares, near


@compiled
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
    g, sets, indices, columns, along, keys, squares, near = scratch
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
            masses, gram, pool, inside[:s], outside[: m - s], len(g), columns, along, keys, squares
        )
        bound = max(np.sqrt(max(bound, 0.0)) * (1 + tie), zero) ** 2
        count, lowest, errors = 0, np.inf, squares[1]
        for a in range(s):
            for b in range(m - s):
                if squares[0, a, b] <= bound:
                    trial[:] = kept
                    trial[inside[a]], trial[outside[b]] = False, True
                    errors[a, b] = forced_error(residuals, masses, pool, trial, g)
                    lowest = min(lowest, errors[a, b])
                    near[count, 0], near[count, 1], count = a, b, count + 1
        limit = max(lowest * (1 + tie), zero)
        if not error > limit:
            break
        swaps, error = swaps + 1, np.inf
        for i in range(count):
            a, b = near[i, 0], near[i, 1]
            if errors[a, b] <= limit:
                trial[:] = kept
                trial[inside[a]], trial[outside[b]] = False, True
                if error == np.inf or precedes(trial, best):
                    best[:], error = trial, errors[a, b]
        kept[:] = best
    return start, error, swaps


@compiled
def _bound_swaps(
    masses: np.ndarray,  # float64 [u]
    gram: np.ndarray,  # float64 [u, u]
    pool: np.ndarray,  # int64 [m]
    inside: np.ndarray,  # int64 [s], kept
    outside: np.ndarray,  # int64 [m - s], not kept
    d: int,
    columns: np.ndarray,  # uint64 [m], scratch
    along: np.ndarray,  # float64 [u], scratch: <g, z_j>
    keys: np.ndarray,  # float64 [4, m], scratch
    squares: np.ndarray,  # float64 [2, s, m - s], out: lower and upper bounds
) -> float:
    """Bound the squared error after every swap; return the least upper bound."""
    m, s, n, square, reach, rest = len(pool), len(inside), len(outside), 0.0, 0.0, 0.0
    later, gains, weights, lengths = keys[0], keys[1], keys[2], keys[3]
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
    for b in range(n):
        j = pool[outside[b]]
        gains[b], weights[b] = 2.0 * along[j] + gram[j, j], masses[j]
        lengths[b], columns[b] = np.sqrt(gram[j, j]), j  # unsigned: no index counts from the end
    least, earlier, factor = np.inf, 0.0, 16.0 * (d + 2 * m + 8) * EPSILON
    for a in range(s):
        i = pool[inside[a]]
        row, rest = gram[i], earlier + later[a]  # sums: a difference could lose every digit
        earlier += masses[i]
        without, lowest, highest = square - 2.0 * along[i] + row[i], squares[0, a], squares[1, a]
        for b in range(n):
            after = without + (gains[b] - 2.0 * row[columns[b]])
            span, mass = reach + lengths[b], rest + weights[b]
            stray, inverse = factor * span * span, 1.0 / (mass * mass)
            lowest[b] = (after - stray) * inverse
            highest[b] = (after + stray) * inverse
        for b in range(n):
            least = min(least, highest[b])
    return least
