"""Few keys whose hull comes near the dense output: an upper estimate of ``EF(s)`` at every budget.

As `ceiling.objective.corrective`: keys join one by one, and after each the weights are re-solved by
Wolfe's algorithm; at a budget, kept keys are swapped for better ones. The nearest point ``x`` of a hull
is orthogonal to its edges, so a key at distance ``t`` from their affine hull brings ``|x|^2`` down by
``(|x|^2 - <x, v - mu>)^2 / t^2`` if all weights stay positive. Growth ranks all keys by this gain, in the
values' own precision, at one product per key and step; swaps look among the best key of every lane. Ranks
only propose: weights and distances are float64.
"""

from typing import NamedTuple

import numpy as np

from ceiling.kernels import hull
from ceiling.kernels.compiled import compiled
from ceiling.kernels.geometry import BLOCK, add_products
from ceiling.kernels.gram import dot, products

LANES = 64
"""Keys are dealt to so many lanes; swaps look among the best key of each."""

FLAT = 1e-5
"""Of ``|v - mu|^2``: a key whose squared distance from the affine hull is less is not proposed, as float32
leaves few digits of it."""

STALE = 0.125
"""Ratio: gains that were brought along are computed afresh once ``|x|`` has fallen to this, so that their
rounding stays small beside ``|x|^2``."""

STEPS = 4
"""Keys that may join, in units of the largest budget: a guard, as few leave again."""

TRIES = 64
"""Kept keys times budget: how many swaps are tried at it. A swap of many keys takes longer; twice as many
lower the distance by 2 to 4 percent at the median, and take a quarter of all the time."""

GAIN = 1e-9
"""Relative, of ``|x|^2``: what a swap gains at least, far above rounding, so that no two sets take turns."""


class _Keys(NamedTuple):
    """A row's keys, and what the ranking knows of them in the values' precision, in units of `reach`."""

    columns: np.ndarray  # float [d, N], the values
    origin: np.ndarray  # float64 [d]
    mean: np.ndarray  # float64 [d], mu - origin
    reach: float  # no value is longer
    raw: np.ndarray  # float [n]: products with some direction
    gaps: np.ndarray  # float [n]: |x|^2 - <x, v - mu>
    rests: np.ndarray  # float [n]: squared distances from the affine hull; -inf where never proposed
    floors: np.ndarray  # float [n]: what rests must exceed
    gains: np.ndarray  # float [n]


@compiled
def corrective(
    columns: np.ndarray,  # float [d, N], the values: a component a row
    masses: np.ndarray,  # float64 [n], n <= N; keys of zero mass are no keys
    origin: np.ndarray,  # float64 [d]
    mean: np.ndarray,  # float64 [d], mu - origin
    squares: np.ndarray,  # float64 [>= n], |v_j - mu|^2
    budgets: np.ndarray,  # int64 [b], ascending
    tolerance: float,  # a distance up to this is an arrival, in the units of the values
    distances: np.ndarray,  # float64 [b], out
) -> None:
    """Distance of ``mu`` from the hull of some `s` keys, at every budget; never rising with `s`.

    0 where all keys are kept, and with more keys than components: `d + 1` of them hold ``mu``
    (Caratheodory).
    """
    count, nearest, farthest, centre, last = 0, -1, 0.0, 0.0, 0
    for j in range(len(masses)):
        if masses[j] > 0:
            count += 1
            farthest = max(farthest, squares[j])
            if nearest < 0 or squares[j] < squares[nearest]:
                nearest = j
    distances[:] = 0.0
    while last < len(budgets) and budgets[last] < count and budgets[last] <= len(mean):
        last += 1
    if last == 0 or squares[nearest] <= tolerance**2:
        return
    for c in range(len(mean)):
        centre += (origin[c] + mean[c]) ** 2
    reach, scratch = np.sqrt(farthest) + np.sqrt(centre), np.empty((5, len(masses)), columns.dtype)
    keys = _Keys(columns, origin, mean, reach, scratch[0], scratch[1], scratch[2], scratch[3], scratch[4])
    distances[:last] = np.sqrt(squares[nearest])
    corral = hull.corral_of(np.zeros((budgets[last - 1] + 1, len(mean))))
    _centre(keys, nearest, corral.points[0])
    hull.begin(corral, 0)
    _fresh_gaps(keys, corral, nearest)
    for j in range(len(masses)):
        keys.floors[j] = FLAT * squares[j] / reach**2
        keys.rests[j] = (squares[j] - squares[nearest]) / reach**2 + 2 * keys.gaps[j]
        if masses[j] == 0:
            keys.rests[j] = -np.inf
    _grow(keys, corral, nearest, budgets[:last], tolerance, distances)
    for b in range(1, last):
        distances[b] = min(distances[b], distances[b - 1])


