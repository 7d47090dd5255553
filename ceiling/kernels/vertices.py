"""Vertices of a node's relaxation, and the point of their hull where the relaxed error is smallest.

A node keeps some keys and takes `k` more. A vertex is one choice of those `k`, and its point the sum of all
residuals, those of the kept keys included: it stays where it is when a key of the vertex becomes a kept one.
The relaxation may mix choices. Over the mixtures of a few vertices, ``|sum w y_v| - tau sum w p_v`` is
minimised by pairwise steps with exact line search, all in inner products. Where a mass floor is violated the
shortfall counts as one more coordinate, times `pull`.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.vectors import dot

MOST = 24
"""Vertices held, a multiple of 8; the one of least weight makes room."""

STEPS = 30
"""Pairwise steps at a time; more bring a tenth fewer nodes at best, in more time."""

FLAT = 1e-3
"""Relative to the relaxed error: what a step must promise."""


@compiled
def room(s: int, d: int) -> tuple:
    """Space for vertices: keys, weights, points, masses, inner products; scratch."""
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
    g: np.ndarray,  # float64 [d], sum of the kept residuals
    mass: float,  # of the kept keys
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
        weights[:count] /= weights[:count].sum()
    for i in range(k):
        keys[count, i] = chosen[i]
    weights[count] = 1.0 if count == 0 else 0.0
    place(residuals, masses, k, g, mass, hull, count)
    relate(hull, count, count + 1)
    return count + 1


@compiled
def place(
    residuals: np.ndarray, masses: np.ndarray, k: int, g: np.ndarray, mass: float, hull: tuple, v: int
) -> None:
    """Point and mass of vertex `v`, from its keys."""
    keys, point = hull[0], hull[2][v]
    for c in range(len(g)):
        point[c] = g[c]
    for i in range(k):
        j = keys[v, i]
        mass += masses[j]
        for c in range(len(g)):
            point[c] += residuals[j, c]
    hull[3][v] = mass


@compiled
def relate(hull: tuple, v: int, count: int) -> None:
    """Inner products of the point of vertex `v` with those of the first `count` ones."""
    points, gram = hull[2], hull[4]
    own = points[v]
    for w in range(count):
        gram[v, w] = gram[w, v] = dot(points, w, own)


@compiled
def _remove(hull: tuple, v: int, count: int) -> int:
    """The last vertex takes the place of `v`."""
    keys, weights, points, mass, gram, _, _ = hull
    count -= 1
    if v != count:
        keys[v], weights[v], points[v], mass[v] = keys[count], weights[count], points[count], mass[count]
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
    marks: np.ndarray,  # int8 [n], 1 where alive, -1 where kept since the vertices were made
    g: np.ndarray,
    mass: float,
    hull: tuple,
    count: int,
) -> int:
    """Make every vertex a choice of `k` candidates again; those without weight are dropped instead."""
    keys, weights = hull[0], hull[1]
    v = 0
    while v < count:
        filled = kept = 0
        for i in range(before):
            j = keys[v, i]
            kept += marks[j] == -1
            if marks[j] == 1:
                keys[v, filled] = j
                filled += 1
        if filled == k and kept == before - k:
            v += 1
        elif weights[v] == 0.0:
            count = _remove(hull, v, count)
        else:
            filled = min(filled, k)
            for i in range(filled):
                marks[keys[v, i]] = 2
            for i in range(m):
                if filled == k:
                    break
                if marks[alive[i]] == 1:
                    keys[v, filled], marks[alive[i]] = alive[i], 2
                    filled += 1
            for i in range(k):
                marks[keys[v, i]] = 1
            place(residuals, masses, k, g, mass, hull, v)
            relate(hull, v, count)
            v += 1
    return count


@compiled
def settle(
    residuals: np.ndarray, masses: np.ndarray, k: int, g: np.ndarray, mass: float, hull: tuple, count: int
) -> None:
    """Weights sum to 1, and all else is made anew, after vertices were chosen."""
    weights = hull[1]
    total = 0.0
    for v in range(count):
        total += weights[v]
    for v in range(count):
        weights[v] /= total
        place(residuals, masses, k, g, mass, hull, v)
        relate(hull, v, v + 1)


@compiled
def nearest(
    hull: tuple,
    count: int,
    tau: float,
    least: float,  # mass floor; 0: none
    pull: float,  # weight of a squared shortfall
    point: np.ndarray,  # float64 [d], out: sum w y_v
) -> tuple[float, float]:
    """Move the weights; returns the relaxed error ``|point, shortfall| - tau mass`` and the shortfall."""
    _, weights, points, masses, gram, along, slopes = hull
    square = total = 0.0
    weights[count:] = 0.0
    for v in range(count):
        along[v] = dot(gram, v, weights)
        square += weights[v] * along[v]
        total += weights[v] * masses[v]
    for _ in range(STEPS):
        short = max(least - total, 0.0)
        weight = pull if short > 0 else 0.0
        norm = np.sqrt(max(square, 0.0) + weight * short * short)
        if norm <= 0:
            break
        scale = 1.0 / norm
        slope = weight * short * scale + tau
        for v in range(count):
            slopes[v] = along[v] * scale - slope * masses[v]
        low, high, lowest, highest = 0, 0, np.inf, -np.inf
        for v in range(count):  # without branches: which way they go cannot be foretold
            x = slopes[v]
            y = x if weights[v] > 0 else -np.inf
            low = v if x < lowest else low
            high = v if y > highest else high
            lowest, highest = min(lowest, x), max(highest, y)
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
        more, less = gram[low], gram[high]
        for v in range(count):
            along[v] += step * (more[v] - less[v])
    total = 0.0
    point[:] = 0.0
    for v in range(count):
        if weights[v] > 0:
            total += weights[v] * masses[v]
            for c in range(len(point)):
                point[c] += weights[v] * points[v, c]
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
