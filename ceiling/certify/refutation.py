"""Refutation: proving that no kept set has an error below a threshold, subtree by subtree.

Without a mass floor one subtree holds the sets whose heaviest key is the a-th heaviest, for every a: with no
key kept the relaxation is 0, as residuals sum to 0. With a floor one subtree holds all sets; or they are
split in the same way, which as events is a chain of branchings on ever lighter keys, until the floor ends it.
"""

import math
import struct
from collections.abc import Iterator
from math import fsum
from typing import NamedTuple, Protocol

import numpy as np

from ceiling.certify.proof import ProofError, skeleton
from ceiling.kernels import gains, local, tree
from ceiling.kernels.bound import MARGIN, Keys, lengths
from ceiling.kernels.vectors import WIDTH, padded
from ceiling.objective import TIE
from ceiling.problem import Row

CHUNK = 1000
"""Nodes between looks at the clock, and at Ctrl-C: a third of a second at most."""

WORDS = 1 << 16
"""Words of events held before they are taken away."""

MOST_WORDS = 700_000
"""Words of events with directions kept; longer proofs are stored without. About 1.3 MB, little of which
compression saves."""

POLISH = 30
"""Rounds of local search from a better set that the tree has met."""

ROUNDING = 1e-3
"""What a norm is raised by, in units of mass times the distances that were subtracted to make the residual:
of which the margin of a bound, 1e-12 of the norms (`kernels.bound`), is then nine roundings."""


ENTRY = struct.Struct("<id")
"""A subtree and the threshold set there."""


class Way(NamedTuple):
    """How sets that miss the mass floor are kept out of the relaxation.

    Attributes
    ----------
    split : bool
        Whether sets are split by their heaviest key.
    pull : float
        Weight of a shortfall of mass, in median distances from the dense output. No weight is good on all
        rows: 10 needs a thousand times as many nodes as 0 on some, 0 as many as 3 on others.
    """

    split: bool
    pull: float


def read_recipe(recipe: bytes) -> tuple[float, Way, list[tuple[int, float]]]:
    """Gap, way and schedule of a `Refutation`; `ProofError` where `recipe` is none."""
    try:
        gap, *way = struct.unpack_from("<d?d", recipe)
        schedule = list(ENTRY.iter_unpack(recipe[struct.calcsize("<d?d") :]))
    except struct.error:
        raise ProofError("it does not say how the search went") from None
    subtrees, thresholds = [a for a, _ in schedule], [tau for _, tau in schedule]
    if not 0 < gap < 1 or subtrees[:1] != [-2] or subtrees != sorted(set(subtrees)):
        raise ProofError("it does not say how the search went")
    if not all(0 < tau < math.inf for tau in thresholds) or not 0 <= way[1] < math.inf:
        raise ProofError("it does not say how the search went")
    return gap, Way(*way), schedule


class Limits(Protocol):
    """What ends a piece of work."""

    quota: int

    def reached(self, nodes: int) -> bool:
        """Whether it is to end, at `nodes` in all."""