@compiled
def _grow(
    keys: _Keys,
    corral: hull.Corral,  # of the nearest key alone; room for one more than the largest budget
    nearest: int,
    budgets: np.ndarray,  # int64 [b], all below the number of keys
    tolerance: float,
    distances: np.ndarray,  # float64 [>= b], in and out
) -> None:
    """Add keys one by one up to the largest budget; lower the distances on the way."""
    names = np.full(len(corral.points), nearest)  # which key a point is
    at, n, square = 0, 1, dot(corral.x, corral.x)
    fresh = square
    for _ in range(STEPS * budgets[-1]):
        for b in range(at, len(budgets)):  # a budget is closed once swapped: larger ones do not change it
            if n <= budgets[b]:
                distances[b] = min(distances[b], np.sqrt(square))
        if square <= tolerance**2:
            return
        key = _rank(keys)
        if n == budgets[at]:
            distances[at] = min(distances[at], _swap(keys, corral, n, names))
            at += 1
        if at == len(budgets) or key < 0:
            return
        slot = np.argmin(corral.inside)
        _centre(keys, key, corral.points[slot])
        if dot(corral.points[slot], corral.x) >= square or not hull.enter(corral, n, slot):
            keys.rests[key] = -np.inf  # proposed by rounding alone
            continue
        names[slot] = key
        _move(keys, names[corral.members[0]], corral.basis[n - 1], corral.along[n - 1], -1.0)
        before, grown = corral.members[: n + 1].copy(), n + 1
        n = hull.settle(corral, grown)
        if n == 0:
            return
        square, first = dot(corral.x, corral.x), names[corral.members[0]]
        if n < grown:
            for point in before:
                if not corral.inside[point]:
                    _move(keys, first, _away(corral, n, corral.points[point]), 0.0, 1.0)
        if n < grown or square < STALE**2 * fresh:
            _fresh_gaps(keys, corral, first)
            fresh = square


@compiled
def _centre(keys: _Keys, key: int, out: np.ndarray) -> None:
    """``out = v - mu``."""
    for c in range(len(out)):
        out[c] = (keys.columns[c, key] - keys.origin[c]) - keys.mean[c]


@compiled
def _multiply(keys: _Keys, direction: np.ndarray) -> None:
    """Products of all values with a unit vector; in units of `reach`, no precision overflows."""
    scaled = np.empty(len(direction), keys.raw.dtype)
    for c in range(len(direction)):
        scaled[c] = direction[c] / keys.reach
    keys.raw[:] = 0.0
    add_products(keys.columns, scaled, keys.raw)


@compiled
def _fresh_gaps(keys: _Keys, corral: hull.Corral, first: int) -> None:
    """Gaps anew: ``<x, v_first - v_j>``, as ``x`` is orthogonal to the corral's edges."""
    length = np.sqrt(dot(corral.x, corral.x))
    _multiply(keys, corral.x / length)
    keys.gaps[:] = 0.0
    _add_gaps(keys, first, -length)


@compiled
def _move(keys: _Keys, first: int, direction: np.ndarray, step: float, sign: float) -> None:
    """A direction joined (sign -1) or left (+1) the edges, and ``x`` went a step along it."""
    _multiply(keys, direction)
    scalars = np.empty(2, keys.raw.dtype)  # so that the loop stays in this precision
    scalars[0], scalars[1] = sign, keys.raw[first]
    signed, level, raw, rests = scalars[0], scalars[1], keys.raw, keys.rests
    for j in range(len(raw)):
        y = raw[j] - level
        rests[j] += signed * (y * y)
    if step != 0:
        _add_gaps(keys, first, -step)


@compiled
def _add_gaps(keys: _Keys, first: int, factor: float) -> None:
    """``gaps_j += factor (raw_j - raw_first)``."""
    scalars = np.empty(2, keys.raw.dtype)
    scalars[0], scalars[1] = factor / keys.reach, keys.raw[first]
    part, level, raw, gaps = scalars[0], scalars[1], keys.raw, keys.gaps
    for j in range(len(raw)):
        gaps[j] += part * (raw[j] - level)


@compiled
def _rank(keys: _Keys) -> int:
    """Fill in the gains; the first key of the largest one, -1 where none is positive."""
    gaps, rests, floors, gains = keys.gaps, keys.rests, keys.floors, keys.gains
    zero, one = gains.dtype.type(0), gains.dtype.type(1)
    for j in range(len(gains)):
        gap = max(gaps[j], zero) if rests[j] > floors[j] else zero
        gains[j] = gap * np.divide(gap, rests[j] if rests[j] > floors[j] else one)  # / would not vectorise
    high = np.zeros(BLOCK, gains.dtype)
    for at in range(0, len(gains), BLOCK):
        block = gains[at : at + BLOCK]
        for i in range(len(block)):
            high[i] = max(high[i], block[i])
    largest = high.max()
    for j in range(len(gains)):
        if gains[j] == largest > 0:
            return j
    return -1


