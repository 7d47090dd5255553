"""The zero-error question on captured rows: one shard of table ``zero_errors`` per document and layer."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ceiling.certify.engines.cp_sat import engine_version
from ceiling.certify.exact import SECONDS, WORK, check_limits, decide
from ceiling.certify.quantised import check_bits, quantise
from ceiling.dump import Dump, tokens_sha256
from ceiling.problem import InputError, Status, check_budgets
from ceiling.stages.units import Target, Unit, check_visible, open_source, rows_of, units_of
from ceiling.store import SCHEMA_VERSION, config_id

TABLE = "zero_errors"

BUDGETS, BITS = (4, 8, 16, 32), (8,)
"""Keys kept, and bits of a number: at eight, a row has a few dozen keys left, a flat one hardly any."""

ENGINE = 1
"""Raised when the engines, their limits or the rounding change what an answer may be."""

SECONDS_PER_INSTANCE = 0.1
"""One core, for the estimate of ``--dry-run`` only."""

BYTES_PER_INSTANCE = 60
"""On disk, for the estimate of ``--dry-run`` only."""


class Done(NamedTuple):
    """A unit that was committed: how many instances ended in each status, and the seconds it took.

    `kept` where its shard was there already, from another run that is at it too: nothing was decided.
    """

    unit: Unit
    statuses: dict[str, int]
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class Question:
    """What is asked of every row.

    Attributes
    ----------
    budgets, bits : tuple of int
        Ascending.
    rows : int or None
        Rows of a unit that are asked, drawn by `seed`; None for all.
    seed : int
    seconds, work : float
        The guard and the limit of an instance, see `ceiling.zero_error`.
    """

    budgets: tuple[int, ...] = BUDGETS
    bits: tuple[int, ...] = BITS
    rows: int | None = None
    seed: int = 0
    seconds: float = SECONDS
    work: float = WORK

    @property
    def configuration(self) -> dict[str, Any]:
        """All that determines the content of a shard beside the dump."""
        engine = {"schema": SCHEMA_VERSION, "engine": ENGINE, "ortools": engine_version()}
        return engine | {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already.

    Attributes
    ----------
    dump, store : Path
    question : Question
    units : tuple of Unit
        All shards of the dump.
    todo : tuple of Unit
        Those that do not exist yet.
    rows : int
        Query rows a unit that are asked.
    id : str
        Of the dump.
    """

    dump: Path
    store: Path
    question: Question
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    rows: int
    id: str

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(self.question.configuration)

    @property
    def instances(self) -> int:
        """Instances left to decide."""
        return len(self.todo) * self.rows * len(self.question.budgets) * len(self.question.bits)

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return self.instances * BYTES_PER_INSTANCE

    @property
    def seconds(self) -> float:
        """Time of one core for what is left, about."""
        return self.instances * SECONDS_PER_INSTANCE


def plan(
    dump: str | Path,
    store: str | Path,
    budgets: Sequence[int] = BUDGETS,
    bits: Sequence[int] = BITS,
    rows: int | None = None,
    seed: int = 0,
    seconds: float = SECONDS,
    work: float = WORK,
    verify: bool = False,
) -> Plan:
    """Check everything and find the missing shards.

    Parameters
    ----------
    dump, store : str or Path
        Folder of the captured dump, and of the store (made by `run` if missing).
    budgets, bits : sequence of int
    rows : int, optional
        Ask only so many rows of every document and layer.
    seed : int
        Of that choice.
    seconds, work : float
        The guard and the limit of an instance, see `ceiling.zero_error`.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        Naming what is wrong with the dump, the budgets, the bits or the limits.
    """
    check_limits(seconds, work)  # 60 and 60.0 are one configuration
    question = Question(check_budgets(budgets), _check_bits(bits), rows, seed, float(seconds), float(work))
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: {seed!r} is not a whole number >= 0")
    opened = open_source(dump, store, verify)
    check_visible(opened, "budgets", question.budgets)
    every = rows_of(opened)
    if rows is not None and not 1 <= rows <= every:
        raise InputError(f"rows: {rows} is outside 1..{every}, the rows of a document and layer")
    if rows == every:
        question = replace(question, rows=None)  # all are all, under one id
    units = units_of(opened)
    todo = _target(dump, store, question, opened.id).missing(units)
    return Plan(Path(dump), Path(store), question, units, todo, question.rows or every, opened.id)


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan.dump, plan.store, plan.question, plan.todo, plan.id)


def prepare(plan: Plan) -> None:
    """Make the store, its small tables ``documents`` and ``rows``, and the record of the configuration."""
    _target(plan.dump, plan.store, plan.question, plan.id).prepare(plan.question.configuration)


def run_units(
    dump: Path, store: Path, question: Question, units: Iterable[Unit], dump_id: str
) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs; see `Target.commit`.

    Raises
    ------
    ceiling.certify.exact.Disagreement
        Where two engines differ.
    """
    target = _target(dump, store, question, dump_id)
    for unit, columns, seconds in target.commit(
        units, lambda opened, unit: decide_unit(opened, unit, question, target.config)
    ):
        if columns is None:
            yield Done(unit, {}, 0.0, kept=True)
        else:
            yield Done(unit, dict(Counter(columns["status"])), seconds)


def decide_unit(dump: Dump, unit: Unit, question: Question, config: str) -> dict[str, list[Any]]:
    """Every instance of one document and layer, as columns of table ``zero_errors``."""
    document = dump.document(unit.document)
    positions = document.query_positions.tolist()
    where = [(head, r) for head in range(dump.heads) for r in range(len(positions))]
    if question.rows is not None:
        rng = np.random.default_rng([question.seed, *unit])
        where = [where[i] for i in np.sort(rng.choice(len(where), question.rows, replace=False))]
    shared = {
        "dump": dump.id,
        "config": config,
        "model": dump.model,
        "document": unit.document,
        "text_id": tokens_sha256([document.tokens])[:12],
        "layer": unit.layer,
        "host": platform.node(),
    }
    found = []
    for head, r in where:
        row = document.row(unit.layer, head, r)
        kv_head = head // (dump.heads // dump.kv_heads)
        own = {"head": head, "kv_head": kv_head, "position": positions[r], "n_keys": row.n_keys}
        for bits in question.bits:
            keys = quantise(row, bits)
            for s in question.budgets:
                answer = decide(keys, s, seconds=question.seconds, work=question.work)
                of_answer = {
                    "s": s,
                    "bits": bits,
                    "rounded_keys": len(keys),
                    "status": Status.TRIVIAL if len(keys) <= s else answer.status,
                    "kept": None if answer.kept is None else answer.kept.tolist(),
                    "stopped_by": answer.stopped_by,
                    "engine": answer.engine,
                    "seconds": answer.seconds,
                }
                found.append(shared | own | of_answer)
    return {name: [one[name] for one in found] for name in found[0]}


def _check_bits(bits: Sequence[int]) -> tuple[int, ...]:
    checked = tuple(sorted(check_bits(b) for b in bits))
    if not checked or len(set(checked)) < len(checked):
        raise InputError(f"bits: {list(bits)}; name at least one, and each once")
    return checked


def _target(dump: str | Path, store: str | Path, question: Question, dump_id: str) -> Target:
    return Target(Path(dump), Path(store), dump_id, TABLE, config_id(question.configuration))
