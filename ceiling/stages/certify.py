"""Certification of a dump: one shard of table ``certificates`` per document and layer."""

import math
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ceiling.certify import ENGINE, NODES, Certificate, certify
from ceiling.certify.certificate import LEAST_GAP
from ceiling.certify.improve import LEAST_FLOOR, cool
from ceiling.certify.manifest import Manifest, read_manifest
from ceiling.certify.proof import MAX_DIMENSION, MOST_KEPT
from ceiling.dump import Dump, tokens_sha256
from ceiling.objective import centre, forced_error_at, largest
from ceiling.problem import InputError, Row, Status, check_budgets
from ceiling.search import DEGENERATE
from ceiling.stages.units import Target, Unit, check_visible, open_source, rows_of, units_of
from ceiling.store import SCHEMA_VERSION, config_id

TABLE = "certificates"

BUDGETS = (4, 8, 16, 32)
"""Keys kept: the budgets of the paper's certification."""

BYTES_PER_INTERVAL = 20_000
"""On disk, for the estimate of ``--dry-run`` only; proofs dominate, and differ a hundredfold."""


class Done(NamedTuple):
    """A unit that was committed: its intervals (instances times floors), and how many of them are proved
    optimal or trivial; the nodes and seconds they took.

    `kept` where its shard was there already, from another run that is at it too: nothing was solved.
    """

    unit: Unit
    intervals: int
    proved: int
    trivial: int
    nodes: int
    seconds: float
    kept: bool = False


class Case(NamedTuple):
    """A query row of a unit at one budget, and its decile where a manifest says one."""

    head: int
    row: int
    s: int
    decile: int | None


@dataclass(frozen=True)
class Limits:
    """What decides how an instance ends.

    Attributes
    ----------
    nodes : int
        Of one instance under one floor; the limit that decides.
    seconds : float
        Guard of the same, in CPU time.
    gap : float
        Relative: an interval with ``upper <= lower (1 + gap)`` is proved optimal.
    floors : tuple of float
        Mass floors rho, ascending; 0 is none.
    seed : int
        Of the search for good sets.

    Raises
    ------
    InputError
        Naming the limit that is none.
    """

    nodes: int = NODES
    seconds: float = 60.0
    gap: float = 1e-6
    floors: tuple[float, ...] = (0.0,)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InputError(f"nodes: {self.nodes} is not positive; at least 1 is needed")
        if not 0 < self.seconds < math.inf:
            raise InputError(f"seconds: {self.seconds} is no positive length of time")
        if not LEAST_GAP <= self.gap < 1:
            raise InputError(f"gap: {self.gap} is outside {LEAST_GAP:g} .. 1 (1 excluded), e.g. 1e-6")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed: {self.seed}; a seed is a whole number, 0 .. 2^63 - 1")
        if not self.floors:
            raise InputError("mass-floor: none given; name at least one, e.g. none,0.9,0.5")
        for floor in self.floors:
            if floor != 0 and not LEAST_FLOOR <= floor <= 1:
                raise InputError(
                    f"mass-floor: {floor} is outside {LEAST_FLOOR:g} .. 1, shares of the top-mass set's "
                    "mass; 0 or none for no floor"
                )
            if self.floors.count(floor) > 1:
                raise InputError(f"mass-floor: {floor or 'none'} is repeated; name each floor once")
        object.__setattr__(self, "seconds", float(self.seconds))  # 10 and 10.0 are one configuration
        object.__setattr__(self, "floors", tuple(sorted(map(float, self.floors))))


