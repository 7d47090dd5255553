"""Restriction: most keys are decided at random, the rest exactly; finds a yes among many, proves no no."""

from math import log2

import numpy as np

from ceiling.certify.balance import Balance
from ceiling.certify.engines import meet_in_the_middle
from ceiling.certify.engines.verdict import Verdict
from ceiling.problem import Status

NAME = "restriction"

FREE = 38
"""Keys left to decide: half a second a try."""

TRIES_PER_WORK = 0.4
"""Tries a unit of work, which stands for about a second; the first mostly succeeds or none does."""

DRAWS = 64
"""Random choices of the decided keys, of which the one that leaves the likeliest sum is tried."""


def refusal(problem: Balance) -> str | None:
    """Why this engine does not take the problem; None where it does."""
    keys = sum(problem.counts)
    if keys <= FREE:
        return f"{keys} keys; more than {FREE} are needed"
    sums = sum(log2(1 + total * FREE / keys) for total in problem.totals)
    if sums > FREE:
        return f"2^{sums:.0f} sums for the 2^{FREE} sets of {FREE} keys; a match is unlikely"
    return None


def cost(problem: Balance) -> float:
    """Seconds of one try, about."""
    return 0.5


def solve(problem: Balance, deadline: float, work: float) -> Verdict:
    """Try a few restrictions, the same in every run.

    Parameters
    ----------
    problem : Balance
    deadline : float
        `process_time` at which to give up.
    work : float
        About a second each.
    """
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(problem.counts)), problem.counts)
    for _ in range(max(1, round(work * TRIES_PER_WORK))):
        order = rng.permutation(groups)
        free, decided = order[:FREE], order[FREE:]
        taken = round(problem.size * len(decided) / len(order))
        taken = min(max(taken, problem.size - FREE), problem.size)
        draws = [rng.permutation(decided)[:taken].tolist() for _ in range(DRAWS)]
        chosen = min(draws, key=lambda draw: _miss(problem, draw, free.tolist()))
        verdict = meet_in_the_middle.solve(_rest(problem, chosen, free.tolist()), deadline, work)
        if verdict.stopped_by == "seconds":
            return verdict
        if verdict.chosen is not None:
            numbers = np.bincount(chosen, minlength=len(problem.counts))
            numbers[np.unique(free)] += verdict.chosen
            return Verdict(Status.YES, tuple(numbers.tolist()))
    return Verdict(Status.UNKNOWN, None, "nodes")


def _lacking(problem: Balance, chosen: list[int]) -> list[int]:
    """What the sum of the chosen keys lacks, by component."""
    columns = zip(*problem.vectors, strict=True)
    return [
        total - sum(column[g] for g in chosen) for column, total in zip(columns, problem.target, strict=True)
    ]


def _miss(problem: Balance, chosen: list[int], free: list[int]) -> float:
    """How far from the mean sum of the free keys the wanted one is, in units of their total."""
    share = (problem.size - len(chosen)) / len(free)
    columns = zip(*problem.vectors, strict=True)
    sums = (sum(column[g] for g in free) for column in columns)
    pairs = zip(_lacking(problem, chosen), sums, strict=True)
    return sum((abs(lacking - share * total) / (1 + total)) ** 2 for lacking, total in pairs)


def _rest(problem: Balance, chosen: list[int], free: list[int]) -> Balance:
    """The problem of the free keys, by vector ascending."""
    groups, counts = np.unique(free, return_counts=True)
    vectors = tuple(problem.vectors[g] for g in groups)
    members = tuple(problem.members[g][:n] for g, n in zip(groups, counts, strict=True))
    return Balance(
        vectors, members, tuple(_lacking(problem, chosen)), problem.size - len(chosen), problem.dropped
    )
