"""One pass over an attention row: its mean, distances, leading keys, candidate pools and other selectors.

Values come twice, a key a row and a component a row, so that every loop runs over contiguous memory and
vectorises without fast-math. Both may be float32, as captured; arithmetic is float64. Values are taken
relative to the heaviest key's: equal values give exact zeros, and a common offset costs no digits.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot


@compiled
def normalise(
    softmax: np.ndarray,  # float [n]
    masses: np.ndarray,  # float64 [n], out
) -> float:
    """Divide softmax weights by their sum; return the sum, NaN where it or a weight is none.

    The sum carries what each addition lost (Neumaier), so that its order does not matter.
    """
    total, lost, unfair = 0.0, 0.0, 0
    for j in range(len(softmax)):
        p = np.float64(softmax[j])
        unfair += not p >= 0.0
        larger = total + p
        lost += (total - larger) + p if total >= p else (p - larger) + total
        total = larger
    total += lost
    if unfair > 0 or not total > 0:
        return np.nan
    for j in range(len(softmax)):
        masses[j] = softmax[j] / total
    return total


@compiled
def describe(
    values: np.ndarray,  # float [N, d]
    columns: np.ndarray,  # float [d, N], the same
    masses: np.ndarray,  # float64 [n], n <= N; keys of zero mass are no keys
    leading: np.ndarray,  # int64 [k], out: keys of largest mass, descending
    ranking: np.ndarray,  # int64 [l], out: keys of largest p_j |v_j - mu|, descending
    origin: np.ndarray,  # float64 [d], out: the heaviest key's value
    mean: np.ndarray,  # float64 [d], out: mu - origin
    squares: np.ndarray,  # float64 [N], out: |v_j - mu|^2
    scores: np.ndarray,  # float64 [N], scratch
) -> tuple[float, float]:
    """Return ``D`` and ``sigma`` of the row; `leading` and `ranking` end in -1 where keys run out.

    Ties go to the lowest position.
    """
    n = len(masses)
    _leaders(masses, masses, leading)
    heaviest = leading[0]
    for c in range(len(origin)):
        origin[c] = values[heaviest, c]
    _mean(values, masses, origin, mean)
    _distances(columns, n, origin, mean, squares)
    radius = 0.0
    for j in range(n):
        if masses[j] > 0 and squares[j] > radius:
            radius = squares[j]
    for j in range(n):
        scores[j] = masses[j] * np.sqrt(squares[j])
    _leaders(scores[:n], masses, ranking)
    return np.sqrt(radius), np.sqrt(dot(masses, squares[:n]))


@compiled
def _leaders(scores: np.ndarray, masses: np.ndarray, leaders: np.ndarray) -> None:
    """The positions of largest score, descending, among those of positive mass; -1 after the last."""
    count, size, least = len(leaders), 0, -1.0
    best = np.empty(count)
    for j in range(len(scores)):
        score = scores[j]
        if score > least and masses[j] > 0:
            at = min(size, count - 1)
            while at > 0 and best[at - 1] < score:
                best[at], leaders[at] = best[at - 1], leaders[at - 1]
                at -= 1
            best[at], leaders[at] = score, j
            size = min(size + 1, count)
            if size == count:
                least = best[count - 1]
    leaders[size:] = -1


@compiled
def _mean(values: np.ndarray, masses: np.ndarray, origin: np.ndarray, mean: np.ndarray) -> None:
    """``sum_j p_j (v_j - origin)``, four keys at a time."""
    mean[:] = 0.0
    n, d = len(masses), len(origin)
    for j in range(0, n - n % 4, 4):
        p, q, r, s = masses[j], masses[j + 1], masses[j + 2], masses[j + 3]
        a, b, e, f = values[j], values[j + 1], values[j + 2], values[j + 3]
        for c in range(d):
            o = origin[c]
            mean[c] += (p * (a[c] - o) + q * (b[c] - o)) + (r * (e[c] - o) + s * (f[c] - o))
    for j in range(n - n % 4, n):
        a = values[j]
        for c in range(d):
            mean[c] += masses[j] * (a[c] - origin[c])


@compiled
def _distances(
    columns: np.ndarray, n: int, origin: np.ndarray, mean: np.ndarray, squares: np.ndarray
) -> None:
    """``|(v_j - origin) - mean|^2``, four components at a time."""
    squares[:n] = 0.0
    d = len(columns)
    for c in range(0, d - d % 4, 4):
        a, b, e, f = columns[c], columns[c + 1], columns[c + 2], columns[c + 3]
        o, p, q, r = origin[c], origin[c + 1], origin[c + 2], origin[c + 3]
        s, t, u, v = mean[c], mean[c + 1], mean[c + 2], mean[c + 3]
        for j in range(n):
            w, x, y, z = (a[j] - o) - s, (b[j] - p) - t, (e[j] - q) - u, (f[j] - r) - v
            squares[j] += (w * w + x * x) + (y * y + z * z)
    for c in range(d - d % 4, d):
        a = columns[c]
        for j in range(n):
            w = (a[j] - origin[c]) - mean[c]
            squares[j] += w * w


@compiled
def centre(
    values: np.ndarray,  # float [N, d]
    origin: np.ndarray,  # float64 [d]
    mean: np.ndarray,  # float64 [d]
    keys: np.ndarray,  # int64 [u]
    centred: np.ndarray,  # float64 [>= u, d], out: v_j - mu
) -> None:
    """Centred values of some keys of a row that `describe` has described."""
    for i in range(len(keys)):
        v, out = values[keys[i]], centred[i]
        for c in range(len(out)):
            out[c] = (v[c] - origin[c]) - mean[c]


@compiled
def drop(
    masses: np.ndarray,  # float64 [n]
    leading: np.ndarray,  # int64 [k], keys of largest mass, descending, -1 after the last
    budgets: np.ndarray,  # int64 [b], ascending
    rest: np.ndarray,  # float64 [>= n], scratch
    dropped: np.ndarray,  # float64 [b], out
) -> int:
    """Mass beyond the top-mass set, summed over what is dropped so that a small one keeps its digits.

    Returns the number of keys of positive mass.
    """
    n, count = len(masses), 0
    for j in range(n):
        rest[j] = masses[j]
        count += masses[j] > 0
    taken = 0
    for b in range(len(budgets)):
        while taken < min(budgets[b], len(leading)) and leading[taken] >= 0:
            rest[leading[taken]] = 0.0
            taken += 1
        dropped[b] = _sum(rest[:n])
    return count


@compiled
def _sum(numbers: np.ndarray) -> float:
    """Sum over four partial sums, which pipeline."""
    n, first, second, third, fourth = len(numbers), 0.0, 0.0, 0.0, 0.0
    for j in range(0, n - n % 4, 4):
        first += numbers[j]
        second += numbers[j + 1]
        third += numbers[j + 2]
        fourth += numbers[j + 3]
    for j in range(n - n % 4, n):
        first += numbers[j]
    return (first + second) + (third + fourth)


@compiled
def other_errors(
    values: np.ndarray,  # float [N, d]
    masses: np.ndarray,  # float64 [n]
    origin: np.ndarray,  # float64 [d]
    mean: np.ndarray,  # float64 [d]
    leading: np.ndarray,  # int64 [k], keys of largest mass, descending, -1 after the last
    path: np.ndarray,  # int64 [steps], keys Frank-Wolfe took
    leverage: np.ndarray,  # float64 [n]
    budgets: np.ndarray,  # int64 [b]
    geometric: np.ndarray,  # float64 [b], out
    by_leverage: np.ndarray,  # float64 [b], out
) -> None:
    """Forced errors of the Frank-Wolfe support padded with top-mass, and of the keys of largest leverage."""
    ranked = np.empty(len(leading), dtype=np.int64)
    _leaders(leverage, masses, ranked)
    kept = np.empty(len(path), dtype=np.int64)
    for b in range(len(budgets)):
        s = budgets[b]
        count = _insert(leading, s, kept, _insert(path[:s], s, kept, 0))
        geometric[b] = _forced_error(values, masses, origin, mean, kept[:count])
        count = _insert(ranked, s, kept, 0)
        by_leverage[b] = _forced_error(values, masses, origin, mean, kept[:count])


@compiled
def _insert(keys: np.ndarray, s: int, kept: np.ndarray, count: int) -> int:
    """Insert keys into the ascending `kept` until it has `s`; those there already and -1 are skipped."""
    for j in keys:
        at = count
        while at > 0 and kept[at - 1] > j:
            at -= 1
        if count == s or j < 0 or (at > 0 and kept[at - 1] == j):
            continue
        for i in range(count, at, -1):
            kept[i] = kept[i - 1]
        kept[at] = j
        count += 1
    return count


@compiled
def _forced_error(
    values: np.ndarray, masses: np.ndarray, origin: np.ndarray, mean: np.ndarray, kept: np.ndarray
) -> float:
    """Forced error of ascending positions."""
    g, mass = np.zeros(len(mean)), 0.0
    for j in kept:
        p, v = masses[j], values[j]
        mass += p
        for c in range(len(g)):
            g[c] += p * ((v[c] - origin[c]) - mean[c])
    return np.sqrt(dot(g, g)) / mass


@compiled
def choose_pools(
    leading: np.ndarray,  # int64 [k], keys of largest mass, descending, -1 after the last
    ranking: np.ndarray,  # int64 [l], keys of largest p_j |v_j - mu|, descending, -1 after the last
    budgets: np.ndarray,  # int64 [b]
    extras: np.ndarray,  # int64 [b]
    place: np.ndarray,  # int64 [N], scratch; all -1, and left so
    keys: np.ndarray,  # int64 [u], out: every key of any pool, ascending, -1 after the last
    pools: np.ndarray,  # int64 [b, m], out: each pool as ascending indices into `keys`
    tops: np.ndarray,  # bool [b, m], out: which of the pool is top-mass
    sizes: np.ndarray,  # int64 [b], out: keys in each pool
) -> int:
    """Candidate pools of a row at every budget: top-mass and the further keys of largest error.

    Returns the number of `keys`.
    """
    count = 0
    for j in leading:
        if j >= 0:
            keys[count], place[j], count = j, count, count + 1
    heavy = count  # keys before have their mass's rank as place
    for b in range(len(budgets)):
        room = extras[b]
        for j in ranking:
            if room == 0 or j < 0:
                break
            if place[j] < 0:
                keys[count], place[j], count = j, count, count + 1
            room -= place[j] >= min(budgets[b], heavy)
    ascending = np.empty(count, dtype=np.int64)
    _insert(keys[:count], count, ascending, 0)  # a compiled np.sort takes seconds to compile
    for b in range(len(budgets)):
        s, room, size = min(budgets[b], heavy), extras[b], 0
        chosen = np.zeros(count, dtype=np.bool_)
        chosen[:s] = True
        for j in ranking:
            if room == 0 or j < 0:
                break
            room -= not chosen[place[j]]
            chosen[place[j]] = True
        for i in range(count):
            rank = place[ascending[i]]
            if chosen[rank]:
                pools[b, size], tops[b, size], size = i, rank < s, size + 1
        sizes[b] = size
    for i in range(count):
        keys[i] = ascending[i]
        place[ascending[i]] = -1
    for i in range(count, len(keys)):
        keys[i] = -1
    return count
