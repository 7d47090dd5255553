"""Scoring of rules on a dump: one shard of table ``scores`` per document and layer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ceiling.dump import Dump, open_dump
from ceiling.stages.panel import BUDGETS, ENGINE, Panel, choose
from ceiling.stages.scoring import Entry, Work, score_unit, warm
from ceiling.stages.spread import median_dropped, spread
from ceiling.stages.units import Target, Unit, open_source, rows_of, units_of
from ceiling.store import config_id

TABLE = "scores"

SECONDS_PER_SET, BYTES_PER_SET = 6e-5, 20
"""One core, and on disk, for the estimate of ``--dry-run`` only."""


class Done(NamedTuple):
    """A unit that was committed, how many sets it scored, and the seconds it took.

    `kept` where its shard was there already, from another run that is at it too: nothing was scored.
    """

    unit: Unit
    sets: int
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already; all that a worker needs.

    Attributes
    ----------
    dump, store : Path
    panel : Panel
    left_out : tuple of str
        Built-in selectors, with the reading, that the dump does not allow and nobody named.
    units : tuple of Unit
        All shards of the dump.
    todo : tuple of Unit
        Those that do not exist yet.
    rows : int
        Query rows a unit (heads times sampled positions).
    sets : int
        Kept sets a row.
    id : str
        Of the dump.
    """

    dump: Path
    store: Path
    panel: Panel
    left_out: tuple[str, ...]
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    rows: int
    sets: int
    id: str

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(self.panel.configuration)

    @property
    def target(self) -> Target:
        """Where its shards come from and go to."""
        return Target(self.dump, self.store, self.id, TABLE, self.config)

    @property
    def scores(self) -> int:
        """Sets left to score."""
        return len(self.todo) * self.rows * self.sets

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return self.scores * BYTES_PER_SET

    @property
    def seconds(self) -> float:
        """Time of one core for what is left, about."""
        return self.scores * SECONDS_PER_SET


def plan(
    dump: str | Path,
    store: str | Path,
    selectors: Sequence[str] | None = None,
    *,
    reading: str | None = None,
    budgets: Sequence[int] = BUDGETS,
    native: Sequence[int] | None = None,
    allocations: Sequence[str] | None = None,
    verify: bool = False,
) -> Plan:
    """Check everything and find the missing shards.

    Parameters
    ----------
    dump, store : str or Path
        Folder of the captured dump, and of the store (made by `run` if missing).
    selectors : sequence of str, optional
        As `ceiling.selectors.resolve` takes them, or ``balancing``; by default all built-in ones.
    reading : {"per-query", "cache"}, optional
        Only this one.
    budgets : sequence of int
    native : sequence of int, optional
        Further budgets of top-mass and balancing; by default 64, 128 and 256, where rows are longer.
    allocations : sequence of str, optional
        By default all where no selector is named, and none where one is.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        Naming what is wrong with the dump or what is asked of it: a selector that needs queries among it,
        where the dump has none.
    """
    opened = open_source(dump, store, verify)
    panel, left_out = choose(opened, selectors, reading, budgets, native, allocations)
    units, sets = units_of(opened), len(panel.entries())
    whole = Plan(Path(dump), Path(store), panel, left_out, units, units, rows_of(opened), sets, opened.id)
    return replace(whole, todo=whole.target.missing(units))


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan, plan.todo)


def prepare(plan: Plan) -> None:
    """Make the store, its small tables and the configuration's record."""
    plan.target.prepare(plan.panel.configuration)


def warm_up() -> float:
    """Compile the kernels, or load them from numba's cache; returns the seconds it took."""
    start = perf_counter()
    values, weights = np.eye(24, dtype=np.float32), np.arange(1, 25, dtype=np.float32) / 300
    warm(values, weights)
    for array in (values, weights):
        array.flags.writeable = False  # as memory-mapped ones are: another type to the compiler
    warm(values, weights)
    return perf_counter() - start


def run_units(plan: Plan, units: Iterable[Unit]) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs; see `Target.commit`.

    Raises
    ------
    InputError
        Also when the source of a user's rule is no longer the planned one.
    """
    entries = plan.panel.entries()
    for unit, columns, seconds in plan.target.commit(
        units, lambda dump, unit: _score(plan, dump, unit, entries)
    ):
        if columns is None:
            yield Done(unit, 0, 0.0, kept=True)
        else:
            yield Done(unit, len(columns["s"]), seconds)


def _score(plan: Plan, dump: Dump, unit: Unit, entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """The columns of one unit."""
    counts = _spread(plan.dump, plan.id, unit.document, plan.panel.allocations, plan.panel.budgets)
    own = {key: cells[dump.layers.index(unit.layer)] for key, cells in counts.items()}
    work = Work(dump, dump.document(unit.document), unit.layer, entries, plan.panel.extras, own)
    columns = score_unit(work)
    count = len(columns["s"])
    return columns | {"config": [plan.config] * count, "engine": [ENGINE] * count}


@lru_cache(maxsize=1)
def _spread(
    path: Path, dump_id: str, document: int, allocations: tuple[str, ...], budgets: tuple[int, ...]
) -> Mapping[tuple[str, int], np.ndarray]:
    """Keys of every cell of a document, kept for its other layers; `dump_id` tells dumps of a path apart."""
    if not allocations:
        return {}
    dump = open_dump(path)
    return spread(dump.document(document), allocations, budgets, _medians(path, dump_id))


@lru_cache(maxsize=1)
def _medians(path: Path, dump_id: str) -> np.ndarray:
    return median_dropped(open_dump(path))
