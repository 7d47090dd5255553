"""Exhaustive minimum of the forced error over all size-s subsets of a pool, sixteen instances at once.

The search visits every subset of the smaller of the kept and the dropped set as a path of a tree:
choosing key ``c`` adds the row ``2 H_c`` to what every later key would add (`ceiling.kernels.forms`).
The last two levels are one double loop of an addition and a minimum a subset,

    form + min_j (t_j + min_(i < j) (t_i + 2 H_ij)),

and all of it runs on vectors of sixteen int32 numbers, one instance a lane (`ceiling.kernels.lanes`),
so that no step depends on the length of a loop. A node whose minimum is not above the bound of its
lane is walked again, and whoever passes is decided by the direct float64 sum.

Proof that int32 is enough.  Let ``T = R^2 + tau^2 P^2`` as in `forms`. In the order in which the search
adds (``t_i``, then ``2 H_ij``, then ``t_j``, then the form), every number it forms is a partial form
``|g|^2 - tau^2 p^2`` with ``|g| <= R`` and ``0 <= p <= P``, or a difference of two. Partial forms lie in
``[-tau^2 P^2, R^2]``, so each number is at most ``T`` in size. Scaled by ``2^30 / T`` and rounded to whole
numbers, sums stay below 2^31, are exact, and a subset's form adds ``k`` entries ``t``, ``k (k - 1) / 2``
entries ``2 H`` and the start, each rounded by at most a half. A set that `forms` lets through up to
``slack`` therefore has a scaled form of at most ``slack 2^30 / T + (k (k + 1) / 2 + 1) / 2``, which rounded
up is its lane's bound. In error this resolves about 2^-15 of ``R / p(A)``.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.direct import decide, forced_error
from ceiling.kernels.forms import slack
from ceiling.kernels.lanes import LANES, add, load, minimum, not_above, store
from ceiling.kernels.swaps import balance, scratch_of

TIGHTEN = 0.99
"""A row is screened anew once a set is found that is at least this much better than its incumbent: a new
form costs about as much as ten decisions, and far incumbents let thousands of sets through."""

VANISHING = 1e-290
"""Below this the scale of a form would overflow: all its entries become 0 and nothing is screened out."""

SCALE = 2.0**30
"""Whole numbers the largest possible form is mapped to: a power of two below the range of int32."""


@compiled
def minima(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    gram: np.ndarray,  # float64 [rows, u, u], inner products of the residuals
    pools: np.ndarray,  # int64 [rows, >= m], ascending indices
    some: np.ndarray,  # int64 [n], the rows to do
    m: int,
    s: int,
    taus: np.ndarray,  # float64 [rows], error of a size-s set of each pool
    tie: float,  # relative tolerance of ties
    zeros: np.ndarray,  # float64 [rows], errors up to this are zero
    twice: np.ndarray,  # int32 [m, m, LANES], scratch; of any shape where k = min(s, m - s) < 2
    levels: np.ndarray,  # int32 [k, m + 1, LANES], scratch, likewise
    best: np.ndarray,  # bool [rows, >= m], out: the winners
    errors: np.ndarray,  # float64 [rows], out: their errors
    ties: np.ndarray,  # int64 [rows], out: how many sets tie, the winner included
) -> None:
    """Minimum of some rows with pools of `m` keys.

    The winner is the lexicographically smallest of all sets within the tie tolerance of the
    minimum. A first pass finds the two smallest errors; only where they tie, a second counts.
    """
    found, limits = np.full((len(residuals), 3), np.inf), np.maximum(taus, zeros)
    g, common = np.empty(residuals.shape[2]), (residuals, masses, gram, pools, some)
    _scan(*common, m, s, limits, zeros, tie, False, twice, levels, best, found)
    tied, n = np.empty_like(some), 0
    for r in some:
        errors[r], ties[r] = found[r, 0], 1
        limits[r] = max(found[r, 0] * (1 + tie), zeros[r])
        if found[r, 1] <= limits[r]:
            found[r, 2], tied[n], n = 0.0, r, n + 1
    common = residuals, masses, gram, pools, tied[:n]
    _scan(*common, m, s, limits, zeros, tie, True, twice, levels, best, found)
    for r in tied[:n]:
        errors[r] = forced_error(residuals[r], masses[r], pools[r, :m], best[r, :m], g)
        ties[r] = int(found[r, 2])


@compiled
def _scan(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    gram: np.ndarray,  # float64 [rows, u, u]
    pools: np.ndarray,  # int64 [rows, >= m]
    some: np.ndarray,  # int64 [n]
    m: int,
    s: int,
    taus: np.ndarray,  # float64 [rows]
    zeros: np.ndarray,  # float64 [rows]
    tie: float,
    counting: bool,  # errors <= tau, or find the two smallest
    twice: np.ndarray,  # int32 [m, m, LANES], scratch
    levels: np.ndarray,  # int32 [k, m + 1, LANES], scratch
    best: np.ndarray,  # bool [rows, >= m], out
    found: np.ndarray,  # float64 [rows, 3], out
) -> None:
    """Visit every subset of the rows `some`, LANES rows at a time."""
    if min(s, m - s) < 2:
        for r in some:
            limit = taus[r] if counting else -1.0
            _decide_all(residuals[r], masses[r], pools[r, :m], s, limit, best[r, :m], found[r])
        return
    bounds, d = np.empty((1, LANES), dtype=np.int32), residuals.shape[2]
    room = np.empty((2, m))
    for first in range(0, len(some), LANES):
        bounds[:] = -(2**31)  # a lane without a row passes hardly ever; nothing is decided in it
        batch = some[first : first + LANES]
        for lane in range(len(batch)):
            r = batch[lane]
            _fill(
                gram[r], masses[r], pools[r, :m], s, taus[r], tie, d, lane, room,
                twice, levels, bounds,
            )  # fmt: skip
        _walk(
            residuals, masses, gram, pools, batch, m, s, taus, zeros, tie, counting,
            twice, levels, bounds, best, found,
        )  # fmt: skip


@compiled
def _fill(
    gram: np.ndarray,  # float64 [u, u]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m]
    s: int,
    tau: float,
    tie: float,
    d: int,
    lane: int,
    scratch: np.ndarray,  # float64 [2, m]
    twice: np.ndarray,  # int32 [m, m, LANES], out
    levels: np.ndarray,  # int32 [k, m + 1, LANES], out: the first
    bounds: np.ndarray,  # int32 [1, LANES], out
) -> None:
    """Write the scaled form of one row, and its bound, into its lane."""
    m = len(pool)
    k, dropping, square, reach, weight = min(s, m - s), m - s < s, tau * tau, 0.0, 0.0
    weights, sums = scratch[0], scratch[1]
    for i in range(m):
        weights[i], sums[i] = masses[pool[i]], 0.0
        weight += weights[i]
        reach += np.sqrt(gram[pool[i], pool[i]])
    spread = square * weight * weight
    terms = reach * reach + spread
    scale = SCALE / terms if terms > VANISHING else 0.0
    total = 0.0
    for i in range(m):
        row, moved = gram[pool[i]], square * weights[i]
        for j in range(i):  # unsigned, so that no index is taken for one from the end
            entry = 2.0 * scale * (row[np.uint64(pool[j])] - moved * weights[j])
            twice[i, j, lane] = twice[j, i, lane] = int(np.rint(entry))
            if dropping:
                sums[i] += entry
                sums[j] += entry
        own = scale * (row[pool[i]] - moved * weights[i])
        levels[0, i, lane] = int(np.rint(own))
    if dropping:  # from the whole pool, whose form is the total
        for i in range(m):
            own = scale * (gram[pool[i], pool[i]] - square * weights[i] * weights[i])
            levels[0, i, lane] = int(np.rint(-own - sums[i]))
            total += own + 0.5 * sums[i]
    levels[0, m, lane] = int(np.rint(total))
    bound = slack(d, m, k, terms, spread, tie) * scale + 0.25 * k * (k + 1) + 0.5
    bounds[0, lane] = int(min(np.ceil(bound), 2.0**31 - 1))


@compiled
def _walk(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    gram: np.ndarray,  # float64 [rows, u, u]
    pools: np.ndarray,  # int64 [rows, >= m]
    batch: np.ndarray,  # int64 [<= LANES], the row in each lane
    m: int,
    s: int,
    taus: np.ndarray,  # float64 [rows], lowered as better sets are found
    zeros: np.ndarray,  # float64 [rows]
    tie: float,
    counting: bool,
    twice: np.ndarray,  # int32 [m, m, LANES]
    levels: np.ndarray,  # int32 [k, m + 1, LANES]; the first is given
    bounds: np.ndarray,  # int32 [1, LANES]
    best: np.ndarray,  # bool [rows, >= m], out
    found: np.ndarray,  # float64 [rows, 3], out
) -> None:
    """The tree over all but the last two choices; its leaves are nodes of pairs."""
    k, d = min(s, m - s), residuals.shape[2]
    kept, g, scratch = np.empty(m, dtype=np.bool_), np.empty(d), scratch_of(m, s, masses.shape[1], d)
    room = np.empty((2, m))
    chosen, depth, first = np.zeros(k, dtype=np.int64), 0, 0
    chosen[0] = -1
    while depth >= 0:
        if depth == k - 2:
            lanes = _pairs(levels, depth * (m + 1), twice, first, m, bounds)
            if lanes != 0:
                _decide_pairs(
                    residuals, masses, pools, batch, s, taus, counting, levels, depth * (m + 1), twice,
                    bounds, chosen[:depth], first, kept, g, best, found,
                )  # fmt: skip
            for lane in range(len(batch) if lanes != 0 and not counting else 0):
                r = batch[lane]
                if lanes >> lane & 1 and max(found[r, 0], zeros[r]) < taus[r] * TIGHTEN:
                    kept[:] = best[r, :m]
                    _, reached, _ = balance(
                        residuals[r], masses[r], gram[r], pools[r, :m], tie, zeros[r], kept, scratch
                    )
                    taus[r] = max(reached, zeros[r])
                    _fill(
                        gram[r], masses[r], pools[r, :m], s, taus[r], tie, d, lane, room,
                        twice, levels, bounds,
                    )  # fmt: skip
                    _replay(levels[:, :, lane], twice[:, :, lane], chosen[:depth])
            depth -= 1
            continue
        c = chosen[depth] + 1
        if m - c < k - depth:
            depth -= 1
            continue
        chosen[depth] = chosen[depth + 1] = c
        _choose(levels, depth * (m + 1), twice, c, m)
        depth, first = depth + 1, c + 1


@compiled
def _replay(levels: np.ndarray, twice: np.ndarray, chosen: np.ndarray) -> None:
    """Make the choices so far again in one lane, int32 [k, m + 1] and [m, m], strided."""
    m = len(twice)
    for depth in range(len(chosen)):
        c = chosen[depth]
        for j in range(c + 1, m):
            levels[depth + 1, j] = levels[depth, j] + twice[c, j]
        levels[depth + 1, m] = levels[depth, m] + levels[depth, c]


@compiled
def _choose(levels: np.ndarray, at: int, twice: np.ndarray, c: int, m: int) -> None:
    """From the level at `at`, write the next one: key `c` chosen, later keys to go."""
    row, deeper = c * m, at + m + 1
    for j in range(c + 1, m):
        store(levels, deeper + j, add(load(levels, at + j), load(twice, row + j)))
    store(levels, deeper + m, add(load(levels, at + m), load(levels, at + c)))


@compiled
def _pairs(levels: np.ndarray, at: int, twice: np.ndarray, first: int, m: int, bounds: np.ndarray) -> int:
    """Lanes (bits) in which some pair of keys from `first` on brings the form down to the bound."""
    lowest = add(load(levels, at + first), load(twice, (first + 1) * m + first))
    lowest = add(lowest, load(levels, at + first + 1))
    for j in range(first + 2, m):
        row = j * m
        below = add(load(levels, at + first), load(twice, row + first))
        for i in range(first + 1, j):
            below = minimum(below, add(load(levels, at + i), load(twice, row + i)))
        lowest = minimum(lowest, add(below, load(levels, at + j)))
    return not_above(add(lowest, load(levels, at + m)), load(bounds, 0))


@compiled
def _decide_pairs(
    residuals: np.ndarray,  # float64 [rows, u, d]
    masses: np.ndarray,  # float64 [rows, u]
    pools: np.ndarray,  # int64 [rows, >= m]
    batch: np.ndarray,  # int64 [<= LANES]
    s: int,
    taus: np.ndarray,  # float64 [rows]
    counting: bool,
    levels: np.ndarray,  # int32 [k, m + 1, LANES]
    at: int,  # where the node's level starts
    twice: np.ndarray,  # int32 [m, m, LANES]
    bounds: np.ndarray,  # int32 [1, LANES]
    chosen: np.ndarray,  # int64 [k - 2]
    first: int,
    kept: np.ndarray,  # bool [m], scratch
    g: np.ndarray,  # float64 [d], scratch
    best: np.ndarray,  # bool [rows, >= m], out
    found: np.ndarray,  # float64 [rows, 3], out
) -> None:
    """Decide on every set of one node that passes: the chosen keys and a pair from `first` on."""
    m = len(kept)
    dropping = m - s < s
    for j in range(first + 1, m):
        for i in range(first, j):
            form = add(load(levels, at + i), load(twice, j * m + i))
            form = add(add(form, load(levels, at + j)), load(levels, at + m))
            lanes = not_above(form, load(bounds, 0))
            for lane in range(len(batch) if lanes != 0 else 0):
                if lanes >> lane & 1:
                    kept[:] = dropping
                    kept[i] = kept[j] = not dropping
                    for c in chosen:
                        kept[c] = not dropping
                    r = batch[lane]
                    limit = taus[r] if counting else -1.0
                    error = forced_error(residuals[r], masses[r], pools[r, :m], kept, g)
                    decide(error, kept, limit, best[r, :m], found[r])


@compiled
def _decide_all(
    residuals: np.ndarray,  # float64 [u, d]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m]
    s: int,
    limit: float,
    best: np.ndarray,  # bool [m], out
    found: np.ndarray,  # float64 [3], out
) -> None:
    """Decide on every set where at most one key is chosen: there is nothing to screen."""
    m, g = len(pool), np.empty(residuals.shape[1])
    kept = np.full(m, m - s < s)
    if m == s:
        decide(forced_error(residuals, masses, pool, kept, g), kept, limit, best, found)
    for j in range(m if m > s else 0):
        kept[j] = not kept[j]
        first, last = (j, j + 1) if s == 1 else (0, m)  # a single kept key is summed alone, not looked for
        error = forced_error(residuals, masses, pool[first:last], kept[first:last], g)
        decide(error, kept, limit, best, found)
        kept[j] = not kept[j]
