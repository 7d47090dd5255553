"""Branch and bound over kept sets: is there one of error below `tau` that meets the mass floor?

Depth first, the child that keeps the key before the one without it, so that the stack holds one waiting
child for each key kept by branching. At a node directions are tried (`bound`), the next one from the hull
of the choices found so far (`vertices`), until the node is empty or its relaxation is not; then it
branches (`gains`). Children inherit direction, multiplier and vertices, with the key or without it.

What is done is written as events, which replay as a proof (`ceiling.certify.proof`): FIX and SHUT with a
direction, BRANCH with a key, LAST where at most one key is missing, NONE where too few candidates are left.
"""

from typing import NamedTuple

import numpy as np

from ceiling.kernels import gains
from ceiling.kernels.bound import MARGIN, Keys, bound, direction, drop_light, fix, multiplier
from ceiling.kernels.compiled import compiled
from ceiling.kernels.vectors import dot
from ceiling.kernels.vertices import MOST, add, nearest, repair, room, settle

FIX, SHUT, BRANCH, LAST, NONE = 1, 2, 3, 4, 5
"""Codes of events."""

EMPTY, MORE, FULL, BETTER = 0, 1, 2, 3
"""How `walk` returns: the subtree is refuted; the quota is used up; no room for events; a better set."""

ROUNDS, STALLS, GAIN, LEAST = 40, 16, 1e-2, 5
"""Directions at a node, at most; those that may not raise its bound by a hundredth, before it branches; those
that are tried though it has to branch, for what is learned of its bound."""

STEADY = 4.0
"""Weight of the node's best direction so far, beside 1 of the next one, which alone would swing to and fro
(P. Wentges, 1997): a fifth fewer directions, and bounds that say more."""

DEPTH, ALIVE, LEFT, KEPT, VERTICES, NODES, CURSOR, ROOTED, OPEN, KEY, CHILD = range(11)
"""Whole numbers of a search: waiting children, candidates, keys still to take, keys kept, vertices, nodes so
far, end of the events, the last root's vertices, whether a node waits to be visited; key, -1: none, and
child of the branching that made the node."""

MASS, LENGTH, LAM, TAU, BOUND, WEIGHT, PARENT = range(7)
"""Numbers of a search: mass and summed norms of the kept keys, multiplier, threshold; the node's bound, the
weight of the key that it was made by, and the bound of its parent."""


class Search(NamedTuple):
    """All that a search holds between calls of `walk`."""

    whole: np.ndarray  # int64 [11]
    real: np.ndarray  # float64 [7]
    kept: np.ndarray  # int64 [depth]
    g: np.ndarray  # float64 [d], sum of the kept residuals
    unit: np.ndarray  # float64 [d], the direction
    grid: np.ndarray  # int16 [d], the same
    alive: np.ndarray  # int32 [n], candidates, ascending
    marks: np.ndarray  # int8 [n], 1 where alive, -1 where kept since the vertices were made, or 0
    hull: tuple
    stack: tuple
    root: tuple
    scratch: tuple
    gains: tuple
    best: np.ndarray  # int64 [s], a better set


@compiled
def begin(n: int, d: int, rough: int, s: int) -> Search:
    """Room for a search of `s` of `n` keys, in `d` dimensions, or `rough` in float32."""
    depth = s + 2
    stack = (
        np.zeros((depth, 5), np.int64), np.zeros((depth, 5)), np.zeros((depth, 2, d)),
        np.zeros((depth, n), np.int32), np.zeros((depth, MOST, depth), np.int32), np.zeros((depth, MOST)),
        np.zeros((depth, d), np.int16),
    )  # fmt: skip
    scratch = (
        np.zeros(n), np.zeros(depth), np.zeros(depth, np.int64), np.zeros(n), np.zeros(d), np.zeros(d),
        np.zeros(MOST * depth, np.int64), np.zeros(rough, np.float32),
    )  # fmt: skip
    return Search(
        np.zeros(11, np.int64), np.zeros(7), np.zeros(depth, np.int64), np.zeros(d), np.zeros(d),
        np.zeros(d, np.int16), np.zeros(n, np.int32), np.zeros(n, np.int8), room(s, d), stack,
        (np.zeros((MOST, depth), np.int32), np.zeros(MOST), np.zeros(d)), scratch, gains.room(n),
        np.zeros(s, np.int64),
    )  # fmt: skip


