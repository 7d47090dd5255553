"""One KV head of a document: what its rules see, computed once for all of them."""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ceiling.problem import MASS_SUM_TOLERANCE, InputError
from ceiling.selectors.attention import weights
from ceiling.selectors.sight import READINGS, Reading, Sight

T = TypeVar("T")

BLOCK = 64
"""Queries whose attention is formed at once where it is summed: their logits stay in cache."""

TAIL = 16
"""Queries before a sampled one whose attention is formed at once, then as many again as there are. Fixed, so
that what a rule sees, to the last bit, does not depend on what was asked for before."""


class KVHead:
    """Keys, values and queries of one KV head, and the captured rows of its query heads.

    Parameters
    ----------
    keys, values : ndarray of float32, shape (N, d)
        Keys after rotation.
    queries : ndarray of float32, shape (g, N, d), or None
        Queries after rotation, of the query heads that read this KV head.
    masses : ndarray of float32 or float64, shape (g, rows, N)
        Captured softmax rows; 0 where a key is not visible.
    positions : sequence of int
        Of the rows, ascending.
    window : int or None
        Keys a query sees at most, its own included; None where it sees all before it.
    scaling : float
        Factor on ``q·k``.
    soft_cap : float or None
        Bound of the logits, where the model has one.

    Raises
    ------
    InputError
        When shapes or positions do not agree.
    """

    def __init__(
        self,
        keys: np.ndarray,
        values: np.ndarray,
        queries: np.ndarray | None,
        masses: np.ndarray,
        positions: Sequence[int] | np.ndarray,
        window: int | None = None,
        scaling: float = 1.0,
        soft_cap: float | None = None,
    ) -> None:
        self.positions = [int(p) for p in positions]
        self.group, self.length = len(masses), len(keys)
        _check_shapes(keys, values, queries, masses, self.positions)
        self.keys, self.values = _frozen(keys), _frozen(values)
        self._queries = None if queries is None else _frozen(queries)
        self._masses = masses
        self.window, self.scaling, self.soft_cap = window, scaling, soft_cap
        self._made: dict[Hashable, Any] = {}
        self._tails: dict[int, np.ndarray] = {}
        self._received: dict[int, np.ndarray] = {}

    def sight(self, head_in_group: int, r: int, reading: Reading) -> Sight:
        """What a rule may see at the `r`-th sampled query; in reading ``cache`` one for the whole group."""
        if reading not in READINGS:
            raise InputError(f"reading: {reading!r}; one of {', '.join(READINGS)}")
        for field, value, stop in (("head", head_in_group, self.group), ("row", r, len(self.positions))):
            if not 0 <= value < stop:
                raise InputError(f"{field}: {value} is outside 0..{stop - 1}")
        position, head = self.positions[r], head_in_group if reading == "per-query" else None
        return self._once(("sight", position, head), lambda: self._sight(reading, position, head))

    def _sight(self, reading: Reading, position: int, head: int | None) -> Sight:
        first = 0 if self.window is None else max(0, position + 1 - self.window)
        if head is None:
            return Sight(self, reading, position - 1, None, first, _frozen(np.arange(first, position)))
        candidates = np.flatnonzero(self.row(head, position))
        return Sight(self, reading, position, head, first, _frozen(candidates))

    def row(self, head: int, position: int) -> np.ndarray:
        """The captured row of a query head at a sampled position, float64 [position + 1], sums to 1."""

        def normalised() -> np.ndarray:
            r = self.positions.index(position)
            row = self._masses[head, r, : position + 1].astype(np.float64)
            total = row.sum()
            if not abs(total - 1) <= MASS_SUM_TOLERANCE:
                raise InputError(f"masses: the row of position {position} sums to {total:.6g}, not 1")
            return _frozen(row / total)

        return self._once(("row", head, position), normalised)

    def queries(self) -> np.ndarray:
        """Queries of the group, float32 [g, N, d]; InputError where there are none."""
        if self._queries is None:
            raise InputError("queries: the dump has none, which this rule needs; capture it with --queries")
        return self._queries

    def shared(self, key: Hashable, compute: Callable[[np.ndarray, np.ndarray], T]) -> T:
        """``compute(keys, values)``, kept under `key`."""
        return self._once(("shared", key), lambda: compute(self.keys, self.values))

    def attention(self, first: int, last: int) -> np.ndarray:
        """Attention rows of the queries ``first .. last - 1``, float32 [g, last - first, last]."""
        for anchor in (last - 1, last):  # windows end with a sampled query, or with the one before it
            if anchor in self.positions:
                tail = self._tail(anchor, first)
                start = anchor + 1 - tail.shape[1]
                return tail[:, first - start : last - start, :last]
        return _frozen(self._rows(first, last))

    def received(self, before: int) -> np.ndarray:
        """Attention that each key received from the queries ``0 .. before - 1``, float64 [g, N].

        Summed from the sampled query before, where the sum is kept: one pass over the text serves them all.
        """
        if before not in self._received:
            stops = {stop for p in self.positions for stop in (p, p + 1) if 0 < stop < before}
            for start, stop in pairwise([0, *sorted(stops), before]):
                if stop not in self._received:
                    self._received[stop] = _frozen(self._add(start, stop))
        return self._received[before]

    def _add(self, start: int, stop: int) -> np.ndarray:
        """`received` before `stop`, from what it is before `start`."""
        total = self._received[start].copy() if start else np.zeros((self.group, self.length))
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            lowest, rows, sums = self._weights(first, last)
            total[:, lowest:last] += ((1 / sums)[:, None] @ rows)[:, 0]
        return total

    def _tail(self, position: int, first: int) -> np.ndarray:
        """Attention rows of the queries up to `position`, from `first` or earlier on."""
        tail = self._tails.get(position)
        if tail is None:
            tail = self._rows(max(0, position - TAIL), position + 1)
        while (start := position + 1 - tail.shape[1]) > first:
            more = self._rows(max(0, start - tail.shape[1] + 1), start, position + 1)
            tail = np.concatenate((more, tail), axis=1)
        self._tails[position] = _frozen(tail)
        return tail

    def _rows(self, first: int, last: int, length: int | None = None) -> np.ndarray:
        """Attention rows of the queries ``first .. last - 1``, float32 [g, last - first, length or last]."""
        lowest, rows, sums = self._weights(first, last)
        rows /= sums[..., None]
        return np.pad(rows, ((0, 0), (0, 0), (lowest, (length or last) - last)))

    def _weights(self, first: int, last: int) -> tuple[int, np.ndarray, np.ndarray]:
        return weights(
            self.queries(),
            self.keys,
            first,
            last,
            scaling=self.scaling,
            window=self.window,
            soft_cap=self.soft_cap,
        )

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made


def _frozen(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to: rules share it."""
    view = array.view()
    view.flags.writeable = False
    return view


def _check_shapes(
    keys: np.ndarray, values: np.ndarray, queries: np.ndarray | None, masses: np.ndarray, positions: list[int]
) -> None:
    if keys.ndim != 2 or len(keys) == 0:
        raise InputError(f"keys: shape {keys.shape}, expected (N, d)")
    n, d = keys.shape
    if values.ndim != 2 or len(values) != n:
        raise InputError(f"values: shape {values.shape}, expected ({n}, d) as there are {n} keys")
    if masses.ndim != 3 or masses.shape[1:] != (len(positions), n):
        raise InputError(
            f"masses: shape {masses.shape}, expected (g, {len(positions)}, {n}): positions, keys"
        )
    if queries is not None and queries.shape != (len(masses), n, d):
        raise InputError(f"queries: shape {queries.shape}, expected ({len(masses)}, {n}, {d})")
    for a, b in pairwise([-1, *positions, n]):
        if a >= b:
            raise InputError(f"positions: {positions} must ascend within 0..{n - 1}")
