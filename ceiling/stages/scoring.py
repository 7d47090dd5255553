"""One document and layer under many rules: the kept set of every rule at every row, and its forced error."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ceiling.dump import Document, Dump, tokens_sha256
from ceiling.kernels import rows
from ceiling.objective import ranked
from ceiling.problem import MASS_SUM_TOLERANCE, InputError
from ceiling.search import DEGENERATE, head_of
from ceiling.search.batch import Batch, Head
from ceiling.search.candidates import kept_positions, search
from ceiling.selectors import SELECTORS, KVHead, Reading, Selector
from ceiling.selectors.registry import BALANCING as BALANCING

TOP_MASS = "top-mass"

UNIFORM = "uniform"
"""The allocation of everything but the allocation panel."""

SHARED = frozenset({"group-vote"})
"""Selectors that give all query heads of a KV head one set also in reading per-query."""

IDENTICAL = "tova"
"""Keeps the top-mass set in reading per-query by its own definition: checked at every row."""


class Entry(NamedTuple):
    """One kept set of every row: of a name, in a reading, at a budget, under an allocation.

    `selector` is None for top-mass and balancing, whose sets come with the description of a row.
    """

    name: str
    reading: Reading
    s: int
    allocation: str = UNIFORM
    selector: Selector | None = None


class Work(NamedTuple):
    """What is asked of one document and layer.

    Attributes
    ----------
    dump : Dump
    document : Document
    layer : int
    entries : sequence of Entry
    extras : mapping of int to int
        Candidates of balancing beside the top-mass set, by budget.
    spread : mapping of (str, int) to ndarray of int64, shape (heads, rows)
        How many keys each row keeps, by allocation and budget.
    """

    dump: Dump
    document: Document
    layer: int
    entries: Sequence[Entry]
    extras: Mapping[int, int]
    spread: Mapping[tuple[str, int], np.ndarray]


@dataclass(frozen=True, eq=False, slots=True)
class Described:
    """A row as its sets are scored.

    Attributes
    ----------
    masses : ndarray of float64, shape (n,)
        They sum to 1.
    leading : ndarray of int64, shape (k,)
        The keys of largest positive mass, descending: as many as the largest set has, or all there are.
    origin, mean : ndarray of float64, shape (d,)
        The heaviest key's value, and the dense output relative to it.
    n_keys : int
        Keys of positive mass.
    sigma : float
    dropped : ndarray of float64, shape (budgets,)
        Mass outside the top-mass set.
    """

    masses: np.ndarray
    leading: np.ndarray
    origin: np.ndarray
    mean: np.ndarray
    n_keys: int
    sigma: float
    dropped: np.ndarray

    def top(self, count: int) -> np.ndarray:
        """The top-mass set of `count` keys, ascending."""
        return np.sort(self.leading[:count])


def describe(head: Head, softmax: np.ndarray, budgets: np.ndarray, most: int) -> Described | None:
    """Describe a row of float weights, shape (n,), for sets of up to `most` keys; None for no softmax row."""
    n, d = len(softmax), head.values.shape[1]
    masses, squares, scores = (np.empty(n) for _ in range(3))
    if not abs(rows.normalise(softmax, masses) - 1) <= MASS_SUM_TOLERANCE:
        return None
    heaviest, unused = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64)
    origin, mean, dropped = np.empty(d), np.empty(d), np.empty(len(budgets))
    _, sigma = rows.describe(*head, masses, heaviest, unused, origin, mean, squares, scores)
    leading = _leading(masses, most)
    n_keys = rows.drop(masses, leading, budgets, scores, dropped)
    return Described(masses, leading, origin, mean, n_keys, sigma, dropped)


def _leading(masses: np.ndarray, count: int) -> np.ndarray:
    """Positions of the `count` largest positive masses, descending, or of all; ties to the lowest."""
    least = np.partition(masses, -count)[-count] if count < len(masses) else 0.0
    some = np.flatnonzero((masses >= least) & (masses > 0))  # more than asked for where masses tie
    return some[ranked(masses[some])[:count]]


class Scores(NamedTuple):
    """Of every set of one row, arrays of shape (sets,); `error` is NaN where no kept key has a mass."""

    size: np.ndarray
    error: np.ndarray
    mass: np.ndarray
    overlap: np.ndarray


def score(head: Head, row: Described, sets: Sequence[np.ndarray]) -> Scores:
    """Forced errors ``|sum_A z_j| / p(A)``, masses and overlaps of non-empty sets of ascending positions.

    Direct float64 sums in ascending order, once for equal sets; keeping every key is error 0.
    """
    order: dict[bytes, int] = {}
    which = [order.setdefault(kept.tobytes(), len(order)) for kept in sets]
    keys = np.frombuffer(b"".join(order), dtype=np.int64)
    counts = np.array([len(kept) // keys.itemsize for kept in order])
    starts = np.cumsum(counts) - counts
    residuals, masses = np.empty((len(keys), len(row.mean))), row.masses[keys]
    rows.centre(head.values, row.origin, row.mean, keys, residuals)
    residuals *= masses[:, None]
    sums, kept_mass = np.add.reduceat(residuals, starts), np.add.reduceat(masses, starts)
    with np.errstate(invalid="ignore"):  # 0 / 0
        errors = np.sqrt(np.einsum("kd,kd->k", sums, sums)) / kept_mass
    errors[np.add.reduceat(masses > 0, starts, dtype=np.int64) == row.n_keys] = 0.0
    rank = np.full(len(row.masses), len(row.masses))
    rank[row.leading] = np.arange(len(row.leading))
    among = np.add.reduceat(rank[keys] < np.repeat(counts, counts), starts, dtype=np.int64)
    return Scores(counts[which], errors[which], kept_mass[which], (among / counts)[which])


def score_unit(work: Work) -> dict[str, list[Any]]:
    """Every kept set of one document and layer, as columns of table ``scores``, without config and engine.

    Raises
    ------
    InputError
        When masses, values, keys or queries are none, or a user's rule fails; it names the row.
    """
    start = process_time()
    entries, dump = work.entries, work.dump
    records = [record for k in range(dump.kv_heads) for record in _KVHead(work, k).records()]
    count = len(records) * len(entries)
    same = {
        "dump": dump.id,
        "model": dump.model,
        "document": work.document.index,
        "text_id": tokens_sha256([work.document.tokens])[:12],
        "layer": work.layer,
        "host": platform.node(),
    }
    columns: dict[str, list[Any]] = {name: [value] * count for name, value in same.items()}
    for column, field in (("selector", 0), ("reading", 1), ("s", 2), ("allocation", 3)):
        columns[column] = [entry[field] for entry in entries] * len(records)
    for name in records[0]:
        parts = [np.broadcast_to(record[name], len(entries)) for record in records]
        columns[name] = np.concatenate(parts).tolist()
    columns["error"] = [None if np.isnan(error) else error for error in columns["error"]]
    return columns | {"seconds": [(process_time() - start) / count] * count}


def warm(values: np.ndarray, weights: np.ndarray) -> None:
    """Run every kernel once on one row of float32 weights, shape (n,), and values, shape (n, d)."""
    head = head_of(values)
    if (row := describe(head, weights, np.array([2]), 2)) is not None:
        score(head, row, [row.top(2)])
    batch = Batch({2: 2}, 1, *values.shape)
    batch.read(0, head, weights)
    search(batch.close(), 0, exhaust=False)
    sight = KVHead(values, values, None, weights[None, None], [len(weights) - 1]).sight(0, 0, "per-query")
    for selector in SELECTORS.values():
        if "per-query" not in selector.needs_queries:
            selector.keep(sight, 2)


def has_queries(dump: Dump) -> bool:
    """Whether query vectors were captured."""
    return bool(dump.manifest.get("queries"))


class _KVHead:
    """The rows of the query heads that read one KV head, described; with their sets, scored."""

    def __init__(self, work: Work, kv_head: int) -> None:
        dump, document, layer = work.dump, work.document, work.layer
        self.work, self.kv_head, self.group = work, kv_head, dump.heads // dump.kv_heads
        self.first = kv_head * self.group
        own = slice(self.first, self.first + self.group)
        keys, values = document.keys(layer)[kv_head], document.values(layer)[kv_head]
        queries = document.queries(layer)[own] if has_queries(dump) else None
        for name, array in (("keys", keys), ("queries", queries), ("values", values)):
            if array is not None and not np.isfinite(array).all():
                raise InputError(f"{self.where()}: {name}: not finite")
        self.head, self.masses = head_of(values), document.masses(layer)[own]
        self.positions = document.query_positions.tolist()
        self.budgets = np.unique([entry.s for entry in work.entries])
        self.rows = [[self.describe(g, r) for r in range(len(self.positions))] for g in range(self.group)]
        self.source = KVHead(
            keys,
            values,
            queries,
            self.masses,
            document.query_positions,
            window=dump.windows[layer],
            scaling=1.0 if queries is None else dump.scaling[layer],
            soft_cap=dump.soft_cap,
        )
        self.together: dict[tuple[str, int, int], np.ndarray] = {}  # reading cache, by name, budget, row

    def where(self, g: int | None = None, r: int = 0) -> str:
        """The KV head, or a row of its query heads, in words."""
        place = f"dump {self.work.dump.path}, document {self.work.document.index}, layer {self.work.layer}"
        if g is None:
            return f"{place}, KV head {self.kv_head}"
        return f"{place}, head {self.first + g}, position {self.positions[r]}"

    def describe(self, g: int, r: int) -> Described:
        """A row; InputError, naming it, where it is none."""
        counts = (int(count[self.first + g, r]) for count in self.work.spread.values())
        most = max([int(self.budgets[-1]), *counts])
        row = describe(self.head, self.masses[g, r, : self.positions[r] + 1], self.budgets, most)
        if row is None:
            self.work.document.row(self.work.layer, self.first + g, r)  # says what is wrong
            raise InputError(f"{self.where(g, r)}: no softmax row")
        return row

    def records(self) -> Iterator[dict[str, Any]]:
        """Columns of every row, head by head: a number for all entries, or an array of one each."""
        entries = self.work.entries
        budgets = np.array([entry.s for entry in entries])
        at = np.searchsorted(self.budgets, budgets)
        group = [self.group if entry.reading == "cache" or entry.name in SHARED else 1 for entry in entries]
        for g, r in np.ndindex(self.group, len(self.positions)):
            row = self.rows[g][r]
            fair = np.flatnonzero(budgets < row.n_keys).tolist()
            size, overlap = np.full(len(entries), row.n_keys), np.ones(len(entries))
            error, mass, e_top = np.zeros(len(entries)), np.ones(len(entries)), np.zeros(len(self.budgets))
            if fair:
                tops = [row.top(int(s)) for s in self.budgets if s < row.n_keys]
                found = score(self.head, row, [*tops, *(self.kept(entries[i], g, r) for i in fair)])
                e_top[: len(tops)] = found.error[: len(tops)]
                for into, of in zip((size, error, mass, overlap), found, strict=True):
                    into[fair] = of[len(tops) :]
            trivial = self.budgets >= row.n_keys
            yield {
                "head": self.first + g,
                "kv_head": self.kv_head,
                "position": self.positions[r],
                "n_keys": row.n_keys,
                "kept_count": size,
                "group": group,
                "error": error,
                "kept_mass": mass,
                "overlap": overlap,
                "e_top": e_top[at],
                "dropped_mass": row.dropped[at],
                "sigma": row.sigma,
                "trivial": trivial[at],
                "degenerate": (~trivial & ((e_top == 0) | (e_top < DEGENERATE * row.sigma)))[at],
            }

    def kept(self, entry: Entry, g: int, r: int) -> np.ndarray:
        """The set of one entry at a row of more than its budget's keys."""
        row = self.rows[g][r]
        if entry.allocation != UNIFORM:
            return row.top(int(self.work.spread[entry.allocation, entry.s][self.first + g, r]))
        if entry.name == TOP_MASS:
            return row.top(entry.s)
        if entry.selector is None:
            return self.balanced[entry.s][g * len(self.positions) + r]
        if entry.reading == "cache":
            key = (entry.name, entry.s, r)
            if key not in self.together:
                self.together[key] = self.chosen(entry, entry.selector, g, r)
            return self.together[key]
        chosen = self.chosen(entry, entry.selector, g, r)
        if entry.name == IDENTICAL and not np.array_equal(chosen, row.top(entry.s)):
            raise ArithmeticError(f"{self.where(g, r)}, s={entry.s}: {entry.name} is not the top-mass set")
        return chosen

    def chosen(self, entry: Entry, selector: Selector, g: int, r: int) -> np.ndarray:
        """What a rule keeps; an `InputError` that a user's rule gives cause for says where."""
        try:
            return selector.keep(self.source.sight(g, r, entry.reading), entry.s)
        except InputError as error:
            raise InputError(f"{self.where(g, r)}, s={entry.s}: {error}") from error

    @cached_property
    def balanced(self) -> dict[int, list[np.ndarray]]:
        """Balanced sets of every row, head by head, by budget."""
        longest = max(len(row.masses) for some in self.rows for row in some)
        extras = dict(self.work.extras)
        batch = Batch(extras, self.group * len(self.positions), longest, self.head.values.shape[1])
        for g, r in np.ndindex(self.group, len(self.positions)):
            batch.read(g * len(self.positions) + r, self.head, self.masses[g, r, : self.positions[r] + 1])
        batch.close()
        sets = {}
        for b, s in enumerate(batch.extras):
            found = search(batch, b, exhaust=False)
            sets[s] = [kept_positions(batch, b, i, found.kept_balanced) for i in range(len(batch.n_keys))]
        return sets
