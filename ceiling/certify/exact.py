"""The zero-error question: does any kept set of one size return the dense output exactly?"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np

from ceiling.certify.balance import Balance, Keys, balance_of, read_keys
from ceiling.certify.engines import cp_sat, meet_in_the_middle, restriction, subset_sum
from ceiling.certify.engines.verdict import Verdict
from ceiling.problem import InputError, Status, check_budget

ENGINES: dict[str, ModuleType] = {
    engine.NAME: engine for engine in (subset_sum, meet_in_the_middle, restriction, cp_sat)
}
"""All of them by name."""

TABLES = (subset_sum.NAME, meet_in_the_middle.NAME)
"""Those that decide within a time that is known before, or refuse."""

CHEAP = 0.3
"""Seconds up to which a table is asked first."""

SECONDS, WORK = 60.0, 10.0
"""The guard, CPU seconds, and the limit that decides, in CP-SAT's deterministic seconds (about as long)."""

CHECK_WORK, LOOK_WORK = 0.05, 0.3
"""Deterministic seconds of CP-SAT: to contradict what a table has answered, and before a costly one."""


class Disagreement(ArithmeticError):
    """Two engines gave different answers, or one a set that is not what it says: a bug, never a result."""


@dataclass(frozen=True, eq=False, slots=True)
class ZeroAnswer:
    """Whether zero error is reached.

    Attributes
    ----------
    status : Status
        ``yes``, with a set that was checked in rational numbers; ``no``, proved; ``unknown``.
    kept : ndarray of int64, shape (s,), or None
        Ascending positions of such a set; all keys where there are at most s.
    engine : str
        Which engine proved it, or was stopped last: ``cp-sat``, ``meet-in-the-middle``, ``subset-sum``,
        ``restriction``; ``divisibility`` where no sum can be right in some component; ``trivial`` for at
        most s keys; ``auto`` where no engine took the numbers.
    seconds : float
        Of CPU time.
    stopped_by : str
        ``none``; ``nodes``, the limit on work, which a rerun meets at the same point; ``seconds``, the
        guard; ``memory``, where no engine takes the numbers.
    """

    status: Status
    kept: np.ndarray | None
    engine: str
    seconds: float
    stopped_by: str


def zero_error(
    points: Any,
    masses: Any,
    s: int,
    engine: str = "auto",
    seconds: float = SECONDS,
    work: float = WORK,
) -> ZeroAnswer:
    """Decide whether some set of `s` keys has forced error exactly zero.

    Parameters
    ----------
    points : array_like, shape (m,) or (m, d)
        Whole numbers, rationals, or floats, which are read as the rationals they are.
    masses : array_like, shape (m,), or None
        Likewise, non-negative, divided by their exact sum; None for all equal. A key of zero mass is no key.
    s : int
        Keys kept.
    engine : str
        ``cp-sat``, ``meet-in-the-middle``, ``subset-sum`` or ``restriction`` (finds a yes, proves no no)
        asks that engine alone. ``auto`` asks the faster table where it is cheap, and lets CP-SAT have a
        short look at its answer; else CP-SAT for a while, the table or a try for a yes, and CP-SAT again.
    seconds : float
        A guard, in CPU time of this process; which answer comes within it depends on the machine.
    work : float
        The limit that decides: deterministic time of CP-SAT.

    Returns
    -------
    ZeroAnswer
        Never ``unknown`` for 40 keys or fewer (but for the guard).

    Raises
    ------
    InputError
        For bad numbers; and where an engine asked alone cannot take them, with the numbers.
    Disagreement
        Where two engines differ.

    Notes
    -----
    NP-complete already for whole points on a line and equal masses (arXiv 2608.25230, section 3).
    """
    start = process_time()
    if engine not in ("auto", *ENGINES):
        raise InputError(f"engine: {engine!r} is none of auto, {', '.join(ENGINES)}")
    check_limits(seconds, work)
    return decide(read_keys(points, masses), check_budget(s), engine, start, seconds, work)


def check_limits(seconds: float, work: float) -> None:
    """Raise `InputError` unless both limits are positive numbers."""
    for field, limit in (("seconds", seconds), ("work", work)):
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < inf:
            raise InputError(f"{field}: {limit!r} is not a positive number")


def decide(
    keys: Keys,
    s: int,
    engine: str = "auto",
    start: float | None = None,
    seconds: float = SECONDS,
    work: float = WORK,
) -> ZeroAnswer:
    """`zero_error` for keys that were read and options that were checked."""
    start = process_time() if start is None else start

    def ended(status: Status, kept: Iterable[int] | None, by: str, stopped_by: str = "none") -> ZeroAnswer:
        positions = None if kept is None else np.array(list(kept), dtype=np.int64)
        return ZeroAnswer(status, positions, by, process_time() - start, stopped_by)

    if len(keys) <= s:
        return ended(Status.YES, keys.positions, "trivial")
    problem = balance_of(keys, s)
    if problem is None:
        return ended(Status.NO, None, "divisibility")
    if engine != "auto" and (refusal := ENGINES[engine].refusal(problem)):
        raise InputError(f"engine: {engine} cannot take these numbers: {refusal}")
    race = _Race(problem, keys, start + seconds)
    if engine == "auto":
        race.run(work)
    else:
        race.ask(engine, work)
    kept = None if race.found.chosen is None else problem.kept(race.found.chosen)
    return ended(race.found.status, kept, race.by, race.found.stopped_by)


class _Race:
    """Engines that are asked one after the other, and the answer so far."""

    def __init__(self, problem: Balance, keys: Keys, deadline: float) -> None:
        self.problem, self.keys, self.deadline = problem, keys, deadline
        self.found, self.by = Verdict(Status.UNKNOWN, None, "memory"), "auto"

    def run(self, work: float) -> None:
        """A cheap table and CP-SAT's look at its answer; or engine by engine until one answers."""
        tables = [name for name in TABLES if ENGINES[name].refusal(self.problem) is None]
        costs = {name: ENGINES[name].cost(self.problem) for name in tables}
        table = min(tables, key=costs.__getitem__, default=restriction.NAME)
        if costs.get(table, inf) <= CHEAP:
            self.ask(table, work)
            self.ask(cp_sat.NAME, min(work, CHECK_WORK))
            return
        steps = [(cp_sat.NAME, work)]
        if ENGINES[table].refusal(self.problem) is None:
            steps = [(cp_sat.NAME, min(work, LOOK_WORK)), (table, work), *steps]
        for name, limit in steps:
            if self.found.status == Status.UNKNOWN:
                self.ask(name, limit)

    def ask(self, name: str, work: float) -> None:
        """Take what an engine says, unless there is an answer, which it may only confirm."""
        if ENGINES[name].refusal(self.problem):
            return
        verdict = ENGINES[name].solve(self.problem, self.deadline, work)
        if verdict.status == Status.YES:
            _check(self.problem, self.keys, verdict, name)
        if self.found.status == Status.UNKNOWN:
            self.found, self.by = verdict, name
        elif verdict.status not in (self.found.status, Status.UNKNOWN):
            said = f"{self.by} says {self.found.status}, {name} says {verdict.status}"
            raise Disagreement(f"zero error: {said}")


def _check(problem: Balance, keys: Keys, verdict: Verdict, name: str) -> None:
    """A witness must have the size, the sum, and zero error by the definition."""
    chosen = verdict.chosen
    if chosen is None or not problem.is_met(chosen) or not keys.is_exact(problem.kept(chosen)):
        raise Disagreement(f"zero error: {name} says yes by a set that has none ({chosen})")
