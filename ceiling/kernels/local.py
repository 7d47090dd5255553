"""Local search over every key of a row: the best swap again and again, uphill too, from many starts.

A round makes the best of all swaps of a kept key for another. What was dropped may not return, and what
came may not leave, for some rounds (tabu search, F. Glover, 1989), so the walk climbs out of local minima;
it ends after `PATIENCE` rounds without a better set than its own best. Walks start at the given sets, at
greedy completions of single keys by lighter ones, spread evenly over the logarithm of the mass rank, as the
best set may be one of small masses, and at the best set with some keys exchanged for others of about their
mass.

A round ranks swaps by inner products, which are kept, so that most rounds need none new. With ``g`` summed
afresh over the other kept keys, what a swap of a heavy key for a light one leaves keeps its digits. Only
direct sums decide what is best; the limit is a number of rounds: the same input gives the same answer.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.direct import forced_error, precedes
from ceiling.kernels.gram import dot

PATIENCE = 50
"""Rounds a walk goes on without a better set. In equal time 25, 150 and 400 reached fewer of the best."""

BARRED, HELD = 8, 2
"""Rounds a dropped key stays out and a new one stays in, at least; up to twice that, by chance."""

SEEDING = 2
"""Walks: every second starts at a greedy completion, the others near the best set."""

KICK = 8
"""Keys exchanged before a walk near the best set, at most."""

CLOSE = 1e-9
"""Relative: squared errors by inner products this close to the best are summed directly."""

BLOCK = 512
"""Keys ranked at a time: their running minima stay in the fastest cache."""

MEMORY = 1 << 27
"""Bytes of inner products kept: all of them up to 4096 keys."""


@compiled
def search(
    residuals: np.ndarray,  # float64 [n, d]
    masses: np.ndarray,  # float64 [n], positive
    s: int,
    least: float,  # kept masses are at least this; 0: no floor
    start: np.ndarray,  # int64 [s] or [k, s], sets that meet the floor
    seed: int,
    rounds: int,  # limit: each ranks all swaps of one set
    tie: float = 1e-12,  # relative tolerance of ties
    zero: float = 0.0,  # errors up to this are zero
) -> tuple:
    """Return the smallest forced error found, and its kept set, int64 [s] ascending.

    Among the sets found whose errors tie, the lexicographically smallest wins. Kept masses, summed over
    ascending indices, meet the floor; if no start does, the error is infinite.
    """
    n, d = residuals.shape
    starts = np.ascontiguousarray(start).reshape(-1, s)
    keys, cache, walk, ranks = _keys(residuals, masses), _cache(n, s), _walk(n, s, d), _ranks(masses)
    kept, mark, barred, held, best, found = walk[0], walk[1], walk[2], walk[3], walk[4], walk[5]
    random, hold = np.array([1 + seed % 2147483646]), min(HELD, s // 2)
    for _ in range(4):  # small seeds begin alike
        uniform(random)
    best[:], found[:] = False, np.inf
    done = clock = walks = seeds = 0
    while walks < len(starts) or (done < rounds and zero < found[1] < np.inf and s < n):
        done, walks, ready = done + 1, walks + 1, True
        if walks <= len(starts):
            _take(starts[walks - 1], kept, mark)
            _consider(keys, mark, least, tie, zero, best, found)
        elif walks % SEEDING == 0:
            rank = int(n ** ((seeds * 0.6180339887498949) % 1.0)) - 1  # multiples of the golden ratio spread
            seeds += 1
            ready = _complete(keys, cache, ranks, rank, least, kept, mark)
        else:
            _kick(masses, ranks, least, np.flatnonzero(best), random, kept, mark)
        clock, low, idle = clock + 4 * BARRED, np.inf, 0  # by then no key is barred
        while ready and idle <= PATIENCE and done < rounds and found[1] > zero:
            done, clock = done + 1, clock + 1
            j, square = _best_swap(keys, cache, walk, clock, least, found[0] ** 2 * (1 - CLOSE))
            if j < 0:
                break
            a = walk[8][j]
            out, kept[a], mark[j] = kept[a], j, True
            mark[out] = False
            barred[out] = clock + BARRED + int(uniform(random) * BARRED)
            held[j] = clock + hold + int(uniform(random) * hold)
            if square < low * (1 - CLOSE):
                low, idle = square, -1
            idle += 1
            if square <= found[0] ** 2 * (1 + CLOSE):
                _consider(keys, mark, least, tie, zero, best, found)
    return found[1], np.flatnonzero(best)


@compiled
def _keys(residuals: np.ndarray, masses: np.ndarray) -> tuple:
    """Residuals, a key a row and a component a row, their squared lengths, and masses."""
    squares = np.empty(len(masses))
    for j in range(len(masses)):
        squares[j] = dot(residuals[j], residuals[j])
    return residuals, np.ascontiguousarray(residuals.T), squares, masses


@compiled
def _cache(n: int, s: int) -> tuple:
    """Room for inner products of some keys with all; the key in each slot, each key's slot, the next slot."""
    slots = min(n, max(s + 1, MEMORY // (8 * n)))
    return np.empty((slots, n)), np.full(slots, -1), np.full(n, -1), np.zeros(1, np.int64)


@compiled
def _walk(n: int, s: int, d: int) -> tuple:
    """A walk's kept keys and marks, until when keys are barred and held; the best set; scratch."""
    return (
        np.empty(s, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n, np.bool_), np.empty(2), np.empty(n), np.empty(n), np.empty(n, np.int64),
        np.empty((s + 1, d)), np.empty(d), np.empty((2, s)),
    )  # fmt: skip


@compiled
def _ranks(masses: np.ndarray) -> tuple:
    """Keys by descending mass, each key's rank, and the mass of the first 0, 1 .. n."""
    order = np.argsort(-masses, kind="mergesort")
    rank, total = np.empty(len(masses), np.int64), np.zeros(len(masses) + 1)
    for k in range(len(masses)):
        rank[order[k]], total[k + 1] = k, total[k] + masses[order[k]]
    return order, rank, total


@compiled
def _take(chosen: np.ndarray, kept: np.ndarray, mark: np.ndarray) -> None:
    mark[:] = False
    for a in range(len(chosen)):
        kept[a], mark[chosen[a]] = chosen[a], True


@compiled
def _consider(
    keys: tuple, mark: np.ndarray, least: float, tie: float, zero: float, best: np.ndarray, found: np.ndarray
) -> None:
    """Decide on a set by its direct sums; `found` holds the smallest error and that of the set `best`."""
    residuals, _, _, masses = keys
    members = np.flatnonzero(mark)
    mass = 0.0
    for j in members:
        mass += masses[j]
    if mass < least:
        return
    g = np.empty(residuals.shape[1])
    error = forced_error(residuals, masses, members, np.ones(len(members), np.bool_), g)
    found[0] = min(found[0], error)
    limit = max(found[0] * (1 + tie), zero)
    if error <= limit and (found[1] > limit or precedes(mark, best)):
        best[:], found[1] = mark, error


@compiled
def _products(keys: tuple, cache: tuple, mark: np.ndarray, i: int) -> int:
    """The slot with ``<z_i, z_j>`` of all keys `j`; a new one replaces a slot in turn, no kept key's."""
    rows, owners, slots, turn = cache
    if slots[i] >= 0:
        return slots[i]
    slot = turn[0]
    while owners[slot] >= 0 and mark[owners[slot]]:
        slot = (slot + 1) % len(owners)
    turn[0] = (slot + 1) % len(owners)
    if owners[slot] >= 0:
        slots[owners[slot]] = -1
    owners[slot], slots[i] = i, slot
    residuals, columns = keys[0], keys[1]
    z, (d, n) = residuals[i], columns.shape
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        out = rows[slot, first:last]
        out[:] = 0.0
        for c in range(0, d - d % 4, 4):
            x, y, v, w = z[c], z[c + 1], z[c + 2], z[c + 3]
            p, q = columns[c, first:last], columns[c + 1, first:last]
            r, t = columns[c + 2, first:last], columns[c + 3, first:last]
            for j in range(last - first):
                out[j] += (x * p[j] + y * q[j]) + (v * r[j] + w * t[j])
        for c in range(d - d % 4, d):
            p, x = columns[c, first:last], z[c]
            for j in range(last - first):
                out[j] += x * p[j]
    return slot


@compiled
def _best_swap(
    keys: tuple, cache: tuple, walk: tuple, clock: int, least: float, below: float
) -> tuple[int, float]:
    """The key that the best swap brings in, -1 if none, and the squared error it leads to.

    Barred keys come back only where that is less than `below`. The place that each key would take is left
    in ``walk[8]``.
    """
    residuals, _, squares, masses = keys
    kept, mark, barred, held, gains, lowest, places = *walk[:4], *walk[6:9]
    rows, slots, s, n = cache[0], cache[2], len(kept), len(masses)
    for a in range(s):
        _products(keys, cache, mark, kept[a])
    _leave_out(residuals, masses, kept, walk)
    without, rest = walk[11]
    floor = least * (1 - CLOSE)
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        gain, low, place = gains[first:last], lowest[first:last], places[first:last]
        weight, square = masses[first:last], squares[first:last]
        gain[:], low[:], place[:] = 0.0, np.inf, 0
        for a in range(s):
            row = rows[slots[kept[a]], first:last]
            for j in range(last - first):
                gain[j] += row[j]
        for j in range(last - first):
            gain[j] = 2.0 * gain[j] + square[j]
        for a in range(s):
            if held[kept[a]] > clock:
                continue
            row, left, other = rows[slots[kept[a]], first:last], without[a], rest[a]
            for j in range(last - first):
                mass = other + weight[j]
                # numpy's division: Python's, which checks for zero, is not vectorised
                after = np.divide(left + (gain[j] - 2.0 * row[j]), mass * mass)
                after = after if mass >= floor else np.inf
                better = after < low[j]
                place[j] = a if better else place[j]
                low[j] = after if better else low[j]
    for a in range(s):
        lowest[kept[a]] = np.inf
    key, least_square = -1, np.inf
    for j in range(n):
        if lowest[j] < least_square and (barred[j] <= clock or lowest[j] < below):
            key, least_square = j, lowest[j]
    return key, max(least_square, 0.0)


@compiled
def _leave_out(residuals: np.ndarray, masses: np.ndarray, kept: np.ndarray, walk: tuple) -> None:
    """``|g|^2`` and mass without each kept key in turn: sums, as a difference could lose every digit."""
    later, g, (without, rest) = walk[9], walk[10], walk[11]
    s, d = len(kept), len(g)
    later[s], mass = 0.0, 0.0
    for a in range(s - 1, -1, -1):
        z, after, before = residuals[kept[a]], later[a + 1], later[a]
        for c in range(d):
            before[c] = after[c] + z[c]
        rest[a] = mass
        mass += masses[kept[a]]
    g[:], mass = 0.0, 0.0
    for a in range(s):
        z, after, spare = residuals[kept[a]], later[a + 1], later[a]
        for c in range(d):
            spare[c] = g[c] + after[c]
            g[c] += z[c]
        without[a] = dot(spare, spare)
        rest[a] += mass
        mass += masses[kept[a]]


@compiled
def _complete(
    keys: tuple, cache: tuple, ranks: tuple, rank: int, least: float, kept: np.ndarray, mark: np.ndarray
) -> bool:
    """Greedy completion of the key of a rank: the lighter key that leads to the least error, `s` - 1 times.

    No heavier keys, or all completions lead to the same few sets. False where lighter keys run out or
    cannot meet the mass floor.
    """
    _, _, squares, masses = keys
    order, _, heavier = ranks
    s, n, key, mass = len(kept), len(masses), order[rank], masses[order[rank]]
    mark[:] = False
    if heavier[min(rank + s, n)] - heavier[rank] < least:
        return False
    square, along = squares[key], np.zeros(n)
    for a in range(s):
        kept[a], mark[key] = key, True
        if a == s - 1:
            break
        row = cache[0][_products(keys, cache, mark, key)]
        spare = heavier[min(rank + s - a - 1, n)] - heavier[rank + 1]  # the most that later keys add
        lowest, key = np.inf, -1
        for j in range(n):
            along[j] += row[j]
            total = mass + masses[j]
            after = np.divide(square + (2.0 * along[j] + squares[j]), total * total)
            allowed = not mark[j] and masses[j] <= masses[kept[0]] and total + spare >= least
            if allowed and (key < 0 or after < lowest):
                lowest, key = after, j
        if key < 0:
            return False
        square, mass = square + (2.0 * along[key] + squares[key]), mass + masses[key]
    return mass >= least


@compiled
def _kick(
    masses: np.ndarray, ranks: tuple, least: float, chosen: np.ndarray, random: np.ndarray,
    kept: np.ndarray, mark: np.ndarray,
) -> None:  # fmt: skip
    """Exchange up to `KICK` of the chosen keys for keys of about their mass rank, if the floor allows."""
    order, rank, _ = ranks
    s, n = len(kept), len(masses)
    _take(chosen, kept, mark)
    for _ in range(1 + int(uniform(random) * min(KICK, s))):
        a = int(uniform(random) * s)
        out = kept[a]
        reach = 2 * s + rank[out] // 2  # wide enough for a key that is not kept
        low, high, key = max(rank[out] - reach, 0), min(rank[out] + reach + 1, n), out
        while mark[key]:
            key = order[low + int(uniform(random) * (high - low))]
        mass = masses[key] - masses[out]
        for j in kept:
            mass += masses[j]
        if mass >= least:
            kept[a], mark[key], mark[out] = key, True, False


@compiled
def uniform(random: np.ndarray) -> float:
    """The next number of a sequence in (0, 1), S. Park and K. Miller, 1988; no state but the one given."""
    random[0] = random[0] * 48271 % 2147483647
    return random[0] / 2147483647.0
