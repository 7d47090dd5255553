"""Lower bounds of a node, one direction at a time, with a margin above their rounding.

Is there a set of error below `tau` that keeps at least the mass `least`? For any unit vector ``u`` and any
``lam >= 0`` such a set A has ``sum_A ((tau + lam) p_j - <u, z_j>) > lam least``. A node keeps keys with sums
``g`` and ``p`` and takes `k` more; with ``r_j = (tau + lam) p_j - <u, z_j>`` it is empty if
``D = <u, g> - (tau + lam) p + lam least - (the k largest r_j)`` is not negative.

Directions are integers of 16 bits and multipliers have 15, so that a proof can store what was used.

Inner products are summed in float32, of half the bytes, and what that may err by counts as rounding: margins
are a little larger. Only where it decides whether a node is empty, they are summed again in float64.
"""

from math import frexp
from typing import NamedTuple

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.vectors import dot

MARGIN = 1e-12
"""Relative to the sum of all that enters D in absolute value. Float64 sums of up to 256 such terms, and
inner products of up to a few hundred components, err by less than a tenth of it."""

ROUGH = 2.0**-23
"""Times components + 8 and the norm, twice what a float32 inner product errs by: both factors are rounded,
and every product and sum, by 2^-24 each."""

FAINT = 1e-30
"""Share of the largest norm that any norm counts as, for what r may err by: float32 ends at 1e-38, r errs by
about 1e-6 of it."""

GRID = 32767
"""Largest component of a stored direction."""

WORTH = 0.25
"""Share of the candidates that a direction must drop, or it is not kept as an event of the proof: proofs
become less than half as long, and the search a little faster."""

TRIES = 8
"""Multipliers of the mass floor tried for one direction."""


class Keys(NamedTuple):
    """Keys of positive mass by descending ``|z| + tau p``.

    Attributes
    ----------
    residuals : ndarray of float64, shape (n, d)
        Padded (`vectors.padded`).
    masses, norms : ndarray of float64, shape (n,)
        Norms of the residuals, rounded up.
    tail_norms, tail_masses : ndarray of float64, shape (n,)
        The largest of each key and all later ones.
    rough : ndarray of float32, shape (n, d)
        Residuals in units of `scale`, padded.
    scale : float
        The largest norm.
    """

    residuals: np.ndarray
    masses: np.ndarray
    norms: np.ndarray
    tail_norms: np.ndarray
    tail_masses: np.ndarray
    rough: np.ndarray
    scale: float


@compiled
def direction(point: np.ndarray, grid: np.ndarray, unit: np.ndarray) -> bool:
    """Round the direction of `point` to int16 `grid`; `unit` is that one, normed. False for a zero vector."""
    largest = 0.0
    for c in range(len(point)):
        largest = max(largest, abs(point[c]))
    if largest == 0.0:
        return False
    square = 0.0
    for c in range(len(point)):
        grid[c] = np.int16(np.rint(point[c] / largest * GRID))
        square += float(grid[c]) * grid[c]
    length = np.sqrt(square)
    for c in range(len(point)):
        unit[c] = grid[c] / length
    return True


@compiled
def multiplier(lam: float) -> tuple[float, int, int]:
    """The largest ``mantissa 2^exponent`` up to `lam` with a mantissa below 2^15, and its parts."""
    if lam <= 0.0:
        return 0.0, 0, 0
    fraction, exponent = frexp(lam)
    mantissa = int(fraction * 32768)
    return mantissa * 2.0 ** (exponent - 15), mantissa, exponent - 15


