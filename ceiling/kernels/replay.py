"""Replay of a refutation, event by event, in whole numbers; every rounding goes against the proof.

Keys have masses p and distances c from the dense output. Claimed is that no admissible set, of s keys and
at least the mass P0, has ``|sum p c| < tau sum p``. If one had, then by Cauchy-Schwarz, for every vector
``U /= 0`` and every ``lam >= 0``,

    sum_A r_j > 0,   r_j = p_j h_j - lam P0 / s,   h_j = tau |U| + lam - <U, c_j>,

and ``sum_A (p_j - P0 / s) >= 0`` anyway. Both are *forms*: numbers whose sum over the set is positive, or
not negative. A node keeps the keys F and takes k of its candidates. With D minus the sum of a form over F
and its k largest candidates, no such set is below the node if ``D >= 0`` (``D > 0`` for the second kind);
none with the candidate j, which is dropped, if ``D + r_(k) - r_j >= 0``; none without it, which is kept, if
``D + r_j - r_(k+1) >= 0``. As only positive sums are used, forms may be rounded up. More may be dropped or
kept here than by whoever wrote the proof, never less; events of a node that has no sets are passed over.

Proof that forms are rounded up, and that nothing overflows (see `whole`).  A mass is ``m 2^(e - 53)``,
exactly, ``m < 2^53``; tau likewise. ``tau |U|`` is rounded up, at most ``2^58 + 1`` of its units; lam, below
2^57, to a number that is as valid. Their sum, the slope, is below 2^59, so that p_j times it, rounded up, is
at most ``2^58 + 1`` in units of ``2^(e_j + 1)`` times the slope's; ``p_j <U, c_j>``, rounded down, at most
``2^58 + 1`` in units of ``2^(e_j + 30 - kappa_j)``: each key has its own, as heavy ones are close to the
dense output, and light ones are not. Then all is rounded to the coarsest unit of the subtree's keys, which
only makes numbers smaller, ``lam P0 / s`` down, below 2^57. So forms are below 2^60, and a sum cut off at
2^61 plus a form, or plus the difference of two, does not overflow and has its sign.
"""

from typing import NamedTuple

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.whole import HALF, add_up, along, high_part, multiplier, shifted, towards

FIX, SHUT, BRANCH, LAST, NONE = 1, 2, 3, 4, 5
"""Events: with a direction the node goes on, or ends; two children; at most one key is missing; no sets."""

PROVED, BROKEN, KEY, DEEP, MULTIPLIER, OPEN, EARLY, HELD, SETS, WORDS = range(10)
"""Verdicts; all but the first reject (`ceiling.certify.check` has the words)."""

MOST_KEPT = 1024
"""Largest budget: sums of as many residuals of 52 bits fit (`_add`)."""

DROPPED, ALIVE, KEPT = 0, 1, 2
CURSOR, EVENTS, COUNT, MISSING, HAVE, DEPTH, COARSEST = range(7)
"""Whole numbers of the state: words read, events of the subtree, candidates, keys to take, keys kept, waiting
children, the subtree's unit."""


class Keys(NamedTuple):
    """The claim: keys by descending mass, in whole numbers."""

    high: np.ndarray  # int32 [n, d], of C
    low: np.ndarray  # int32 [n, d]
    mantissas: np.ndarray  # int64 [n], 2^8 m
    exponents: np.ndarray  # int64 [n], e
    units: np.ndarray  # int64 [n], e + 30 - kappa
    coarsest: np.ndarray  # int64 [n], the largest of the units from each key on
    ceilings: np.ndarray  # int64 [n], p 2^(59 - e_0), rounded up
    rank: np.ndarray  # int64 [n], of a key as the proof names it
    s: int
    tau: int  # 2^6 m of the threshold
    scale: int  # its e - 28
    share: int  # P0 / s 2^(61 - e_0), rounded down; 0: no floor


