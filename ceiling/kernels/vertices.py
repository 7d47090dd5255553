"""Vertices of a node's relaxation, and the point of their hull where the relaxed error is smallest.

A node keeps some keys, with sums ``g`` of residuals and ``p`` of masses, and takes `k` more. A vertex is one
choice of those `k`; the relaxation may mix choices. Over the mixtures of a few vertices, ``|g + sum w g_v|
- tau (p + sum w p_v)`` is minimised by pairwise steps with exact line search, all in inner products. Where a
mass floor is violated the shortfall counts as one more coordinate, times `pull`.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.vectors import dot

MOST = 32
"""Vertices held; the one of least weight makes room."""

STEPS = 30
"""Pairwise steps at a time; more bring no fewer nodes."""

FLAT = 1e-3
"""Relative to the relaxed error: what a step must promise."""


@compiled
def room(s: int, d: int) -> tuple:
    """Space for vertices: keys, weights, sums of residuals, sums of masses, inner products."""
    return (
        np.zeros((MOST, s + 2), np.int32), np.zeros(MOST), np.zeros((MOST, d)), np.zeros(MOST),
        np.zeros((MOST, MOST)), np.zeros(MOST), np.zeros(MOST),
    )  # fmt: skip


@compiled
def add(
    residuals: np.ndarray,  # float64 [n, d]
    masses: np.ndarray,  # float64 [n]
    chosen: np.ndarray,  # int64 [k], its keys
    k: int,
    g: np.ndarray,  # float64 [d]
    hull: tuple,
    count: int,
) -> int:
    """Take in a vertex, of weight 0 unless it is the first; returns how many there are."""
    keys, weights = hull[0], hull[1]
    if count == MOST:
        least = 0
        for v in range(count):
            if weights[v] < weights[least]:
                least = v
        count = _remove(hull, least, count)
    for i in range(k):
        keys[count, i] = chosen[i]
    weights[count] = 1.0 if count == 0 else 0.0
    place(residuals, masses, k, g, hull, count, count + 1)
    return count + 1


@compiled
def place(
    residuals: np.ndarray, masses: np.ndarray, k: int, g: np.ndarray, hull: tuple, v: int, count: int
) -> None:
    """Sums of vertex `v`, and its inner products with the first `count` ones."""
    keys, _, sums, mass, gram, onto, _ = hull
    total = 0.0
    for c in range(sums.shape[1]):
        sums[v, c] = 0.0
    for i in range(k):
        j = keys[v, i]
        total += masses[j]
        for c in range(sums.shape[1]):
            sums[v, c] += residuals[j, c]
    mass[v] = total
    own = sums[v]
    for w in range(count):
        gram[v, w] = gram[w, v] = dot(sums, w, own)
    onto[v] = dot(sums, v, g)


@compiled
def _remove(hull: tuple, v: int, count: int) -> int:
    """The last vertex takes the place of `v`."""
    keys, weights, sums, mass, gram, onto, _ = hull
    count -= 1
    if v != count:
        keys[v], weights[v], sums[v] = keys[count], weights[count], sums[count]
        mass[v], onto[v] = mass[count], onto[count]
        for w in range(count):
            gram[v, w] = gram[w, v] = gram[count, w]
        gram[v, v] = gram[count, count]
    return count


@compiled
def repair(
    residuals: np.ndarray,
    masses: np.ndarray,
    before: int,  # keys of a vertex so far
    k: int,  # keys of a vertex from now on
    alive: np.ndarray,  # int32 [m], candidates in use
    m: int,
    marks: np.ndarray,  # int8 [n], 1 where alive
    g: np.ndarray,
    hull: tuple,
    count: int,
) -> int:
    """Make every vertex a choice of `k` candidates again; those without weight are dropped instead."""
    keys, weights, sums, onto = hull[0], hull[1], hull[2], hull[5]
    v = 0
    while v < count:
        whole = 0
        for i in range(before):
            whole += marks[keys[v, i]]
        if whole == k == before:
            v += 1
        elif weights[v] == 0.0:
            count = _remove(hull, v, count)
        else:
            filled = 0
            for i in range(before):
                j = keys[v, i]
                if marks[j] == 1 and filled < k:
                    keys[v, filled], marks[j] = j, 2
                    filled += 1
            for i in range(m):
                if filled == k:
                    break
                if marks[alive[i]] == 1:
                    keys[v, filled], marks[alive[i]] = alive[i], 2
                    filled += 1
            for i in range(k):
                marks[keys[v, i]] = 1
            place(residuals, masses, k, g, hull, v, count)
            v += 1
    if before != k:
        for v in range(count):
            onto[v] = dot(sums, v, g)
    return count


@compiled
def settle(residuals: np.ndarray, masses: np.ndarray, k: int, g: np.ndarray, hull: tuple, count: int) -> None:
    """Weights sum to 1, and sums are made anew, after keys or `g` changed."""
    weights = hull[1]
    total = 0.0
    for v in range(count):
        total += weights[v]
    for v in range(count):
        weights[v] /= total
        place(residuals, masses, k, g, hull, v, v + 1)


@compiled
def nearest(
    hull: tuple,
    count: int,
    g: np.ndarray,  # float64 [d]
    mass: float,  # of the kept keys
    tau: float,
    least: float,  # mass floor; 0: none
    pull: float,  # weight of a squared shortfall
    point: np.ndarray,  # float64 [d], out: g + sum w g_v
) -> tuple[float, float]:
    """Move the weights; returns the relaxed error ``|point, shortfall| - tau mass`` and the shortfall."""
    _, weights, sums, masses, gram, onto, along = hull
    square, total = dot(g.reshape(1, -1), 0, g), mass
    for v in range(count):
        total += weights[v] * masses[v]
    for v in range(count):
        inner = onto[v]
        for w in range(count):
            inner += weights[w] * gram[v, w]
        along[v] = inner
        square += weights[v] * (onto[v] + inner)
    for _ in range(STEPS):
        short = max(least - total, 0.0)
        weight = pull if short > 0 else 0.0
        norm = np.sqrt(max(square, 0.0) + weight * short * short)
        if norm <= 0:
            break
        low, high, lowest, highest = -1, -1, 0.0, 0.0
        scale = 1.0 / norm  # divisions check for zero, and the loop below would not vectorise
        slope = weight * short * scale + tau
        for v in range(count):
            gradient = along[v] * scale - slope * masses[v]
            if low < 0 or gradient < lowest:
                low, lowest = v, gradient
            if weights[v] > 0 and (high < 0 or gradient > highest):
                high, highest = v, gradient
        if highest - lowest <= FLAT * abs(norm - tau * total):
            break
        gain = masses[low] - masses[high]
        first = along[low] - along[high]
        second = gram[low, low] - 2 * gram[low, high] + gram[high, high]
        step = _step(
            square + weight * short * short, first - weight * short * gain, second + weight * gain * gain,
            tau * gain, weights[high],
        )  # fmt: skip
        if step <= 0:
            break
        square += 2 * step * first + step * step * second
        total += step * gain
        weights[high] = 0.0 if step == weights[high] else weights[high] - step
        weights[low] += step
        for v in range(count):
            along[v] += step * (gram[v, low] - gram[v, high])
    total = mass
    for c in range(len(g)):
        point[c] = g[c]
    for v in range(count):
        if weights[v] > 0:
            total += weights[v] * masses[v]
            for c in range(len(g)):
                point[c] += weights[v] * sums[v, c]
    short = max(least - total, 0.0)
    return np.sqrt(dot(point.reshape(1, -1), 0, point) + pull * short * short) - tau * total, short


@compiled
def _step(square: float, first: float, second: float, slope: float, most: float) -> float:
    """Minimise ``sqrt(square + 2 first x + second x^2) - slope x`` over ``0 <= x <= most``."""
    excess = second - slope * slope
    if excess <= 0:
        return most
    root = np.sqrt(slope * slope * max(square * second - first * first, 0.0) / excess)
    return min(((root if slope >= 0 else -root) - first) / second, most)