@compiled
def largest(
    keys: Keys,
    alive: np.ndarray,  # int32 [m], candidates
    m: int,
    want: int,
    unit: np.ndarray,
    rough: np.ndarray,  # float32, the same; empty: float64 is asked for
    slope: float,  # tau + lam
    error: float,  # of r, in norms
    marks: np.ndarray,  # int8 [n], 1 where alive; kept so
    r: np.ndarray,  # float64 [m], out: r of the candidates seen
    values: np.ndarray,  # float64 [want], out: the largest, descending
    tops: np.ndarray,  # int64 [want], in: any keys, best such as were the largest before; out: the largest
) -> int:
    """Find the `want` largest r; returns how many candidates were looked at: no later one reaches them.

    Keys come by descending ``|z| + tau p``, so the tail of negligible keys is never looked at. First, as many
    keys as are wanted, those that were largest before, tell what the largest reach; these are among the seen,
    as no r found exceeds its key's part of the tail.
    """
    residuals, masses, _, tail_norms, tail_masses, low, scale = keys
    least, found, told, i = np.inf, 0, 0, 0
    while found < want:
        if told < want:
            j = tops[told]
            told += 1
        else:
            j = alive[i]
            i += 1
        if marks[j] == 1:
            marks[j] = 2
            found += 1
            inner = scale * dot(low, j, rough) if len(rough) > 0 else dot(residuals, j, unit)
            least = min(least, slope * masses[j] - inner)
    for a in range(told):
        marks[tops[a]] = min(marks[tops[a]], 1)
    for a in range(i):
        marks[alive[a]] = 1
    seen, end, faint = want, m, error * FAINT * scale
    while seen < end:
        middle = (seen + end) // 2
        j = alive[middle]
        if tail_norms[j] * (1 + error) + faint + slope * tail_masses[j] < least:
            end = middle
        else:
            seen = middle + 1
    if len(rough) > 0:
        for i in range(seen):
            r[i] = slope * masses[alive[i]] - scale * dot(low, alive[i], rough)
    else:
        for i in range(seen):
            r[i] = slope * masses[alive[i]] - dot(residuals, alive[i], unit)
    found = 0
    for i in range(seen):
        x = r[i]
        if x < least:
            continue
        if found < want:
            t = found
            found += 1
        elif x > values[want - 1]:
            t = want - 1
        else:
            continue
        while t > 0 and values[t - 1] < x:
            values[t], tops[t] = values[t - 1], tops[t - 1]
            t -= 1
        values[t], tops[t] = x, alive[i]
        if found == want:
            least = values[want - 1]
    return seen


@compiled
def bound(
    keys: Keys,
    alive: np.ndarray,
    m: int,
    k: int,
    sums: tuple,  # g, float64 [d]; mass and sum of norms of the kept keys
    unit: np.ndarray,
    rough: np.ndarray,  # float32, scratch
    tau: float,
    least: float,
    lam: float,  # where the search for the multiplier starts
    marks: np.ndarray,
    r: np.ndarray,
    values: np.ndarray,
    tops: np.ndarray,
) -> tuple[float, float, float, int, float]:
    """``D`` at the best multiplier found, the margin it must exceed, that multiplier, candidates looked at;
    and what r may err by, in norms.
    """
    for c in range(len(unit)):
        rough[c] = unit[c]
    error = ROUGH * (keys.residuals.shape[1] + 8)  # far above MARGIN
    d, margin, found, seen = _best(
        keys, alive, m, k, sums, unit, rough, tau, least, lam, error, marks, r, values, tops
    )
    if margin > d > -margin:
        error = MARGIN
        d, margin, found, seen = _best(
            keys, alive, m, k, sums, unit, rough[:0], tau, least, found, error, marks, r, values, tops
        )
    return d, margin, found, seen, error


@compiled
def _best(
    keys: Keys, alive: np.ndarray, m: int, k: int, sums: tuple, unit: np.ndarray, rough: np.ndarray,
    tau: float, least: float, lam: float, error: float, marks: np.ndarray, r: np.ndarray,
    values: np.ndarray, tops: np.ndarray,
) -> tuple[float, float, float, int]:  # fmt: skip
    """`bound` in one precision.

    ``D`` is concave in the multiplier, its slope is what the largest r lack in mass: regula falsi.
    """
    lam = multiplier(lam)[0]
    want = min(k + 1, m)
    if least <= 0.0:
        seen = largest(keys, alive, m, want, unit, rough, tau, error, marks, r, values, tops)
        d, margin, _ = _value(keys, alive, k, sums, unit, tau, 0.0, 0.0, error, values, tops)
        return d, margin, 0.0, seen
    best, best_lam, at = -np.inf, 0.0, 0.0
    low, high, under, over = 0.0, -1.0, 0.0, 0.0
    seen, margin = 0, 0.0
    for _ in range(TRIES):
        seen = largest(keys, alive, m, want, unit, rough, tau + lam, error, marks, r, values, tops)
        d, margin, short = _value(keys, alive, k, sums, unit, tau, lam, least, error, values, tops)
        at = lam
        if d > best:
            best, best_lam = d, lam
        if d >= margin or (short <= 0 and lam == 0.0):
            break
        if short > 0:
            low, under = lam, short
        else:
            high, over = lam, -short
        if high < 0:
            lam = 2 * lam + 0.5 * tau
        elif under > 0:
            lam = low + (high - low) * max(0.1, min(0.9, under / (under + over)))
        else:
            lam = 0.0
        lam = multiplier(lam)[0]
        if lam == at:
            break
    if at != best_lam:
        seen = largest(keys, alive, m, want, unit, rough, tau + best_lam, error, marks, r, values, tops)
        best, margin, _ = _value(keys, alive, k, sums, unit, tau, best_lam, least, error, values, tops)
    return best, margin, best_lam, seen