@compiled
def open_subtree(keys: Keys, search: Search, ranks: np.ndarray, heaviest: int, key: int, s: int) -> None:
    """Start on the sets whose heaviest key is `key`, of rank `heaviest`; with ``heaviest < 0`` on all sets.

    `ranks`, int64 [n], are of descending mass. The direction and the vertices of the last root carry over.
    """
    whole, real, g, hull = search.whole, search.real, search.g, search.hull
    rooted, weights, last = search.root
    whole[DEPTH] = whole[KEPT] = whole[ALIVE] = 0
    whole[LEFT], whole[OPEN], whole[KEY] = s, 1, -1
    real[MASS] = real[LENGTH] = real[LAM] = 0.0
    g[:] = 0.0
    search.scratch[2][:] = 0  # hints of another subtree: it may not be one in a search run again
    for j in range(len(ranks)):
        search.marks[j] = ranks[j] > heaviest
        if ranks[j] > heaviest:
            search.alive[whole[ALIVE]] = j
            whole[ALIVE] += 1
    if heaviest >= 0:
        _keep(keys, search, key)
    k, count = whole[LEFT], whole[ROOTED]
    for v in range(count):
        hull[0][v, :k], hull[1][v] = rooted[v, :k], weights[v]
    if count > 0 and whole[ALIVE] >= k:
        settle(keys.residuals, keys.masses, k, g, real[MASS], hull, count)
        count = repair(
            keys.residuals, keys.masses, k, k, search.alive, whole[ALIVE], search.marks, g, real[MASS], hull,
            count,
        )  # fmt: skip
    whole[VERTICES] = count if whole[ALIVE] >= k else 0
    if not direction(last, search.grid, search.unit) and not direction(g, search.grid, search.unit):
        search.scratch[4][:] = keys.residuals[0]
        direction(search.scratch[4], search.grid, search.unit)


@compiled
def walk(
    keys: Keys,
    search: Search,
    origin: np.ndarray,  # int64 [n], what a key is called in events
    width: int,  # components that are not padding
    least: float,  # mass floor; 0: none
    pull: float,  # weight of a squared shortfall of mass
    quota: int,  # nodes, those before included
    directions: bool,  # whether events carry them
    events: np.ndarray,  # int16
) -> int:
    """Go on with the subtree; what ends the call stands above."""
    whole = search.whole
    words = (ROUNDS + 4) * (width + 3) + 8
    while whole[OPEN] == 1:
        if whole[NODES] >= quota:
            return MORE
        if whole[CURSOR] + words > len(events):
            return FULL
        whole[NODES] += 1
        end = _visit(keys, search, width, least, pull, directions, events)
        _learn(keys, search, end)
        if end == MORE:
            _branch(keys, search, origin, events)
            continue
        _back(keys, search)
        if end == BETTER:
            return BETTER
    return EMPTY