class State(NamedTuple):
    """Where the replay is."""

    at: np.ndarray  # int64 [7]
    alive: np.ndarray  # int32 [n], candidates of the node
    kept: np.ndarray  # int32 [s]
    marks: np.ndarray  # int8 [n]
    form: np.ndarray  # int64 [n]
    largest: np.ndarray  # int64 [s + 1]
    point: np.ndarray  # int64 [d]
    direction: np.ndarray  # int32 [d]
    counts: np.ndarray  # int64 [s, 3], of waiting children: candidates (-1: nothing to show), missing, kept
    waiting: np.ndarray  # int32 [s, n], their candidates


@compiled
def replay(stream: np.ndarray, keys: Keys) -> tuple[int, int, int]:
    """The verdict on a stream, int16 [w]; the subtree and the event that decided it, from 0."""
    state = start(keys)
    n, s = len(keys.rank), keys.s
    trees = 1 if keys.share > 0 else n - s + 1
    for tree in range(trees):
        begin(keys, state, tree)
        verdict = _tree(stream, keys, state)
        if verdict != PROVED:
            return verdict, tree, max(state.at[EVENTS] - 1, 0)
    if state.at[CURSOR] != len(stream):
        return WORDS, trees - 1, state.at[EVENTS] - 1
    return PROVED, trees, 0


@compiled
def start(keys: Keys) -> State:
    """Room for a replay."""
    n, d = keys.high.shape
    s = keys.s
    return State(
        np.zeros(7, np.int64), np.zeros(n, np.int32), np.zeros(s, np.int32), np.zeros(n, np.int8),
        np.zeros(n, np.int64), np.zeros(s + 1, np.int64),
        np.zeros(d, np.int64), np.zeros(d, np.int32), np.zeros((s, 3), np.int64), np.zeros((s, n), np.int32),
    )  # fmt: skip


@compiled
def bones(stream: np.ndarray, d: int, out: np.ndarray) -> int:
    """Copy a stream without FIX, and SHUT without its direction; returns the words, -1 if it is none."""
    i, words = 0, 0
    while i < len(stream):
        length = _length(stream, i, d)
        if length < 0:
            return -1
        copied = 0 if stream[i] == FIX else (1 if stream[i] == SHUT else length)
        out[words : words + copied] = stream[i : i + copied]
        words += copied
        i += length
    return words


@compiled
def _length(stream: np.ndarray, i: int, d: int) -> int:
    """Words of the event at `i`, -1 if there is none."""
    if i >= len(stream):
        return -1
    code = stream[i]
    length = -1
    if code in (FIX, SHUT):
        length = d + 3
    elif code == BRANCH:
        length = 3
    elif code in (LAST, NONE):
        length = 1
    return length if i + length <= len(stream) else -1


@compiled
def begin(keys: Keys, state: State, tree: int) -> None:
    """Without a floor, the sets whose heaviest key is `tree`; with one, all."""
    n = len(state.marks)
    first = 0 if keys.share > 0 else 1
    at = state.at
    at[EVENTS], at[DEPTH], at[HAVE] = 0, 0, first
    at[COARSEST] = keys.coarsest[tree]
    at[MISSING], at[COUNT] = keys.s - first, n - tree - first
    state.kept[0] = tree
    state.marks[: tree + first] = DROPPED
    state.marks[tree + first :] = ALIVE
    if first:
        state.marks[tree] = KEPT
    for i in range(at[COUNT]):
        state.alive[i] = tree + first + i


@compiled
def _tree(stream: np.ndarray, keys: Keys, state: State) -> int:
    """Replay one subtree, an event a turn."""
    at = state.at
    while True:
        closed = at[COUNT] < at[MISSING] or (keys.share > 0 and _too_light(keys, state))
        unread = closed  # what its events would show is shown
        if not closed:
            if at[COUNT] == at[MISSING]:
                _keep_all(state)
            start = at[CURSOR]
            length = _length(stream, start, len(state.direction))
            if length < 0:
                return BROKEN
            at[CURSOR] += length
            at[EVENTS] += 1
            verdict, closed = _event(stream[start : start + length], keys, state)
            if verdict == PROVED and stream[start] == BRANCH:
                verdict = _branch(stream, start, keys, state)
            if verdict != PROVED:
                return verdict
            unread = closed and stream[start] == FIX
        if unread and not _skip(stream, state):
            return BROKEN
        while closed:
            if at[DEPTH] == 0:
                return PROVED
            closed = not _resume(state)
            if closed and not _skip(stream, state):
                return BROKEN


