"""Check of a certificate: is the kept set what it is said to be, and does the proof refute every better one?

The stored numbers are read as exact rationals. The kept set is measured in those; the proof is replayed in
whole numbers that are rounded against it (`ceiling.kernels.replay`). Nothing here is shared with the search;
directions that a long proof leaves out are found again by it, and checked like all others.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ceiling.certify.proof import Proof, ProofError, decode, skeleton
from ceiling.kernels import replay
from ceiling.kernels.whole import HALF, LOWER, POINT
from ceiling.problem import Row

CLOSE = Fraction(1, 10**12)
"""Relative: how far the stored error of a set may lie from the exact one; sums of at most some hundred
float64 terms err by less."""

ROUNDING = Fraction(1, 10**14)
"""The same, in units of the kept keys' mean distance from the dense output: what float64 leaves of sums that
cancel."""

SMALL = Fraction(1, 5 * 10**6)
"""Relative: the most that rounding may add; a fifth of the gap at which an interval counts as closed."""

SHORT = Fraction(1, 2 * 10**11)
"""Relative: by how much a kept set may miss the mass floor; float64 sums of its masses err by less."""

MANTISSA = 53
"""Bits of a float64's mantissa."""

WORDS = {
    replay.BROKEN: "breaks off, or has a code that is none",
    replay.KEY: "branches on a key that is none",
    replay.DEEP: "branches deeper than there are keys to keep",
    replay.MULTIPLIER: "has a negative multiplier",
    replay.OPEN: "ends a node that its direction does not empty",
    replay.EARLY: "ends a node where more than one key is missing",
    replay.HELD: "ends a node of which a set is not refuted",
    replay.SETS: "says that a node has no sets, and it has",
    replay.WORDS: "is the last one needed, and there are more",
}
"""What a verdict says of an event."""

Search = Callable[[Row, int, float, bytes], np.ndarray]


class _Exact(NamedTuple):
    """Keys of positive mass, as the whole numbers their floats are in some unit."""

    masses: np.ndarray  # object [n], in units of 2^unit
    unit: int
    total: int
    centred: np.ndarray  # object [n, d], total (v_j - mu), in units of 2^scale
    scale: int


def check_proof(
    masses: np.ndarray,
    values: np.ndarray,
    s: int,
    lower: float,
    upper: float,
    kept: np.ndarray,
    mass_floor: float | None,
    proof: bytes,
    search: Search | None = None,
) -> str | None:
    """Say what is wrong with a certificate, if anything.

    Parameters
    ----------
    masses : ndarray of float64, shape (N,)
        As stored: zeros included, not normalised; divided by their exact sum.
    values : ndarray of float64, shape (N, d)
    s : int
        Budget.
    lower, upper : float
        No set of `s` keys that meets the floor has a smaller error than `lower`; `kept` has the error
        `upper`, within 1e-12.
    kept : ndarray of int64, shape (s,)
        Ascending positions.
    mass_floor : float or None
        ``rho``: sets count that keep `rho` times the mass of the `s` heaviest keys.
    proof : bytes
        As stored.
    search : callable, optional
        ``(row, s, rho, recipe) -> events``, asked for what a proof leaves out: by default the one
        that wrote it, `ceiling.certify.certificate.stream_of`. What it answers is checked like the rest.

    Returns
    -------
    str or None
        None where all of it is true. Any accepted `lower` is one, whoever wrote the proof.

    Notes
    -----
    Forced error as in section 3 of arXiv 2608.25230.
    """
    rho = mass_floor or 0.0
    try:
        stored = decode(proof)
        if wrong := _not_of(stored, masses, values, s, lower, rho):
            return wrong
        if stored.digest != stored.digest_of(kept, upper):
            return "the proof is not of this set and these bounds, or was changed: its digest differs"
        keys = _exact(masses[masses > 0], values[masses > 0])
        if wrong := _misfit(keys, masses, values, s, lower, upper, kept, rho):
            return wrong
        stream = stored.stream
        if not stored.complete:
            stream = (search or _search)(Row(masses, values), s, rho, stored.recipe)
            if not np.array_equal(skeleton(stream, stored.d), stored.stream):
                return "the search run again does not leave the stored skeleton"
    except ProofError as error:
        return f"proof: {error}"
    verdict, tree, event = replay.replay(stream, _claim(keys, masses[masses > 0], s, lower, rho))
    return None if verdict == replay.PROVED else f"proof: event {event} of subtree {tree} {WORDS[verdict]}"


def _search(row: Row, s: int, rho: float, recipe: bytes) -> np.ndarray:
    """The events that the search writes."""
    from ceiling.certify.certificate import stream_of

    return stream_of(row, s, rho, recipe)


def _not_of(proof: Proof, masses: np.ndarray, values: np.ndarray, s: int, lower: float, rho: float) -> str:
    """What a proof is of, where that is something else."""
    found = (proof.s, proof.d, proof.n, proof.tau, proof.rho)
    wanted = (s, values.shape[1], int(np.count_nonzero(masses)), lower, rho)
    for name, a, b in zip(("s", "d", "n", "bound", "mass floor"), found, wanted, strict=True):
        if a != b:
            return f"the proof is of another {name}: {a!r}, not {b!r}"
    return "" if s < proof.n else f"the row has {proof.n} keys: a budget of {s} needs no proof"