@compiled
def _visit(
    keys: Keys, search: Search, width: int, least: float, pull: float, directions: bool, events: np.ndarray
) -> int:
    """Bound and fix; EMPTY where the node is refuted, MORE where it must branch, BETTER for a better set."""
    whole, real, g, unit, grid = search.whole, search.real, search.g, search.unit, search.grid
    alive, marks, hull = search.alive, search.marks, search.hull
    r, values, tops, _, point, steady, _, rough = search.scratch
    residuals, masses = keys.residuals, keys.masses
    k = whole[LEFT]
    first = k if whole[DEPTH] == 0 and whole[KEPT] <= 1 else -1
    rounds, stalls, highest, end = 0, 0, -np.inf, EMPTY
    while True:
        m = whole[ALIVE]
        if least > 0 and k > 0:
            m = drop_light(masses, alive, m, k, real[MASS], least, marks, values)
            whole[ALIVE] = max(m, 0)
        if m < k:
            _write(search, events, NONE)
            break
        if k <= 1:
            _write(search, events, LAST)
            end = BETTER if _last(keys, search, k, least) else EMPTY
            break
        sums = (g, real[MASS], real[LENGTH])
        tau = real[TAU]
        d, margin, lam, seen, error = bound(
            keys, alive, m, k, sums, unit, rough, tau, least, real[LAM], marks, r, values, tops
        )
        real[LAM] = lam
        if d >= margin:
            _write_direction(search, events, SHUT, directions, width)
            break
        if d > highest:
            steady[:] = unit
        stalls = 0 if d > highest + GAIN * abs(d) else stalls + 1
        highest = max(highest, d)
        left, forced = fix(keys, alive, m, k, d, margin, tau + lam, seen, error, r, values, tops, marks)
        whole[VERTICES] = add(residuals, masses, tops, k, g, real[MASS], hull, whole[VERTICES])
        if left < m or forced > 0:
            _write_direction(search, events, FIX, directions, width)
            before, whole[ALIVE] = k, left
            for i in range(forced):
                _keep(keys, search, tops[i])
            if forced > 0:
                _compact(search)
            k = whole[LEFT]
            if whole[ALIVE] < k or k <= 1:
                continue
            whole[VERTICES] = repair(
                residuals, masses, before, k, alive, whole[ALIVE], marks, g, real[MASS], hull, whole[VERTICES]
            )
        rounds += 1
        relaxed, short = nearest(hull, whole[VERTICES], tau, least, pull, point)
        length = np.sqrt(dot(point.reshape(1, -1), 0, point))
        if length > 0:
            real[LAM] = pull * short / length
        for c in range(len(point)):
            point[c] += STEADY * length * steady[c]
        direction(point, grid, unit)
        if (relaxed < 0 and short <= 0 and rounds >= LEAST) or rounds >= ROUNDS or stalls >= STALLS:
            real[BOUND] = highest
            end = MORE
            break
    if k == first and rounds > 0:  # a root without keys fixed: its vertices suit the next one
        _remember(search, k)
    return end


@compiled
def _keep(keys: Keys, search: Search, key: int) -> None:
    """Count `key` among the kept ones; it is no candidate any more."""
    whole, real, g = search.whole, search.real, search.g
    search.kept[whole[KEPT]] = key
    whole[KEPT] += 1
    whole[LEFT] -= 1
    search.marks[key] = -1
    real[MASS] += keys.masses[key]
    real[LENGTH] += keys.norms[key]
    for c in range(len(g)):
        g[c] += keys.residuals[key, c]


@compiled
def _compact(search: Search) -> None:
    """Leave only what is marked among the candidates."""
    alive, whole, left = search.alive, search.whole, 0
    for i in range(whole[ALIVE]):
        if search.marks[alive[i]] == 1:
            alive[left] = alive[i]
            left += 1
    whole[ALIVE] = left


@compiled
def _last(keys: Keys, search: Search, k: int, least: float) -> bool:
    """Sum the sets that are left; whether one is not refuted: the smallest error's, in ``search.best``.

    Masses may miss the floor by `MARGIN`, as whoever checks a kept set allows.
    """
    whole, real, g, best = search.whole, search.real, search.g, search.best
    lowest, choice, kept = np.inf, -1, whole[KEPT]
    for i in range(whole[ALIVE] if k == 1 else 1):
        j = search.alive[i]
        mass, length, square = real[MASS], real[LENGTH], 0.0
        if k == 1:
            mass += keys.masses[j]
            length += keys.norms[j]
        if mass < least * (1 - MARGIN):
            continue
        for c in range(len(g)):
            x = g[c] + keys.residuals[j, c] if k == 1 else g[c]
            square += x * x
        norm = np.sqrt(square)
        refuted = norm - MARGIN * (length + real[TAU] * mass) >= real[TAU] * mass
        if not refuted and norm / mass < lowest:
            lowest, choice = norm / mass, i
    if choice >= 0:
        best[:kept] = search.kept[:kept]
        if k == 1:
            best[kept] = search.alive[choice]
    return choice >= 0


@compiled
def _learn(keys: Keys, search: Search, end: int) -> None:
    """Take note of what the node gained over its parent."""
    whole, real = search.whole, search.real
    if whole[KEY] < 0 or end == BETTER:
        return
    gain = max((real[BOUND] if end == MORE else 0.0) - real[PARENT], 0.0)
    moved = 1 - real[WEIGHT] if whole[CHILD] == gains.KEPT else real[WEIGHT]
    gains.learn(search.gains, whole[KEY], keys.norms[whole[KEY]], whole[CHILD], moved, gain)