@compiled
def _event(words: np.ndarray, keys: Keys, state: State) -> tuple[int, bool]:
    """What an event but BRANCH shows: a verdict, and whether the node is empty."""
    code = words[0]
    if code in (FIX, SHUT):
        for c in range(len(state.point)):
            state.point[c] = words[1 + c]
        if words[-2] < 0:
            return MULTIPLIER, False
        measure(keys, state, words[-2], words[-1])
        closed = _fix(state, False)  # the zero vector shows nothing: its forms are positive
        return OPEN if code == SHUT and not closed else PROVED, closed
    if code == LAST:
        if state.at[MISSING] > 1:
            return EARLY, False
        return PROVED if _last(keys, state) else HELD, True
    return SETS if code == NONE else PROVED, False


@compiled
def _branch(stream: np.ndarray, start: int, keys: Keys, state: State) -> int:
    """Go to the child that keeps the key; the other one waits. A child without sets is passed over."""
    at, alive = state.at, state.alive
    low, high = stream[start + 1], stream[start + 2]
    if low < 0 or high < 0 or low + 32768 * np.int64(high) >= len(keys.rank):
        return KEY
    j = keys.rank[low + 32768 * np.int64(high)]
    if state.marks[j] == DROPPED or (at[MISSING] == 0 and state.marks[j] == ALIVE):
        return PROVED if _skip(stream, state) else BROKEN
    depth = at[DEPTH]
    if depth == len(state.counts):
        return DEEP
    at[DEPTH] += 1
    state.counts[depth, 0] = -1
    if state.marks[j] == KEPT:
        return PROVED
    left = 0
    for i in range(at[COUNT]):
        if alive[i] != j:
            alive[left] = alive[i]
            left += 1
    state.waiting[depth, :left] = alive[:left]
    state.counts[depth, 0], state.counts[depth, 1], state.counts[depth, 2] = left, at[MISSING], at[HAVE]
    at[COUNT] = left
    _keep(state, j)
    return PROVED


@compiled
def _keep(state: State, j: int) -> None:
    state.kept[state.at[HAVE]] = j
    state.marks[j] = KEPT
    state.at[HAVE] += 1
    state.at[MISSING] -= 1


@compiled
def _keep_all(state: State) -> None:
    for i in range(state.at[COUNT]):
        _keep(state, state.alive[i])
    state.at[COUNT] = 0


@compiled
def _resume(state: State) -> bool:
    """Take the last waiting child; False where nothing is to be shown of it."""
    at = state.at
    at[DEPTH] -= 1
    depth = at[DEPTH]
    if state.counts[depth, 0] < 0:
        return False
    at[COUNT], at[MISSING], at[HAVE] = state.counts[depth]
    state.marks[:] = DROPPED
    for i in range(at[COUNT]):
        state.alive[i] = state.waiting[depth, i]
        state.marks[state.alive[i]] = ALIVE
    for i in range(at[HAVE]):
        state.marks[state.kept[i]] = KEPT
    return True


@compiled
def _skip(stream: np.ndarray, state: State) -> bool:
    """Pass over what is left of a node, children included; False where it breaks off."""
    at = state.at
    nodes = 1
    while nodes > 0:
        length = _length(stream, at[CURSOR], len(state.direction))
        if length < 0:
            return False
        code = stream[at[CURSOR]]
        at[CURSOR] += length
        at[EVENTS] += 1
        if code == BRANCH:
            nodes += 1
        elif code != FIX:
            nodes -= 1
    return True