@dataclass(frozen=True)
class Plan:
    """What is to be done, and what is done already; all that a worker needs.

    Attributes
    ----------
    dump, store : Path
    limits : Limits
    budgets : tuple of int
    manifest : Manifest or None
        The only instances that are wanted; None is every row of the dump.
    units : tuple of Unit
        All shards that are wanted.
    todo : tuple of Unit
        Those that do not exist yet.
    rows : int
        Query rows a unit (heads times sampled positions).
    id : str
        Of the dump.
    """

    dump: Path
    store: Path
    limits: Limits
    budgets: tuple[int, ...]
    manifest: Manifest | None
    units: tuple[Unit, ...]
    todo: tuple[Unit, ...]
    rows: int
    id: str

    @property
    def config(self) -> str:
        """Id of the configuration, as in the store."""
        return config_id(configuration(self))

    @property
    def target(self) -> Target:
        """Where its shards come from and go to."""
        return Target(self.dump, self.store, self.id, TABLE, self.config)

    @property
    def instances(self) -> int:
        """Left: rows at a budget."""
        if self.manifest is None:
            return len(self.todo) * self.rows * len(self.budgets)
        todo = set(self.todo)
        return sum(Unit(each.document, each.layer) in todo for each in self.manifest.of(self.id))

    @property
    def intervals(self) -> int:
        """Solves left: instances times floors."""
        return self.instances * len(self.limits.floors)

    @property
    def bytes(self) -> int:
        """Disk space of what is left, about."""
        return self.intervals * BYTES_PER_INTERVAL

    @property
    def seconds(self) -> float:
        """Time of one core for what is left, at most."""
        return self.intervals * self.limits.seconds


def plan(
    dump: str | Path,
    store: str | Path,
    budgets: Sequence[int] | None = None,
    *,
    limits: Limits | None = None,
    manifest: Manifest | str | Path | None = None,
    verify: bool = False,
) -> Plan:
    """Check everything and find the missing shards.

    Parameters
    ----------
    dump, store : str or Path
        Folder of the captured dump, and of the store (made by `run` if missing).
    budgets : sequence of int, optional
        4, 8, 16, 32 when not given; with a manifest, which has its own, they must not be given.
    limits : Limits, optional
    manifest : Manifest, str or Path, optional
        Certify these instances only. Their shards are another configuration than those of whole dumps.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        Naming what is wrong with the dump, the budgets or the manifest.
    """
    if budgets is not None and manifest is not None:
        raise InputError(f"budgets: {list(budgets)}; the manifest has its own, leave them out")
    checked = check_budgets(BUDGETS if budgets is None else budgets)
    opened = open_source(dump, store, verify)
    if isinstance(manifest, str | Path):
        manifest = read_manifest(manifest, [opened])
    if manifest is None:
        check_visible(opened, "budgets", checked)
    if (most := max(checked if manifest is None else manifest.budgets)) > MOST_KEPT:
        raise InputError(f"budgets: {most}; at most {MOST_KEPT} keys are certified")
    if opened.head_dim > MAX_DIMENSION:
        raise InputError(
            f"dump: {dump} has values of dimension {opened.head_dim}; at most {MAX_DIMENSION} is certified"
        )
    if manifest is None:
        units = units_of(opened)
    else:
        checked = manifest.budgets
        units = tuple(sorted({Unit(each.document, each.layer) for each in manifest.of(opened.id)}))
    limits = limits or Limits()
    whole = Plan(Path(dump), Path(store), limits, checked, manifest, units, units, rows_of(opened), opened.id)
    return replace(whole, todo=whole.target.missing(units))


def configuration(plan: Plan) -> dict[str, Any]:
    """All that determines the content of a shard beside the dump."""
    return {
        "schema": SCHEMA_VERSION,
        "engine": ENGINE,
        "budgets": list(plan.budgets),
        "mass_floors": list(plan.limits.floors),
        "nodes": plan.limits.nodes,
        "seconds": plan.limits.seconds,
        "gap": plan.limits.gap,
        "seed": plan.limits.seed,
        "degenerate": DEGENERATE,
        "manifest": None if plan.manifest is None else plan.manifest.digest,
    }


def run(plan: Plan) -> Iterator[Done]:
    """Prepare the store at once; do every missing unit in this process as the iterator is consumed."""
    prepare(plan)
    return run_units(plan, plan.todo)


def prepare(plan: Plan) -> None:
    """Make the store, its small tables and the configuration's record."""
    plan.target.prepare(configuration(plan))


def warm_up() -> float:
    """Compile the kernels, or load them from numba's cache; returns the seconds it took."""
    start = perf_counter()
    row = Row(np.arange(1, 25) / 300, np.random.default_rng(0).standard_normal((24, 3)))
    for s in (2, 6):
        for floor in (None, 0.9):
            certify(row, s, nodes=100, seconds=5.0, mass_floor=floor)
    cool(row, 2, math.inf, np.arange(2), np.arange(2), 0, math.inf)  # made for larger budgets only
    return perf_counter() - start


