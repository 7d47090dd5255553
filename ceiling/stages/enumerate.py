"""Enumeration of a dump: one shard of table ``instances`` per document and layer."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ceiling.dump import Dump, tokens_sha256
from ceiling.objective import (
    LEVERAGE_RIDGE,
    TIE,
    ZERO,
    check_extra,
    check_subsets,
    default_extra,
    ridge_leverage,
)
from ceiling.problem import InputError, check_budgets
from ceiling.search import DEGENERATE, ENGINE, Task, head_of, measure
from ceiling.search.plan import nodes_first
from ceiling.stages.units import Target, Unit, check_visible, open_source, rows_of, units_of, visible_keys
from ceiling.store import SCHEMA_VERSION, config_id

TABLE = "instances"

BUDGETS = (4, 8, 16, 32)
"""Keys kept: the budgets of the paper's enumeration."""

SUBSETS_PER_SECOND, SECONDS_PER_ROOT = 2.5e9, 1.6e-7
"""One core, for the estimate of ``--dry-run`` only: the rate of enumeration; branch and bound, in seconds a
square root of the subsets."""

SECONDS_PER_ROW, SECONDS_PER_NUMBER, SECONDS_PER_MOMENT = 3e-4, 2.8e-8, 4e-8
"""One core, for the estimate of ``--dry-run`` only, of all else in a row: the least; a number among its
values (keys times head_dim); an entry of the spectral statistic's matrix (head_dim squared), at every budget.
Fitted to captures of 2,048 tokens: 20 ms a row at head_dim 256, 2.9 ms at 64."""

BYTES_PER_INSTANCE = 250
"""On disk, for the estimate of ``--dry-run`` only; kept sets dominate."""


class Done(NamedTuple):
    """A unit that was committed, the subsets evaluated and excluded by proof, and the seconds it took.

    `kept` where its shard was there already, from another run that is at it too: nothing was evaluated.
    """

    unit: Unit
    subsets: int
    excluded: int
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already.

    Attributes
    ----------
    dump, store : Path
    extras : dict of int to int
        Budgets and the candidates beside the top-mass set at each.
    units : tuple of Unit
        All shards of the dump.
    todo : tuple of Unit
        Those that do not exist yet.
    rows : int
        Query rows a unit (heads times sampled positions).
    id : str
        Of the dump.
    visible : int
        Keys that a row has at most.
    row_seconds : float
        Time of one core for a row beside its pools, about.
    """

    dump: Path
    store: Path
    extras: dict[int, int]
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    rows: int
    id: str
    visible: int
    row_seconds: float

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(configuration(self.extras))

    @property
    def subsets(self) -> int:
        """Subsets left to cover, at most."""
        return len(self.todo) * self.rows * sum(self._pools)

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return len(self.todo) * self.rows * len(self.extras) * BYTES_PER_INSTANCE

    @property
    def seconds(self) -> float:
        """Time of one core for what is left, about."""
        pools = sum(min(n / SUBSETS_PER_SECOND, n**0.5 * SECONDS_PER_ROOT) for n in self._pools)
        return len(self.todo) * self.rows * (pools + self.row_seconds)

    @property
    def _pools(self) -> list[int]:
        """Subsets of a full pool at every budget; none where a row is kept whole."""
        return [comb(min(s + extra, self.visible), s) for s, extra in self.extras.items()]


def plan(
    dump: str | Path,
    store: str | Path,
    budgets: Sequence[int] = BUDGETS,
    extra: int | None = None,
    cap: int | None = None,
    verify: bool = False,
) -> Plan:
    """Check everything and find the missing shards.

    Parameters
    ----------
    dump, store : str or Path
        Folder of the captured dump, and of the store (made by `run` if missing).
    budgets : sequence of int
    extra : int, optional
        Candidates beside the top-mass set, the same at every budget; by default the paper's rule.
    cap : int, optional
        Take as many candidates as keep the subsets of an instance within this number.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        Naming what is wrong with the dump, the budgets or the pool.
    """
    extras = _extras(check_budgets(budgets), extra, cap)
    opened = open_source(dump, store, verify)
    visible = visible_keys(opened)
    check_visible(opened, "budgets", list(extras))
    for s, count in extras.items():
        check_subsets(min(s + count, visible), s)
    units = units_of(opened)
    todo = _target(dump, store, extras, opened.id).missing(units)
    # Windows hide keys, but spare no work: all that were there at the query are gone through.
    keys = float(opened.document(0).query_positions.mean()) + 1
    seconds = seconds_of_row(keys, opened.head_dim, len(extras))
    return Plan(Path(dump), Path(store), extras, units, todo, rows_of(opened), opened.id, visible, seconds)


def seconds_of_row(keys: float, head_dim: int, budgets: int) -> float:
    """Time of one core for a row of so many keys beside its pools, about."""
    return SECONDS_PER_ROW + head_dim * (SECONDS_PER_NUMBER * keys + SECONDS_PER_MOMENT * budgets * head_dim)


def configuration(extras: dict[int, int]) -> dict[str, Any]:
    """All that determines the content of a shard beside the dump."""
    return {
        "schema": SCHEMA_VERSION,
        "engine": ENGINE,
        "extras": {str(s): extra for s, extra in extras.items()},
        "tie": TIE,
        "zero": ZERO,
        "degenerate": DEGENERATE,
        "leverage_ridge": LEVERAGE_RIDGE,
    }


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan.dump, plan.store, plan.extras, plan.todo, plan.id)


def prepare(plan: Plan) -> None:
    """Make the store and its small tables: ``documents``, ``rows`` and the configuration."""
    _target(plan.dump, plan.store, plan.extras, plan.id).prepare(configuration(plan.extras))


def warm_up(extras: dict[int, int]) -> float:
    """Compile the kernels for these pools, or load them from numba's cache; returns the seconds it took."""
    start = perf_counter()
    wide = any(nodes_first(s + extra, s) for s, extra in extras.items())
    head, weights = head_of(np.eye(24, dtype=np.float32)), np.arange(1, 25, dtype=np.float32) / 300
    measure([Task(head, weights, np.zeros(24))], {2: 2, 8: 16} if wide else {2: 2})
    return perf_counter() - start