@compiled
def _too_light(keys: Keys, state: State) -> bool:
    """Drop and keep what the mass floor demands; whether it leaves no set."""
    for i in range(state.at[HAVE] + state.at[COUNT]):
        j = state.kept[i] if i < state.at[HAVE] else state.alive[i - state.at[HAVE]]
        state.form[j] = keys.ceilings[j] - (keys.share >> 2)
    return _fix(state, True)


@compiled
def _fix(state: State, strict: bool) -> bool:
    """Drop and keep candidates by the form; whether no set is left. `strict`: its sum may be 0."""
    at, form, alive, largest = state.at, state.form, state.alive, state.largest
    k, m = at[MISSING], at[COUNT]
    found = 0
    for i in range(m):
        x = form[alive[i]]
        if found <= k:
            t = found
            found += 1
        elif x > largest[k]:
            t = k
        else:
            continue
        while t > 0 and largest[t - 1] < x:
            largest[t] = largest[t - 1]
            t -= 1
        largest[t] = x
    d = -add_up(form, state.kept, at[HAVE], largest, k) - (1 if strict else 0)
    if d >= 0:
        return True
    left = 0
    for i in range(m):
        j = alive[i]
        if m == k or (k > 0 and d + form[j] - largest[k] >= 0):
            _keep(state, j)
        elif k > 0 and d + largest[k - 1] - form[j] < 0:
            alive[left] = j
            left += 1
        else:
            state.marks[j] = DROPPED
    at[COUNT] = left
    return False


@compiled
def _last(keys: Keys, state: State) -> bool:
    """Whether all sets of the node are refuted, each by its own direction, or by that of another."""
    at, alive, form = state.at, state.alive, state.form
    worst = 0
    if at[MISSING] == 0:
        at[COUNT] = 0
    while True:
        state.point[:] = 0
        for i in range(at[HAVE]):
            _add(keys, state, state.kept[i])
        if at[MISSING] == 1:
            _add(keys, state, alive[worst])
        measure(keys, state, 0, 0)
        base = add_up(form, state.kept, at[HAVE], state.largest, 0)
        if at[MISSING] == 0:
            return base <= 0
        if base + form[alive[worst]] > 0:
            return False
        left, worst = 0, 0
        for i in range(at[COUNT]):
            j = alive[i]
            if base + form[j] > 0:
                if left == 0 or form[j] > form[alive[worst]]:
                    worst = left
                alive[left] = j
                left += 1
        at[COUNT] = left
        if left == 0:
            return True


@compiled
def _add(keys: Keys, state: State, j: int) -> None:
    """Add about z_j to the point; what it is exactly does not matter, as any direction will do."""
    bits = state.at[COARSEST] - keys.units[j] + 5
    for c in range(len(state.point)):
        both = (np.int64(keys.high[j, c]) << HALF) + keys.low[j, c]
        state.point[c] += shifted(high_part(keys.mantissas[j], both), bits)


@compiled
def measure(keys: Keys, state: State, mantissa: int, exponent: int) -> int:
    """The form of a multiplier and the point's direction, of all keys of the node; its unit's exponent."""
    length = towards(state.point, state.direction)
    lam, scale = multiplier(length, mantissa, exponent, keys.scale)
    slope = shifted(high_part(length, keys.tau), scale - keys.scale) + 1 + lam
    first = keys.exponents[state.kept[0] if keys.share == 0 else 0] + 1 + scale
    unit = max(state.at[COARSEST], first)
    share = shifted(high_part(keys.share, lam), unit - first)
    for i in range(state.at[HAVE] + state.at[COUNT]):
        j = state.kept[i] if i < state.at[HAVE] else state.alive[i - state.at[HAVE]]
        rise = high_part(keys.mantissas[j], slope)
        fall = high_part(keys.mantissas[j], along(keys.high, keys.low, j, state.direction) << 2)
        rise = shifted(rise, unit - keys.exponents[j] - 1 - scale) + 1
        state.form[j] = rise - shifted(fall, unit - keys.units[j]) - share
    return int(unit)
