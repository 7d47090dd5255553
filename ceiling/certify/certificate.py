"""Certificates: a proved interval for the smallest forced error over every kept set of one size."""

import math
import sys
from dataclasses import dataclass, field
from time import process_time

import numpy as np

from ceiling.certify.improve import check_mass_floor, cool, default_rounds, improve
from ceiling.certify.proof import MAX_DIMENSION, MOST_KEPT, encode
from ceiling.certify.refutation import Refutation, Way, read_recipe
from ceiling.objective import ZERO, centre
from ceiling.problem import InputError, Row, Status, check_budget

ENGINE = "certify/5"
"""Name and version of the search; part of what identifies a stored result."""

NODES = 200_000
"""Default limit, 15 to 60 seconds of one core where keys are thousands."""

QUICK, LOOK = 5, 2000
"""The local search first gets one of so many parts of its rounds, and the proof, without a floor, so many
nodes and as many as keys, below `LARGE` twice as many, which suffice for most rows; only where they do not is
all of it made."""

WAYS = ((Way(False, 0.1), 500), (Way(True, 0.0), 500), (Way(False, 3.0), 500), (Way(False, 0.1), 10_000))
LOOKS = 20
"""Under a mass floor each is tried, for so many nodes, and no more than one of so many parts of their limit;
then the first has all that is left."""

LARGE, PATIENCE = 24, 0.5
"""From budgets of so many keys on, rows that resist get walks by threshold accepting, until that share of the
seconds is used: there the local search alone ends up to 40% above the best known. At 16 keys it seldom does,
and proofs miss the time."""

SHARE = 0.8
"""Of the nodes, and of the seconds, that may go into proving optimality; the rest is for a weaker bound."""

FIRST, ATTEMPTS, PART = 0.81, 5, 2
"""Weaker bounds: the share of the best error that is tried first, before bisection; how many are tried; each
may use one of so many parts of what is left of the limits. A bound at 0.8 would come out a hair below it."""


LEAST_GAP = 1e-7
"""A smaller one would be within the rounding of errors that are proved."""

LARGEST = 1e70
"""Of values: products of two squared lengths overflow a little beyond."""


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """A proved interval ``lower <= ES(s) <= upper``, in the units of the values.

    Attributes
    ----------
    lower, upper : float
        No kept set (that meets the mass floor) has a smaller error than `lower`; `kept` has `upper`.
    kept : ndarray of int64, shape (s,)
        Best kept positions known, ascending.
    status : Status
        ``optimal`` (``upper <= lower (1 + gap)``, proved), ``gap``, or ``trivial``.
    nodes : int
        Nodes of the search; the limit that decides.
    seconds : float
        CPU time of this process.
    stopped_by : str
        ``none``, ``nodes``, ``seconds`` (wherever time ended a piece of work: another run may end elsewhere)
        or ``memory``: the bound that was reached has no proof short enough to store, and `lower` is 0.
    mass_floor : float or None
        ``rho``: kept sets must keep ``rho`` times the mass of the top-mass set.
    proof : bytes or None
        What `ceiling.certify.check` replays.
    """

    lower: float
    upper: float
    kept: np.ndarray
    status: Status
    nodes: int
    seconds: float
    stopped_by: str
    mass_floor: float | None
    proof: bytes | None = field(repr=False)  # up to a megabyte