def run_units(
    dump: Path, store: Path, extras: dict[int, int], units: Iterable[Unit], dump_id: str
) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs; see `Target.commit`."""
    target = _target(dump, store, extras, dump_id)
    for unit, columns, seconds in target.commit(
        units, lambda opened, unit: enumerate_unit(opened, unit, extras, target.config)
    ):
        if columns is None:
            yield Done(unit, 0, 0, 0.0, kept=True)
        else:
            yield Done(unit, sum(columns["subsets"]), sum(columns["excluded"]), seconds)


def enumerate_unit(dump: Dump, unit: Unit, extras: dict[int, int], config: str) -> dict[str, list[Any]]:
    """Every instance of one document and layer, as columns of table ``instances``."""
    document, layer = dump.document(unit.document), unit.layer
    tasks, where = [], []
    values, keys, masses = document.values(layer), document.keys(layer), document.masses(layer)
    if not np.isfinite(keys).all():
        raise InputError(f"dump {dump.path}, document {unit.document}, layer {layer}: keys: not finite")
    window, group = dump.windows[layer], dump.heads // dump.kv_heads
    try:
        for kv_head in range(dump.kv_heads):
            head, own = head_of(values[kv_head]), keys[kv_head].astype(np.float64)
            for r, (position, leverage) in enumerate(_leverages(own, document.query_positions, window)):
                for query_head in range(kv_head * group, (kv_head + 1) * group):
                    tasks.append(Task(head, masses[query_head, r, : position + 1], leverage))
                    where.append({"head": query_head, "kv_head": kv_head, "position": position})
        columns = measure(tasks, extras)
    except InputError:
        for query_head in range(dump.heads):
            for r in range(len(document.query_positions)):
                document.row(layer, query_head, r)  # raises the same, and says where
        raise
    rows = columns.pop("row")
    shared = {
        "dump": dump.id,
        "config": config,
        "model": dump.model,
        "document": unit.document,
        "text_id": tokens_sha256([document.tokens])[:12],
        "layer": layer,
        "engine": ENGINE,
        "host": platform.node(),
    }
    columns |= {name: [where[row][name] for row in rows] for name in where[0]}
    return columns | {name: [value] * len(rows) for name, value in shared.items()}


def _leverages(
    keys: np.ndarray, positions: np.ndarray, window: int | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Ridge leverage of the keys ``0 .. position`` at every ascending position; 0 outside the window."""
    gram, summed = np.zeros((keys.shape[1],) * 2), 0
    for position in positions.tolist():
        start = 0 if window is None else max(0, position + 1 - window)
        if start == 0:  # all before it are visible: add what is new
            new = keys[summed : position + 1]
            gram, summed = gram + new.T @ new, position + 1
        leverage = np.zeros(position + 1)
        visible = keys[start : position + 1]
        leverage[start:] = ridge_leverage(visible, gram if start == 0 else visible.T @ visible)
        yield position, leverage


def _extras(budgets: Sequence[int], extra: int | None, cap: int | None) -> dict[int, int]:
    if extra is not None and cap is not None:
        raise InputError(f"extra: {extra} and cap: {cap} both set the pool; give one")
    return {s: default_extra(s, cap) if extra is None else check_extra(s, extra) for s in budgets}


def _target(dump: str | Path, store: str | Path, extras: dict[int, int], dump_id: str) -> Target:
    return Target(Path(dump), Path(store), dump_id, TABLE, config_id(configuration(extras)))
