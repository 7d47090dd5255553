"""CP-SAT of OR-tools, the engine of record: one worker, a fixed seed, a deterministic limit."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from math import log2
from threading import Event, Thread
from time import process_time
from typing import Any

from ceiling.certify.balance import Balance
from ceiling.certify.engines.verdict import NO, OUT_OF_TIME, Verdict
from ceiling.problem import Status

NAME = "cp-sat"

LARGEST_SUM = 2**62
"""Sum of a constraint's coefficients, each times its variable's bound, that surely fits CP-SAT's 64 bits."""

LOOK = 0.05
"""Seconds of the wall clock between two looks at the CPU time that is used: how late the guard may be."""


def refusal(problem: Balance) -> str | None:
    """Why this engine does not take the problem; None where it does."""
    if (largest := max(problem.totals, default=0)) < LARGEST_SUM:
        return None
    return f"coefficients sum to {largest} (2^{log2(largest):.1f}); its 64-bit sums hold less than 2^62"


def solve(problem: Balance, deadline: float, work: float) -> Verdict:
    """Decide by constraint programming.

    Parameters
    ----------
    problem : Balance
    deadline : float
        `process_time` at which to give up: a guard.
    work : float
        Deterministic time, CP-SAT's own count of what it does, about a second each: the limit.
    """
    from ortools.sat.python import cp_model  # half a second, and most callers never ask

    model = cp_model.CpModel()
    numbers = [model.new_int_var(0, n, f"x{g}") for g, n in enumerate(problem.counts)]
    model.add(cp_model.LinearExpr.sum(numbers) == problem.size)
    for column, total in zip(zip(*problem.vectors, strict=True), problem.target, strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(numbers, column) == total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = work
    solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends as an answer, not as an interrupt
    if process_time() >= deadline:
        return OUT_OF_TIME
    with _guarded(solver, deadline):
        ended = solver.solve(model)
    if ended in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Verdict(Status.YES, tuple(solver.value(x) for x in numbers))
    if ended == cp_model.INFEASIBLE:
        return NO
    if ended == cp_model.MODEL_INVALID:
        raise ArithmeticError(f"cp-sat refuses its model: {model.validate()}")
    return OUT_OF_TIME if process_time() >= deadline else Verdict(Status.UNKNOWN, None, "nodes")


@contextmanager
def _guarded(solver: Any, deadline: float) -> Iterator[None]:
    """Stop `solver` at a CPU time: its own limit is of the wall clock, which a busy machine shortens."""
    done = Event()

    def watch() -> None:
        while not done.wait(LOOK):
            if process_time() >= deadline:
                solver.stop_search()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def engine_version() -> str:
    """The version that determines an answer within given limits."""
    return version("ortools")