def certify(
    row: Row,
    s: int,
    *,
    nodes: int = NODES,
    seconds: float = 60.0,
    gap: float = 1e-6,
    mass_floor: float | None = None,
    seed: int = 0,
) -> Certificate:
    """Prove an interval for the smallest forced error over all kept sets of size `s`.

    A local search over all keys gives the upper bound; branch and bound refutes every error below it, or,
    where the limits stop that, below the largest share of it that a few attempts reach.

    Parameters
    ----------
    row : Row
    s : int
        Budget: how many keys are kept.
    nodes : int
        Limit of the search. It decides: the same call gives the same certificate.
    seconds : float
        Guard, in CPU time of this process; where it strikes (``stopped_by``), another run may end elsewhere.
    gap : float
        Relative: up to which an interval is called optimal.
    mass_floor : float, optional
        ``rho`` in (0, 1]: the kept mass is at least `rho` times that of the top-mass set. Without one, the
        best set of a diffuse row often consists of tail keys of negligible mass, which no cache would keep.
    seed : int
        Of the local search.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        Naming the argument and the value that is wrong.

    Notes
    -----
    The error is ``e_S`` of arXiv 2608.25230, section 3. The instance is the row's numbers, read as exact
    rationals, its masses divided by their exact sum; bounds are float64 sums with a margin above their
    rounding, and the proof is replayed in integers (`ceiling.certify.check.check_proof`).
    """
    s, rho = check_budget(s), check_mass_floor(mass_floor)
    check_budget(nodes, field="nodes")
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise InputError(f"seconds: {seconds!r} is no positive length of time")
    if not (isinstance(gap, int | float) and LEAST_GAP <= gap < 1):
        raise InputError(f"gap: {gap!r} is not in {LEAST_GAP:g} .. 1 (1 excluded); it is relative, e.g. 1e-6")
    _check_size(row, s)
    limits, search = _Limits(nodes, seconds), None

    def ends(lower: float, status: Status, stopped_by: str, proof: bytes | None = None) -> Certificate:
        used = limits.used(search)
        return Certificate(lower, upper, kept, status, used, limits.elapsed, stopped_by, mass_floor, proof)

    rounds = default_rounds(row.n_keys, s)
    answer = improve(row, s, seed=seed, rounds=max(rounds // QUICK, 1), mass_floor=mass_floor)
    upper, kept = answer.error, answer.kept
    if answer.status == Status.TRIVIAL:
        return ends(0.0, Status.TRIVIAL, "none")
    if upper <= ZERO * centre(row).sigma:
        return ends(0.0, Status.GAP, "none")  # rounding of zero: there is nothing below to refute
    way, look = WAYS[0]
    search = Refutation(row, s, rho, gap, upper * (1 - gap / 4), way)
    if not search.resolves(upper, kept):
        return ends(0.0, Status.GAP, "none")
    look = min(look, nodes // LOOKS) if rho else (1 if s >= LARGE else 2) * row.n_keys + LOOK
    upper, kept = _prove(search, limits, upper, kept, SHARE, look)
    for way, look in WAYS[1:]:
        if search.refuted or not rho:
            break
        limits.spent += search.nodes
        search = Refutation(row, s, rho, gap, upper * (1 - gap / 4), way)
        upper, kept = _prove(search, limits, upper, kept, SHARE, min(look, nodes // LOOKS))
    left = nodes - limits.used(search)
    thorough, weaker = s >= LARGE and not rho and left > row.n_keys, None
    if not search.refuted:
        answer = improve(row, s, seed=seed, rounds=rounds, mass_floor=mass_floor)
        upper, kept = min((upper, kept), (answer.error, answer.kept), key=lambda found: found[0])
        if thorough:
            until = limits.start + PATIENCE * seconds
            upper, kept = cool(row, s, upper, kept, search.survivors(), seed, until)
            limits.late |= process_time() > until
        if upper <= ZERO * centre(row).sigma:
            return ends(0.0, Status.GAP, "none")
        if rho:
            limits.spent += search.nodes
            search = Refutation(row, s, rho, gap, upper * (1 - gap / 4), WAYS[0][0])
        else:
            search.aim(upper * (1 - gap / 4))  # the subtree that was ended begins anew
        if thorough:
            mark = search.mark()
            search.aim(upper * FIRST)
            upper, kept = _prove(search, limits, upper, kept, 1 / PART)
            weaker = search.mark() if search.refuted else None
            search.back(mark, upper * (1 - gap / 4))
        if weaker or not thorough:
            upper, kept = _prove(search, limits, upper, kept, SHARE)
    stopped_by = "none" if search.refuted else limits.struck
    if not search.refuted:
        high = 1.0 if weaker or not thorough else FIRST
        upper, kept = _prove_less(search, limits, upper, kept, high, weaker)
    stopped_by = "seconds" if limits.late else stopped_by
    if not (search.refuted and search.resolved):
        return ends(0.0, Status.GAP, stopped_by)
    lower = search.tau * (1 - gap / 4)  # at the leaves of a proof directions are rounded
    proof = _encoded(search, rho, lower, upper, kept)
    if proof is None and weaker is not None and search.tau > weaker[1]:
        search.back(weaker)
        lower = search.tau * (1 - gap / 4)
        proof = _encoded(search, rho, lower, upper, kept)
    if proof is None:
        return ends(0.0, Status.GAP, "memory")
    if upper <= lower * (1 + gap):
        return ends(lower, Status.OPTIMAL, "none", proof)
    return ends(lower, Status.GAP, stopped_by, proof)


def _encoded(search: Refutation, rho: float, lower: float, upper: float, kept: np.ndarray) -> bytes | None:
    d, n = search.width, len(search.positions)
    return encode(
        search.stream, search.s, d, n, lower, rho, kept, upper, search.recipe, complete=search.complete
    )


def _check_size(row: Row, s: int) -> None:
    """`InputError` where a proof cannot name so many keys or dimensions, or products would overflow."""
    if not isinstance(row, Row):
        raise InputError(f"row: {type(row).__name__}; make one with ceiling.Row(masses, values)")
    if s > MOST_KEPT:
        raise InputError(f"s: {s}; at most {MOST_KEPT} keys are certified")
    if row.values.shape[1] > MAX_DIMENSION:
        raise InputError(f"values: dimension {row.values.shape[1]}; at most {MAX_DIMENSION} is certified")
    if (largest := float(np.abs(row.values).max())) > LARGEST:
        raise InputError(
            f"values: the largest is {largest:g}; rescale it below {LARGEST:g}, errors scale along"
        )


class _Limits:
    """Nodes and CPU time of a certificate; `take` hands out a share of what is left."""

    def __init__(self, nodes: int, seconds: float) -> None:
        self.start = process_time()
        self._nodes, self._end = nodes, self.start + seconds
        self.spent, self.quota, self.until, self.struck = 0, 0, 0.0, "none"
        self.late = False  # whether time has ended a piece of work: another run may end elsewhere

    @property
    def elapsed(self) -> float:
        """CPU seconds so far."""
        return process_time() - self.start

    def used(self, search: Refutation | None) -> int:
        """Nodes so far, those of a search that was given up included."""
        return self.spent + (search.nodes if search else 0)

    def take(self, search: Refutation, share: float, most: int) -> bool:
        """Set `quota`, in nodes of `search`, and `until`; False where nothing is left."""
        now, left = process_time(), self._nodes - self.used(search)
        self.struck = "nodes" if left <= 0 else "seconds"
        self.quota = search.nodes + min(max(int(left * share), 1), most)
        self.until = now + (self._end - now) * share
        self.late |= left > 0 and now >= self._end
        return left > 0 and now < self._end

    def reached(self, nodes: int) -> bool:
        """Whether a limit ends this piece of work, and which, in `struck`."""
        self.struck = "nodes" if nodes >= self.quota else "seconds" if process_time() > self.until else "none"
        self.late |= self.struck == "seconds"
        return self.struck != "none"


def _prove(
    search: Refutation, limits: _Limits, upper: float, kept: np.ndarray, share: float, most: int = sys.maxsize
) -> tuple[float, np.ndarray]:
    """Refute the subtrees that are left within a share of the limits; returns the best set known."""
    if limits.take(search, share, most):
        for error, better in search.refute(limits):
            if error < upper:
                upper, kept = error, better
    return upper, kept


def _prove_less(
    search: Refutation, limits: _Limits, upper: float, kept: np.ndarray, high: float, best: tuple | None
) -> tuple[float, np.ndarray]:
    """Refute the largest threshold that the rest of the limits allows, by bisection.

    Below the share `high` of the best error; if there is `best`, where a search stood that has refuted
    `FIRST`, above that.
    """
    low = FIRST if best else 0.0
    share = (low + high) / 2 if best or high < 1 else FIRST
    mark = search.mark()
    for _ in range(ATTEMPTS):
        search.back(mark, upper * share)
        upper, kept = _prove(search, limits, upper, kept, 1 / PART)
        low, high = (share, high) if search.refuted else (low, share)
        if search.refuted and (best is None or search.tau > best[1]):
            best = search.mark()
        if search.refuted and search.tau >= upper * (1 - search.gap / 4):
            break  # a better set was met on the way, and proved to be the best
        share = (low + high) / 2
    if best is not None:
        search.back(best)
    return upper, kept


def stream_of(row: Row, s: int, rho: float, recipe: bytes) -> np.ndarray:
    """All events of the search that went as a proof's recipe says, with their directions, int16.

    The same directions are found again, on any machine: sums run in one order (`ceiling.kernels.vectors`).
    """
    gap, way, schedule = read_recipe(recipe)
    search = Refutation(row, s, rho, gap, schedule[0][1], way, directions=True)
    for subtree, tau in schedule[1:]:
        for _ in search.refute(None, subtree):
            pass
        search.aim(tau)
    for _ in search.refute(None):
        pass
    return search.stream