@compiled
def _candidates(keys: _Keys, members: np.ndarray) -> np.ndarray:
    """The key of largest gain of every lane, and the members themselves, int64 [m]."""
    best, which = np.full(LANES, -1.0), np.full(LANES, -1)
    for j in range(len(keys.gains)):
        lane = j % LANES
        if keys.gains[j] > best[lane] and keys.rests[j] > keys.floors[j]:
            best[lane], which[lane] = keys.gains[j], j
    return np.concatenate((which[which >= 0], members))


@compiled
def _away(corral: hull.Corral, n: int, point: np.ndarray) -> np.ndarray:
    """Unit vector from the corral's affine hull to a point, float64 [d]; 0 where it lies there."""
    away = point - corral.points[corral.members[0]]
    length = np.sqrt(dot(away, away))
    for _ in range(2):
        for i in range(n - 1):
            hull.add(away, -dot(corral.basis[i], away), corral.basis[i])
    rest = np.sqrt(dot(away, away))
    return away / rest if rest > hull.DEPENDENT * length else np.zeros(len(away))


@compiled
def _swap(
    keys: _Keys,
    corral: hull.Corral,  # left as it is
    n: int,
    names: np.ndarray,  # int64: which key a point is
) -> float:
    """Distance after swaps of members for candidates, the least missed member first."""
    near = _candidates(keys, names[corral.members[:n]])
    points, rests, floors = np.empty((len(near), len(corral.x))), np.empty(len(near)), np.empty(len(near))
    for j in range(len(near)):
        _centre(keys, near[j], points[j])
        rests[j], floors[j] = keys.rests[near[j]] * keys.reach**2, keys.floors[near[j]] * keys.reach**2
    columns = points.T.copy()
    room = (n + 1, len(corral.x))
    old, new = hull.corral_of(np.zeros(room)), hull.corral_of(np.zeros(room))
    hull.copy(corral, n, old)
    square, tries = dot(old.x, old.x), TRIES // n if n > 1 else 0
    while tries > 0:
        away, losses = _losses(old, n)
        onto, least, size = products(columns, old.x), square * (1 - GAIN), 0
        while tries > 0 and size == 0:
            i = np.argmin(losses)
            without = square + losses[i]
            if without == np.inf:
                return np.sqrt(square)
            tries, back = tries - 1, np.sqrt(losses[i])
            across = products(columns, away[i])
            best, lowest = -1, least
            for j in range(len(near)):
                gap = without - (onto[j] - back * across[j])
                height = rests[j] + (across[j] + back) ** 2
                if gap > 0 and height > floors[j] and without - gap * (gap / height) < lowest:
                    best, lowest = j, without - gap * (gap / height)
            losses[i] = np.inf
            if best >= 0:
                size = _exchange(old, n, i, points[best], new)
                if size > 0 and dot(new.x, new.x) >= least:
                    size = 0
        if size > 0:
            old, new, square = new, old, dot(new.x, new.x)
            if size < n:
                break
            last = old.basis[n - 2]
            added, level = products(columns, last), dot(last, old.points[old.members[0]])
            for j in range(len(near)):
                rests[j] += (across[j] + back) ** 2 - (added[j] - level) ** 2
    return np.sqrt(square)


@compiled
def _losses(corral: hull.Corral, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The unit vector to each member from the others' affine hull, and what leaving adds to ``|x|^2``.

    The vectors are the dual basis of the edges, normalised; the first member's is minus their sum.
    """
    away, losses = np.zeros((n, len(corral.x))), np.empty(n)
    for i in range(n - 2, -1, -1):
        dual = away[i + 1]
        dual[:] = corral.basis[i]
        for m in range(i + 1, n - 1):
            for c in range(len(dual)):
                dual[c] -= corral.edges[i, m] * away[m + 1, c]
        for c in range(len(dual)):
            dual[c] /= corral.edges[i, i]
            away[0, c] -= dual[c]
    for i in range(n):
        length = np.sqrt(dot(away[i], away[i]))
        losses[i] = (corral.weights[i] / length) ** 2
        for c in range(len(corral.x)):
            away[i, c] /= length
    return away, losses


@compiled
def _exchange(old: hull.Corral, n: int, leaving: int, point: np.ndarray, new: hull.Corral) -> int:
    """`new` becomes `old` with another point for a member; its size, 0 where points depend."""
    hull.copy(old, n, new)
    share = 1 - old.weights[leaving]
    for i in range(leaving, n - 1):
        new.members[i], new.weights[i] = i + 1, new.weights[i + 1]
    for i in range(n - 1):
        new.weights[i] /= share
    new.points[leaving] = point
    new.members[n - 1], new.weights[n - 1] = leaving, 0.0
    return hull.settle(new, n) if hull.rebuild(new, n, leaving) else 0
