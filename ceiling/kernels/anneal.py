"""Threshold accepting: random swaps that may raise the error, by ever less (G. Dueck and T. Scheuer, 1990).

On diffuse rows, sets of many light keys are good by cancelling in many dimensions, and `local` ends in one of
very many minima. Here a kept key is left out, and keys of about its mass, or any, are tried in its place; the
first is taken that leaves the error at most ``1 + threshold`` times what it was, and the threshold falls from
`HOT` to `COLD`. A try costs one inner product. Keys heavier than the heaviest of the starting set are not
tried: what is good in one band of masses is seldom reached from another.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.direct import forced_error
from ceiling.kernels.local import uniform
from ceiling.kernels.vectors import dot

HOT, COLD = 0.2, 0.001
"""First and last threshold, relative to the error."""

TRIES = 8
"""Keys tried in the place of one that is left out."""

NEAR = 0.9
"""Share of the tries among keys of about the same mass."""

LEVELS = 200
"""Thresholds; the sums of the kept keys are made anew at each, so that digits lost by swaps return."""


@compiled
def anneal(
    residuals: np.ndarray,  # float64 [n, d], padded
    masses: np.ndarray,  # float64 [n], positive
    start: np.ndarray,  # int64 [s]
    seed: int,
    swaps: int,  # limit: swaps tried
) -> tuple:
    """Return the smallest forced error met, by direct sums, and its kept set, int64 [s] ascending."""
    n, d = residuals.shape
    s = len(start)
    order = np.argsort(-masses, kind="mergesort")
    rank, squares = np.empty(n, np.int64), np.empty(n)
    for k in range(n):
        rank[order[k]] = k
        squares[k] = dot(residuals, k, residuals[k])
    kept, mark, best = start.copy(), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    mark[start] = best[start] = True
    everything, g, rest, unused = np.arange(n), np.zeros(d), np.zeros(d), np.zeros(d)
    lowest = forced_error(residuals, masses, everything, mark, unused)
    random = np.array([1 + seed % 2147483646])
    for _ in range(4):
        uniform(random)
    first = rank[start].min()
    threshold, falls = HOT, (COLD / HOT) ** (1.0 / LEVELS)
    for _ in range(LEVELS):
        g[:] = 0.0
        mass = 0.0
        for i in kept:
            mass += masses[i]
            for c in range(d):
                g[c] += residuals[i, c]
        now = dot(g.reshape(1, -1), 0, g) / (mass * mass)
        limit = (1.0 + threshold) ** 2
        threshold *= falls
        for _ in range(swaps // (LEVELS * TRIES)):
            a = int(uniform(random) * s)
            i = kept[a]
            for c in range(d):
                rest[c] = g[c] - residuals[i, c]
            square, other = dot(rest.reshape(1, -1), 0, rest), mass - masses[i]
            reach = 2 * s + rank[i] // 2
            near_low, near_high = max(rank[i] - reach, first), min(rank[i] + reach + 1, n)
            for _ in range(TRIES):
                below, above = (near_low, near_high) if uniform(random) < NEAR else (first, n)
                j = order[below + int(uniform(random) * (above - below))]
                total = other + masses[j]
                after = max(square + 2.0 * dot(residuals, j, rest) + squares[j], 0.0) / (total * total)
                if mark[j] or after > now * limit:
                    continue
                kept[a], mark[i], mark[j] = j, False, True
                for c in range(d):
                    g[c] = rest[c] + residuals[j, c]
                mass, now = total, after
                if now < lowest * lowest:
                    error = forced_error(residuals, masses, everything, mark, unused)
                    if error < lowest:
                        lowest = error
                        best[:] = mark
                break
    return lowest, np.flatnonzero(best)