class Refutation:
    """The search of one row at one budget.

    Parameters
    ----------
    row : Row
    s : int
        Budget, below the number of keys.
    rho : float
        Mass floor; 0 is none.
    gap : float
        Relative: a quarter of it is how far below a better set's error the threshold goes.
    tau : float
        First threshold, positive; it also decides the order of the keys.
    way : Way
        How a floor is met.
    directions : bool
        Whether all directions are kept, however long the proof.

    Attributes
    ----------
    positions : ndarray of int64, shape (n,)
        Of the keys of positive mass, ascending; events name keys by their place in it.
    schedule : list of (int, float)
        The first threshold, beside -2; then the subtrees from which on one was set, and that threshold.
    recipe : bytes
        Gap, way and schedule, from which the same events follow again.
    resolved : bool
        Whether all sets met had errors well above their rounding; if not, nothing is proved.
    complete : bool
        Whether the events carry their directions; once too many, they do not.
    """

    def __init__(
        self, row: Row, s: int, rho: float, gap: float, tau: float, way: Way, directions: bool = False
    ) -> None:
        self.positions = np.flatnonzero(row.masses)
        self.s, self.rho, self.gap, self.way = s, rho, gap, way
        masses, values = row.masses[self.positions], row.values[self.positions]
        n, self.width = values.shape
        self._masses = masses
        self._residuals, offsets = _centred(masses, values)
        vectors = padded(self._residuals)
        heaviest = np.argsort(-masses, kind="stable")
        self._least = rho * float(masses[np.sort(heaviest[:s])].cumsum()[-1])
        norms = lengths(vectors)
        self._pull = (way.pull * float(np.median(norms / masses))) ** 2 if rho else 0.0
        norms = self._norms = (norms + ROUNDING * masses * offsets) * (1 + 1e-12)
        self._order = np.argsort(-(norms + tau * masses), kind="stable")
        scale = max(float(norms.max()), np.finfo(float).tiny)
        rough = padded((self._residuals[self._order] / scale).astype(np.float32), 2 * WIDTH)
        self._keys = Keys(
            vectors[self._order], masses[self._order], norms[self._order], _tails(norms[self._order]),
            _tails(masses[self._order]), rough, scale,
        )  # fmt: skip
        ranks = np.empty(n, dtype=np.int64)
        ranks[heaviest] = np.arange(n)
        self._ranks, place = ranks[self._order], np.empty(n, dtype=np.int64)
        place[self._order] = np.arange(n)
        self._by_mass = place[heaviest]
        self._heaviest = heaviest
        self._subtrees = range(n - s + 1)
        if rho:
            most = np.convolve(masses[heaviest], np.ones(s), "valid")  # of sets no heavier key is in
            last = int(np.count_nonzero(most >= self._least * (1 - 2 * MARGIN)))
            self._subtrees = range(last) if way.split else range(-1, 0)
        self._search = tree.begin(n, vectors.shape[1], rough.shape[1], s)
        self._events = np.zeros(WORDS + 64 * (self.width + 8), dtype=np.int16)
        self._parts: list[np.ndarray] = []
        self._words, self._all, self.complete = 0, directions, True
        self.resolved = True
        self._next, self.schedule = self._subtrees.start, [(-2, tau)]
        self.aim(tau)

    @property
    def nodes(self) -> int:
        """Nodes visited so far."""
        return int(self._search.whole[tree.NODES])

    @property
    def tau(self) -> float:
        """The threshold."""
        return float(self._search.real[tree.TAU])

    @property
    def stream(self) -> np.ndarray:
        """Events of the subtrees refuted so far, int16."""
        return np.concatenate([np.zeros(0, dtype=np.int16), *self._parts])

    @property
    def recipe(self) -> bytes:
        """See above."""
        way = struct.pack("<d?d", self.gap, *self.way)
        return way + b"".join(ENTRY.pack(*entry) for entry in self.schedule)

    @property
    def refuted(self) -> bool:
        """Whether no subtree is left."""
        return self._next == self._subtrees.stop

    def survivors(self) -> np.ndarray:
        """Positions of the keys that, as the heaviest of a better set, one node does not refute."""
        open_keys = []
        for a in self._subtrees:
            key = int(self._by_mass[a]) if a >= 0 else 0
            tree.open_subtree(self._keys, self._search, self._ranks, a, key, self.s)
            end = tree.walk(
                self._keys, self._search, self._order, self.width, self._least, self._pull, self.nodes + 1,
                False, self._events,
            )  # fmt: skip
            self._search.whole[tree.CURSOR] = 0
            if end != tree.EMPTY:
                open_keys.append(self._order[key])
        self.aim(self.tau)
        return self.positions[np.array(open_keys, dtype=np.int64)]

    def aim(self, tau: float) -> None:
        """Refute `tau` from here on; what is known of the last root is forgotten."""
        self.schedule = [(a, t) for a, t in self.schedule if a != self._next] + [(self._next, tau)]
        self._search.real[tree.TAU] = tau
        self._search.whole[tree.ROOTED] = 0
        self._search.root[2][:] = 0.0
        gains.forget(self._search.gains)

    def mark(self) -> tuple:
        """Where the search stands, for `back`."""
        return self._next, self.tau, self.complete, self._words, list(self._parts), list(self.schedule)

    def back(self, mark: tuple, tau: float | None = None) -> None:
        """Return to where the search stood, and aim at `tau`, if given."""
        self._next, self._search.real[tree.TAU], complete, self._words, parts, schedule = mark
        self._parts, self.schedule = list(parts), list(schedule)
        if complete != self.complete:
            self._parts = [skeleton(part, self.width) for part in parts]
        if tau is not None:
            self.aim(tau)

    def refute(self, limits: Limits | None, stop: int | None = None) -> Iterator[tuple[float, np.ndarray]]:
        """Refute subtree after subtree, before `stop`, until the limits are reached, if there are any.

        Yields error and positions of a set each time one is met that is not refuted; the threshold then goes
        below its error, and what was refuted before stays so. The events of a subtree that a limit ended are
        dropped.
        """
        while self._next < (self._subtrees.stop if stop is None else stop):
            key = int(self._by_mass[self._next]) if self._next >= 0 else 0
            tree.open_subtree(self._keys, self._search, self._ranks, self._next, key, self.s)
            before, words, end = len(self._parts), self._words, tree.MORE
            if self.rho and self.way.split:
                low, high = self._heaviest[self._next] % 32768, self._heaviest[self._next] // 32768
                self._parts.append(np.array([tree.BRANCH, low, high], dtype=np.int16))
            while end != tree.EMPTY:
                quota = self.nodes + CHUNK if limits is None else min(limits.quota, self.nodes + CHUNK)
                end = tree.walk(
                    self._keys, self._search, self._order, self.width, self._least, self._pull, quota,
                    self.complete, self._events,
                )  # fmt: skip
                self._take_events()
                if end == tree.BETTER:
                    yield self._polished(np.sort(self._order[self._search.best]))
                elif end == tree.MORE and limits is not None and limits.reached(self.nodes):
                    del self._parts[before:]
                    self._words = words
                    return
            self._next += 1
            if self.rho and self.way.split and self.refuted:
                self._parts.append(np.array([tree.NONE], dtype=np.int16))

    def _polished(self, met: np.ndarray) -> tuple[float, np.ndarray]:
        """A set met by the search, after a short local search; the threshold goes below its error."""
        error, kept = local.search(
            self._residuals, self._masses, self.s, self._least * (1 - 2 * MARGIN), met[None], 0, POLISH,
            TIE, 0.0,
        )  # fmt: skip
        self._search.real[tree.TAU] = min(self.tau, error * (1 - self.gap / 4))
        self.resolved &= self.resolves(error, self.positions[kept])
        return float(error), self.positions[kept]

    def resolves(self, error: float, kept: np.ndarray) -> bool:
        """Whether rounding leaves the error of a set more digits than the gap needs."""
        places = np.searchsorted(self.positions, kept)
        rounding = MARGIN * float(self._norms[places].sum())
        return rounding <= error * float(self._masses[places].sum()) * self.gap / 8

    def _take_events(self) -> None:
        end = int(self._search.whole[tree.CURSOR])
        if end:
            self._parts.append(self._events[:end].copy())
            self._words += end
            self._search.whole[tree.CURSOR] = 0
        if self.complete and not self._all and self._words > MOST_WORDS:
            self._parts = [skeleton(part, self.width) for part in self._parts]
            self.complete = False


def _tails(numbers: np.ndarray) -> np.ndarray:
    """The largest of each number and all later ones."""
    return np.maximum.accumulate(numbers[::-1])[::-1].copy()


def _centred(masses: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals about the dense output, summed exactly, and the distances they are differences of."""
    shifted = values - values[np.argmax(masses)]
    total = fsum(masses)
    mean = np.array([fsum(column) for column in (masses[:, None] * shifted).T]) / total
    offsets = lengths(padded(shifted))
    offsets += fsum(masses * offsets) / total  # bounds the mean and, times eps, its rounding
    return masses[:, None] * (shifted - mean), offsets