def run_units(plan: Plan, units: Iterable[Unit]) -> Iterator[Done]:
    """Do and commit units one by one: what a cluster task runs; see `Target.commit`."""
    for unit, columns, seconds in plan.target.commit(
        units, lambda dump, unit: certify_unit(dump, unit, _cases(plan, dump, unit), plan)
    ):
        if columns is None:
            yield Done(unit, 0, 0, 0, 0, 0.0, kept=True)
            continue
        proved, trivial = (columns["status"].count(end) for end in (Status.OPTIMAL, Status.TRIVIAL))
        yield Done(unit, len(columns["s"]), proved, trivial, sum(columns["nodes"]), seconds)


def certify_unit(dump: Dump, unit: Unit, cases: Iterable[Case], plan: Plan) -> dict[str, list[Any]]:
    """The instances of one document and layer, as columns of table ``certificates``."""
    document, limits, records = dump.document(unit.document), plan.limits, []
    shared = {
        "dump": dump.id,
        "config": plan.config,
        "model": dump.model,
        "document": unit.document,
        "text_id": tokens_sha256([document.tokens])[:12],
        "layer": unit.layer,
        "engine": ENGINE,
        "host": platform.node(),
    }
    for case in cases:
        row = document.row(unit.layer, case.head, case.row)
        for floor in limits.floors:
            found = certify(
                row,
                case.s,
                nodes=limits.nodes,
                seconds=limits.seconds,
                gap=limits.gap,
                mass_floor=floor or None,
                seed=limits.seed,
            )
            records.append(
                shared
                | {
                    "head": case.head,
                    "kv_head": case.head // (dump.heads // dump.kv_heads),
                    "position": int(document.query_positions[case.row]),
                    "s": case.s,
                    "mass_floor": floor,
                    "decile": case.decile,
                }
                | measured(row, case.s, found)
            )
    return {name: [record[name] for record in records] for name in records[0]}


def measured(row: Row, s: int, found: Certificate) -> dict[str, Any]:
    """The columns that a certificate and its row give."""
    if not 0 <= found.lower <= found.upper < math.inf:
        raise ArithmeticError(f"certify: the interval {found.lower!r} .. {found.upper!r} is none")
    centred = centre(row)
    top = largest(centred.masses, s)
    e_top = forced_error_at(centred, top)
    trivial = s >= len(centred.masses)
    degenerate = not trivial and (e_top == 0 or e_top < DEGENERATE * centred.sigma)
    fair = not trivial and not degenerate
    kept_mass, top_mass = float(row.masses[found.kept].sum()), float(centred.masses[top].sum())
    return {
        "n_keys": len(centred.masses),
        "dropped_mass": float(np.delete(centred.masses, top).sum()),
        "sigma": centred.sigma,
        "e_top": e_top,
        "degenerate": degenerate,
        "es_lower": found.lower,
        "es_upper": found.upper,
        "closable_lower": 1 - found.upper / e_top if fair else None,
        "closable_upper": 1 - found.lower / e_top if fair else None,
        "kept": found.kept.tolist(),
        "kept_mass": kept_mass,
        "top_share": kept_mass / top_mass,
        "status": str(found.status),
        "stopped_by": found.stopped_by,
        "nodes": found.nodes,
        "proof": found.proof,
        "proof_bytes": None if found.proof is None else len(found.proof),
        "seconds": found.seconds,
    }


def _cases(plan: Plan, dump: Dump, unit: Unit) -> Iterator[Case]:
    """What is wanted of a unit: the manifest's instances of it, or every row at every budget."""
    if plan.manifest is not None:
        for each in plan.manifest.of(plan.id):
            if (each.document, each.layer) == unit:
                yield Case(each.head, each.row, each.s, each.decile)
        return
    for head in range(dump.heads):
        for row in range(len(dump.document(unit.document).query_positions)):
            yield from (Case(head, row, s, None) for s in plan.budgets)
