"""What a rule may see when it has to choose."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ceiling.problem import InputError

if TYPE_CHECKING:
    from ceiling.selectors.kv_head import KVHead

T = TypeVar("T")
Reading = Literal["per-query", "cache"]
READINGS: tuple[Reading, ...] = ("per-query", "cache")
"""When a set is chosen: anew with sight of the query, or before it comes."""


class Sight:
    """One KV head as it stands when a rule has to choose; made by `KVHead.sight`.

    Arrays end with the last query that has been: in reading ``per-query`` the query itself, in reading
    ``cache`` the one before it, so a rule cannot look at what it must not know. In reading ``per-query`` a
    rule sees one query head (``h = 1``), in reading ``cache`` all of the group (``h = g``). Arrays are
    shared between rules and must not be written to.

    Attributes
    ----------
    reading : {"per-query", "cache"}
    position : int
        Last position seen; ``n = position + 1`` keys are there.
    head : int or None
        Index of the query head in its group; None in reading ``cache``, which is for all of them.
    window : int or None
        Keys a query of this layer sees at most; None where it sees all before it.
    scaling : float
        Factor on ``q·k``.
    appended : int
        Keys that join the chosen ones later: in reading ``cache`` the coming query's own (1), else 0. A
        rule whose parameters depend on the budget takes it as what it is asked for plus this.
    first : int
        Lowest position that the query, or the one to come, can see.
    candidates : ndarray of int64, ascending
        Positions that may be chosen: those the query can see, and in reading ``per-query`` with positive
        mass.
    """

    def __init__(
        self,
        source: "KVHead",
        reading: Reading,
        position: int,
        head: int | None,
        first: int,
        candidates: np.ndarray,
    ) -> None:
        self._source = source
        self.reading = reading
        self.position = position
        self.head = head
        self.first = first
        self.candidates = candidates
        self.window, self.scaling = source.window, source.scaling
        self.appended = 1 if reading == "cache" else 0
        self._heads = slice(None) if head is None else slice(head, head + 1)

    def __repr__(self) -> str:
        return f"Sight({self.reading}, position {self.position}, head {self.head})"

    @property
    def n(self) -> int:
        """Keys that are there, visible or not."""
        return self.position + 1

    @property
    def keys(self) -> np.ndarray:
        """Keys after rotation, float32 [n, d]."""
        return self._source.keys[: self.n]

    @property
    def values(self) -> np.ndarray:
        """Values, float32 [n, d]."""
        return self._source.values[: self.n]

    @property
    def queries(self) -> np.ndarray:
        """Queries after rotation, float32 [h, n, d]; InputError where the dump has none."""
        return self._source.queries()[self._heads, : self.n]

    @cached_property
    def masses(self) -> np.ndarray:
        """Attention of the last query seen, float64 [n], sums to 1; in reading ``cache`` its mean over h."""
        if self.head is not None:
            return self._source.row(self.head, self.position)
        masses = self.attention(self.position, self.position + 1).mean(axis=(0, 1), dtype=np.float64)
        masses.flags.writeable = False
        return masses

    @property
    def group_masses(self) -> np.ndarray:
        """Attention of the last query seen of every query head of the group, float64 [g, n]."""
        if self.head is None:
            return self.attention(self.position, self.position + 1)[:, 0].astype(np.float64)
        return np.stack([self._source.row(head, self.position) for head in range(self._source.group)])

    def attention(self, first: int, last: int) -> np.ndarray:
        """Attention rows of the queries ``first .. last - 1``, float32 [h, last - first, n].

        Recomputed from queries and keys: causal, windowed and soft-capped as the model does it.

        Raises
        ------
        InputError
            Where the dump has no queries, or the queries have not been.
        """
        if not 0 <= first < last <= self.n:
            raise InputError(f"attention: queries {first}..{last - 1} are not all in 0..{self.n - 1}")
        rows = self._source.attention(first, last)[self._heads]
        if last == self.n:
            return rows
        return np.pad(rows, ((0, 0), (0, 0), (0, self.n - last)))

    def received(self, before: int | None = None) -> np.ndarray:
        """Attention that each key received from the queries ``0 .. before - 1``, float64 [h, n].

        From all that have been where `before` is None; `InputError` as in `attention`.
        """
        before = self.n if before is None else before
        if not 0 <= before <= self.n:
            raise InputError(f"received: before = {before} is not in 0..{self.n}")
        return self._source.received(before)[self._heads, : self.n]

    def shared(self, key: Hashable, compute: Callable[[np.ndarray, np.ndarray], T]) -> T:
        """``compute(keys, values)`` of all keys and values of the KV head, once for all sights of it.

        For what costs much and many queries share. `key` names the result and holds all that it depends
        on. Keys beyond ``n`` are among them: not to be looked at.
        """
        return self._source.shared(key, compute)