def _misfit(
    keys: _Exact,
    masses: np.ndarray,
    values: np.ndarray,
    s: int,
    lower: float,
    upper: float,
    kept: np.ndarray,
    rho: float,
) -> str:
    """What is wrong with the kept set and its error."""
    if not (0 <= lower <= upper < math.inf):
        return f"the interval {lower!r} .. {upper!r} is none"
    inside = len(kept) == s and (np.diff(kept) > 0).all() and kept[0] >= 0 and kept[-1] < len(masses)
    if not inside or not (masses[kept] > 0).all():
        return f"kept: not {s} ascending positions of keys of positive mass"
    chosen = np.searchsorted(np.flatnonzero(masses > 0), kept)
    mass = int(keys.masses[chosen].sum())
    if mass < Fraction(rho) * (1 - SHORT) * _heaviest(keys, s):
        return f"the kept set misses the mass floor {rho!r}"
    residuals = keys.masses[chosen, None] * keys.centred[chosen]
    unit = Fraction(2) ** keys.scale / (keys.total * mass)
    error = _norm(residuals.sum(axis=0)) * unit
    reach = sum(map(_norm, residuals)) * unit + Fraction(_spread(masses, values))
    if abs(Fraction(upper) - error) > CLOSE * error + min(ROUNDING * reach, SMALL * error):
        return f"the kept set has error {float(error)!r}, not {upper!r}"
    return ""


def _spread(masses: np.ndarray, values: np.ndarray) -> float:
    """Mean distance from the heaviest key's value: what the dense output's rounding is relative to."""
    distances = np.linalg.norm(values - values[np.argmax(masses)], axis=1)
    return float(masses @ distances / masses.sum())


def _norm(vector: np.ndarray) -> Fraction:
    """Euclidean norm of whole numbers, within 2^-64."""
    return Fraction(math.isqrt(sum(int(x) ** 2 for x in vector) << 128), 1 << 64)


def _heaviest(keys: _Exact, s: int) -> int:
    """Mass of the `s` heaviest keys."""
    return int(np.sort(keys.masses)[-s:].sum())


def _whole(numbers: np.ndarray) -> tuple[np.ndarray, int]:
    """Floats as whole numbers of one unit, and its exponent."""
    mantissas, exponents = _split(numbers)
    least = int(exponents[numbers != 0].min(initial=0))
    shifts = np.where(numbers == 0, 0, exponents - least)
    return mantissas.astype(object) << shifts.astype(object), least - MANTISSA


def _exact(masses: np.ndarray, values: np.ndarray) -> _Exact:
    """The row in whole numbers."""
    p, unit = _whole(masses)
    v, scale = _whole(values)
    total = int(p.sum())
    return _Exact(p, unit, total, v * total - p @ v, scale)


def _claim(keys: _Exact, masses: np.ndarray, s: int, lower: float, rho: float) -> replay.Keys:
    """What the replay is of: keys by descending mass, ties to the lower position, in rounded numbers."""
    order = np.argsort(-masses, kind="stable")
    mantissas, exponents = _split(masses[order])
    points, kappas = _points(keys, order)
    units = exponents + 30 - kappas
    shifts = (exponents - exponents[0] + 6).tolist()
    ceilings = [
        m << k if k >= 0 else (m >> min(-k, 63)) + 1 for m, k in zip(mantissas.tolist(), shifts, strict=True)
    ]
    floor = Fraction(rho) * _heaviest(keys, s) * Fraction(2) ** (keys.unit + 61 - int(exponents[0]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    tau, power = _split(np.array([lower]))
    return replay.Keys(
        high=(points >> HALF).astype(np.int32),
        low=(points & LOWER).astype(np.int32),
        mantissas=mantissas << 8,
        exponents=exponents,
        units=units,
        coarsest=np.maximum.accumulate(units[::-1])[::-1].copy(),
        ceilings=np.array(ceilings, dtype=np.int64),
        rank=rank,
        s=s,
        tau=int(tau[0]) << 6,
        scale=int(power[0]) - 28,
        share=math.floor(floor / s),
    )


def _split(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positive floats as ``m 2^(e - 53)``, with ``m < 2^53``, both int64."""
    fractions, exponents = np.frexp(numbers)
    return np.ldexp(fractions, MANTISSA).astype(np.int64), exponents.astype(np.int64)


def _points(keys: _Exact, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances as ``floor(c 2^kappa)``, int64 up to 2^58, and every key's kappa."""
    points, kappas = np.empty(keys.centred.shape, dtype=np.int64), np.empty(len(order), dtype=np.int64)
    for i, j in enumerate(order):
        row = keys.centred[j]
        bits = int(abs(row).max()).bit_length() - keys.total.bit_length() + 1  # the largest is below 2^bits
        power = POINT - bits
        points[i] = (row << power) // keys.total if power >= 0 else row // (keys.total << -power)
        kappas[i] = power - keys.scale
    return points, kappas
