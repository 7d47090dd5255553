"""Balancing over all keys of a row, for counts of hundreds: from top-mass, the best swap again and again.

Where ``g`` is the sum of the kept residuals, a swap of `i` for `j` leaves ``|g - z_i + z_j|^2`` over the
square of the kept mass: three numbers and an inner product. As ``<z_i, z_j> <= |z_i| |z_j|``, most kept keys
are seen not to lead below the best swap so far without looking at any `j`. A swap counts only where the
direct sum after it is smaller, and that sum is the next ``g``: what rounding adds to ``<g, z_j>`` from swap
to swap can hide a swap, and accept none that does not lower the error.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot


@compiled
def descend(
    gram: np.ndarray,  # float64 [n, n], <z_i, z_j>
    residuals: np.ndarray,  # float64 [n, d], keys by descending mass
    masses: np.ndarray,  # float64 [n], positive
    s: int,  # 1 .. n - 1; the first `s` are the start
    most: int,  # swaps, at most
    tie: float,  # relative: a swap lowers the error by more
) -> tuple:
    """Return the error of the set reached, the set, bool [n], and the swaps made."""
    n, d = residuals.shape
    squares, lengths, gains, along = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    kept, g = np.zeros(n, np.bool_), np.zeros(d)
    kept[:s] = True
    for j in range(n):
        squares[j], lengths[j] = gram[j, j], np.sqrt(gram[j, j])
    error, swaps, out, into = np.inf, 0, -1, -1
    while True:
        mass = _sum(residuals, masses, kept, g)
        square = dot(g, g)
        found = np.sqrt(square) / mass
        if swaps and not found < error * (1 - tie):
            kept[out], kept[into] = True, False
            return error, kept, swaps - 1
        error = found
        if swaps == most:
            return error, kept, swaps
        for j in range(n):
            along[j] = along[j] + (gram[into, j] - gram[out, j]) if swaps else dot(g, residuals[j])
        out, into = _best_swap(
            gram, squares, lengths, masses, kept, along, gains, square, mass, (error * (1 - tie)) ** 2
        )
        if out < 0:
            return error, kept, swaps
        kept[out], kept[into], swaps = False, True, swaps + 1


@compiled
def _sum(residuals: np.ndarray, masses: np.ndarray, kept: np.ndarray, g: np.ndarray) -> float:
    """Sum the kept residuals into `g`; return the kept mass."""
    g[:], mass = 0.0, 0.0
    for j in range(len(masses)):
        if kept[j]:
            mass += masses[j]
            z = residuals[j]
            for c in range(len(g)):
                g[c] += z[c]
    return mass


@compiled
def _best_swap(
    gram: np.ndarray,  # float64 [n, n]
    squares: np.ndarray,  # float64 [n], |z_j|^2
    lengths: np.ndarray,  # float64 [n], |z_j|
    masses: np.ndarray,  # float64 [n]
    kept: np.ndarray,  # bool [n]
    along: np.ndarray,  # float64 [n], <g, z_j>
    gains: np.ndarray,  # float64 [n], scratch
    square: float,  # |g|^2
    mass: float,  # of the kept keys
    best: float,  # squared error to be below
) -> tuple[int, int]:
    """The swap that leads lowest, a key out and a key in; -1 where none leads below `best`."""
    n = len(masses)
    first, last, lightest, longest, heaviest = n, 0, np.inf, 0.0, 0.0
    start, least, out, into = -1, np.inf, -1, -1
    for j in range(n):
        gains[j] = np.inf
        if not kept[j]:
            gains[j] = square + squares[j] + 2.0 * along[j]
            lightest, longest = min(lightest, gains[j]), max(longest, lengths[j])
            heaviest = max(heaviest, masses[j])
            first, last = min(first, j), j + 1
        elif squares[j] - 2.0 * along[j] < least:
            start, least = j, squares[j] - 2.0 * along[j]
    for turn in range(-1, n):
        i = start if turn < 0 else turn  # a good swap first excludes most of the others
        if not kept[i] or turn == start:
            continue
        without, rest = squares[i] - 2.0 * along[i], mass - masses[i]
        if without + lightest - 2.0 * lengths[i] * longest >= best * (rest + heaviest) ** 2:
            continue
        row, gain, weight, lower = gram[i, first:last], gains[first:last], masses[first:last], 0
        for j in range(last - first):
            total = rest + weight[j]
            lower += without + gain[j] - 2.0 * row[j] < best * (total * total)
        for j in range(last - first if lower else 0):
            total = rest + weight[j]
            after = np.divide(without + gain[j] - 2.0 * row[j], total * total)
            if after < best:
                best, out, into = after, i, first + j
    return out, into