@compiled
def _value(
    keys: Keys, alive: np.ndarray, k: int, sums: tuple, unit: np.ndarray, tau: float, lam: float,
    least: float, error: float, values: np.ndarray, tops: np.ndarray,
) -> tuple[float, float, float]:  # fmt: skip
    """``D``, its margin, and what the `k` largest lack in mass.

    No `k` candidates have more than the `k` largest r found and, each, what that of the longest may err by.
    """
    masses, norms = keys.masses, keys.norms
    g, mass, length = sums
    taken = 0.0
    d = dot(g.reshape(1, -1), 0, unit) - (tau + lam) * mass + lam * least
    for i in range(k):
        j = tops[i]
        d -= values[i]
        taken += masses[j]
        length += norms[j]
    mass += taken
    margin = MARGIN * (length + (tau + lam) * mass + lam * least)
    return d, margin + k * error * (keys.tail_norms[alive[0]] + FAINT * keys.scale), least - mass


@compiled
def fix(
    keys: Keys,
    alive: np.ndarray,  # in and out
    m: int,
    k: int,
    d: float,
    margin: float,
    slope: float,
    seen: int,
    error: float,  # of r, in norms
    r: np.ndarray,
    values: np.ndarray,
    tops: np.ndarray,
    marks: np.ndarray,  # int8 [n], 1 where alive; kept so
) -> tuple[int, int]:
    """Drop candidates that no set below the threshold has; returns those left, and how many all of them have.

    With key j taken the bound is ``D + r_(k) - r_j``, without it ``D + r_j - r_(k+1)``; the margin grows by
    the norm of the key that comes in. Keys that all have are the first of `tops`; they stay alive, for the
    caller to keep.
    """
    norms, tail_norms, tail_masses = keys.norms, keys.tail_norms, keys.tail_masses
    if m == k:
        return m, k
    faint = error * FAINT * keys.scale
    own = error * norms[tops[k]] + faint
    drop, force = values[k - 1] + d - margin, values[k] + own - d + margin
    forced = 0
    while forced < k and values[forced] > force:
        forced += 1
    last, dropped = m, 0
    while last > seen and tail_norms[alive[last - 1]] + slope * tail_masses[alive[last - 1]] < drop:
        last -= 1
    for i in range(seen):
        dropped += r[i] + error * norms[alive[i]] + faint < drop
    if forced == 0 and dropped + m - last < WORTH * m:
        return m, 0
    while m > last:
        m -= 1
        marks[alive[m]] = 0
    left = 0
    for i in range(seen):
        if r[i] + error * norms[alive[i]] + faint >= drop:
            alive[left] = alive[i]
            left += 1
        else:
            marks[alive[i]] = 0
    if left < seen:
        for i in range(seen, m):
            alive[left + i - seen] = alive[i]
        m -= seen - left
    return m, forced


@compiled
def drop_light(
    masses: np.ndarray, alive: np.ndarray, m: int, k: int, mass: float, least: float, marks: np.ndarray,
    values: np.ndarray,
) -> int:  # fmt: skip
    """Drop candidates too light for the mass floor; returns how many are left, -1 if no choice meets it."""
    found = 0
    for i in range(m):
        x = masses[alive[i]]
        if found < k:
            t = found
            found += 1
        elif x > values[k - 1]:
            t = k - 1
        else:
            continue
        while t > 0 and values[t - 1] < x:
            values[t] = values[t - 1]
            t -= 1
        values[t] = x
    others = mass
    for i in range(found - 1):
        others += values[i]
    margin = MARGIN * (least + others)
    if found < k or others + values[k - 1] < least - margin:
        return -1
    if m == k:
        return m
    lightest = least - margin - others
    left = 0
    for i in range(m):
        if masses[alive[i]] >= lightest or masses[alive[i]] >= values[k - 1]:
            alive[left] = alive[i]
            left += 1
        else:
            marks[alive[i]] = 0
    return left


@compiled
def lengths(rows: np.ndarray) -> np.ndarray:
    """Lengths of padded rows, float64 [n], the same on every machine."""
    out = np.empty(len(rows))
    for j in range(len(rows)):
        out[j] = np.sqrt(dot(rows, j, rows[j]))
    return out