@compiled
def _branch(keys: Keys, search: Search, origin: np.ndarray, events: np.ndarray) -> None:
    """Go on with the sets that keep a key; those without it wait on the stack."""
    whole, real, alive, hull = search.whole, search.real, search.alive, search.hull
    counts, reals, vectors, waiting, chosen, weights, grids = search.stack
    x, few = search.scratch[3], search.scratch[6]
    t, k, left = whole[DEPTH], whole[LEFT], 0
    count = gains.mixed(hull, whole[VERTICES], k, x, few)
    key = gains.best(search.gains, keys.norms, few, count, x)
    for i in range(whole[ALIVE]):
        if alive[i] != key:
            alive[left] = alive[i]
            left += 1
    whole[ALIVE], whole[KEY], whole[CHILD] = left, key, gains.KEPT
    real[WEIGHT], real[PARENT] = x[key], real[BOUND]
    counts[t, 0], counts[t, 1], counts[t, 2], counts[t, 4] = left, k, whole[KEPT], key
    reals[t, 0], reals[t, 1], reals[t, 2] = real[MASS], real[LENGTH], real[LAM]
    reals[t, 3], reals[t, 4] = real[WEIGHT], real[PARENT]
    vectors[t, 0], vectors[t, 1], grids[t] = search.g, search.unit, search.grid
    waiting[t, :left] = alive[:left]
    without = having = 0
    for v in range(whole[VERTICES]):
        if hull[1][v] <= 0:
            continue
        at = -1
        for i in range(k):
            if hull[0][v, i] == key:
                at = i
        if at < 0:
            chosen[t, without], weights[t, without] = hull[0][v], hull[1][v]
            without += 1
        else:
            hull[0][having], hull[1][having] = hull[0][v], hull[1][v]
            hull[0][having, at] = hull[0][having, k - 1]
            having += 1
    counts[t, 3], whole[VERTICES] = without, having
    whole[DEPTH] += 1
    _keep(keys, search, key)
    settle(keys.residuals, keys.masses, whole[LEFT], search.g, real[MASS], hull, having)
    _write(search, events, BRANCH)
    events[whole[CURSOR]], events[whole[CURSOR] + 1] = origin[key] % 32768, origin[key] // 32768
    whole[CURSOR] += 2


@compiled
def _back(keys: Keys, search: Search) -> None:
    """Take the waiting child of the deepest branching, if there is one."""
    whole, real, hull = search.whole, search.real, search.hull
    counts, reals, vectors, waiting, chosen, weights, grids = search.stack
    if whole[DEPTH] == 0:
        whole[OPEN] = 0
        return
    whole[DEPTH] -= 1
    t = whole[DEPTH]
    whole[ALIVE], whole[LEFT], whole[KEPT], whole[VERTICES], whole[KEY] = counts[t]
    real[MASS], real[LENGTH], real[LAM], real[WEIGHT], real[PARENT] = reals[t]
    whole[CHILD] = gains.LEFT_OUT
    search.g[:], search.unit[:], search.grid[:] = vectors[t, 0], vectors[t, 1], grids[t]
    search.marks[:] = 0
    for i in range(whole[ALIVE]):
        search.alive[i] = waiting[t, i]
        search.marks[waiting[t, i]] = 1
    count = whole[VERTICES]
    hull[0][:count], hull[1][:count] = chosen[t, :count], weights[t, :count]
    settle(keys.residuals, keys.masses, whole[LEFT], search.g, real[MASS], hull, count)


@compiled
def _remember(search: Search, k: int) -> None:
    """Keep the root's direction and its weighted vertices for the next root."""
    chosen, weights, last = search.root
    hull, count = search.hull, 0
    for v in range(search.whole[VERTICES]):
        if hull[1][v] > 0:
            chosen[count, :k], weights[count] = hull[0][v, :k], hull[1][v]
            count += 1
    search.whole[ROOTED] = count
    last[:] = search.unit


@compiled
def _write(search: Search, events: np.ndarray, code: int) -> None:
    events[search.whole[CURSOR]] = code
    search.whole[CURSOR] += 1


@compiled
def _write_direction(search: Search, events: np.ndarray, code: int, directions: bool, width: int) -> None:
    """A whole event, or of SHUT the code alone."""
    if directions or code == SHUT:
        _write(search, events, code)
    if directions:
        at = search.whole[CURSOR]
        events[at : at + width] = search.grid[:width]
        _, events[at + width], events[at + width + 1] = multiplier(search.real[LAM])
        search.whole[CURSOR] += width + 2
