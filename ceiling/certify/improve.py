"""Improvement: the best kept set found anywhere among a row's keys, not in a pool of candidates."""

from math import comb, isfinite
from time import process_time

import numpy as np

from ceiling.kernels import anneal, local
from ceiling.kernels.vectors import padded
from ceiling.objective import TIE, ZERO, CentredRow, centre, largest
from ceiling.problem import Answer, InputError, Row, Status, check_budget

WORK = 1_200_000_000
"""Default limit: rounds times (keys + 300) times (budget + 12), to which their time is about proportional;
0.2 to 0.6 s of one core. On diffuse rows at budgets from 16 on, longer searches still find better sets."""


HEADS, SHORT = 8, 5_000_000
WALKS, LONG = 1, 20_000_000
"""Walks by threshold accepting, and the swaps that each tries at most; 25 ns a swap."""

POLISH = 150
"""Rounds of local search, a walk, in which all ends are polished and the best of them exchanges keys."""

EACH = 250
"""Swaps of a walk, at most: so many times all swaps of one set."""

GOLDEN = 0.6180339887498949
"""Its multiples spread evenly over 0 .. 1."""

LEAST_FLOOR = 1e-6
"""Of mass floors: captured masses carry about 1e-7 relative error, so a smaller one says nothing."""


def improve(
    row: Row, s: int, *, seed: int = 0, rounds: int | None = None, mass_floor: float | None = None
) -> Answer:
    """Best kept set that a local search over all keys finds: an upper bound on ``ES(s)``.

    Parameters
    ----------
    row : Row
    s : int
        Budget: how many keys are kept.
    seed : int
        Of the random restarts; the same seed gives the same answer.
    rounds : int, optional
        Limit of the search: how many sets have all their swaps ranked; by default about half a second.
    mass_floor : float, optional
        ``rho``, 1e-6 to 1: the kept mass is at least `rho` times that of the top-mass set. Without one, the
        best set of a diffuse row often consists of tail keys of negligible mass, which no cache would keep.

    Returns
    -------
    Answer
        ``status`` is ``gap``: a local search proves nothing; or ``trivial`` where the budget keeps every
        key. ``subsets`` counts the swaps ranked, at most; ``ties`` is 1.

    Raises
    ------
    InputError
        Naming the argument and the value that is wrong.

    Notes
    -----
    The error is ``e_S`` of section 3 of arXiv 2608.25230, by direct sums; among the sets found whose errors
    tie within 1e-12 relative, the lexicographically smallest wins.
    """
    s, rho = check_budget(s), check_mass_floor(mass_floor)
    if not isinstance(row, Row):
        raise InputError(f"row: {type(row).__name__}; make one with ceiling.Row(masses, values)")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise InputError(f"seed: {seed!r}; a seed is a whole number, 0 .. 2^63 - 1")
    rounds = default_rounds(row.n_keys, s) if rounds is None else check_budget(rounds, field="rounds")
    if row.n_keys <= s:
        return Answer(0.0, np.flatnonzero(row.masses), 1, 1, Status.TRIVIAL)
    keys = centre(row)
    # copies are writable, whether or not the row's own are: kernels compile once
    error, kept = local.search(
        keys.residuals, keys.masses.copy(), s, least_mass(keys, s, rho), starts(keys, s, rho), seed, rounds,
        TIE, ZERO * keys.sigma,
    )  # fmt: skip
    swaps = s * (row.n_keys - s)
    return Answer(float(error), keys.positions[kept], rounds * swaps, 1, Status.GAP)


def cool(
    row: Row, s: int, error: float, kept: np.ndarray, heads: np.ndarray, seed: int, until: float
) -> tuple[float, np.ndarray]:
    """Error and positions of the best set that walks by threshold accepting meet; there is no mass floor.

    From one set another band of masses is seldom reached, so most walks start in bands of their own.

    Parameters
    ----------
    row : Row
    s : int
        Budget, below the number of keys.
    error : float
        Of `kept`.
    kept : ndarray of int64, shape (s,)
        Best positions known, ascending.
    heads : ndarray of int64
        Positions of keys; `HEADS` walks start at sets whose heaviest key is one of them, `WALKS` longer ones
        at the best set.
    seed : int
    until : float
        Guard, in CPU time of this process.
    """
    keys, random = centre(row), np.random.default_rng(seed)
    residuals, masses = padded(keys.residuals), keys.masses.copy()
    order = np.argsort(-masses, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    best = np.searchsorted(keys.positions, kept)
    places = np.sort(rank[np.searchsorted(keys.positions, heads)])
    n, ends = len(order), [best]
    for walk in range(HEADS + WALKS if len(places) else 0):
        if process_time() > until:
            break
        start, swaps = best, LONG
        if walk < HEADS:
            first = min(int(places[int(walk * GOLDEN % 1 * len(places))]), n - s)
            start, swaps = order[[first, *(first + 1 + random.permutation(n - first - 1)[: s - 1])]], SHORT
        swaps = min(swaps, EACH * s * (n - s))
        lowest, chosen = anneal.anneal(residuals, masses, start, (seed + walk) % 2**31, swaps)
        ends.append(chosen)
        if lowest < error:
            error, best = float(lowest), chosen
    if len(ends) == 1:
        return error, keys.positions[best]
    # A walk ends somewhere near a minimum; its swaps are too few to be all of one set.
    lowest, chosen = local.search(
        keys.residuals, masses, s, 0.0, np.stack(ends), seed, POLISH * len(ends), TIE, ZERO * keys.sigma
    )
    return (float(lowest), keys.positions[chosen]) if lowest < error else (error, keys.positions[best])


def default_rounds(n_keys: int, s: int) -> int:
    """Rounds that take at most about half a second of one core; few for the few sets of a tiny row."""
    return min(WORK // ((n_keys + 300) * (s + 12)) + 100, comb(n_keys, s) + 100)


def check_mass_floor(mass_floor: float | None) -> float:
    """The mass floor ``rho`` as float, 0 where there is none; `InputError` where it is none."""
    if mass_floor is None:
        return 0.0
    number = isinstance(mass_floor, int | float | np.integer | np.floating)
    if (
        isinstance(mass_floor, bool)
        or not number
        or not (isfinite(mass_floor) and LEAST_FLOOR <= mass_floor <= 1)
    ):
        raise InputError(
            f"mass_floor: {mass_floor!r}; a share of the top-mass set's mass, {LEAST_FLOOR:g} .. 1, or None"
        )
    return float(mass_floor)


def least_mass(row: CentredRow, s: int, rho: float) -> float:
    """The kept mass that a floor of `rho` demands; top-mass, summed the same way, always meets it."""
    return rho * float(row.masses[largest(row.masses, s)].cumsum()[-1])


def starts(row: CentredRow, s: int, rho: float) -> np.ndarray:
    """Where the search starts, int64 [k, s]: top-mass and, without a floor, the keys nearest to ``mu``."""
    sets = [largest(row.masses, s)] + ([] if rho else [largest(-row.distances, s)])
    return np.stack(sets).astype(np.int64)
