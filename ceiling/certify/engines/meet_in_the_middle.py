"""Meet in the middle: the sums of two halves of the vectors, by how many are chosen, and their matches."""

from collections.abc import Iterator
from itertools import accumulate
from math import prod
from time import process_time

import numpy as np

from ceiling.certify.balance import Balance, Vector
from ceiling.certify.engines.verdict import NO, OUT_OF_TIME, Verdict
from ceiling.problem import Status

NAME = "meet-in-the-middle"

MOST = 2**22
"""Sums of all stages of a half (32 MB; both halves and the sorting about 150 MB): 42 unlike vectors at any
size, about 50 at size 8, in a few seconds."""

SUMS_PER_SECOND = 3e6
"""Sums that a core makes, sorts and compares in a second, about."""

PRIME = 2**61 - 1
"""Sums are compared modulo this prime: two of them, below, fit an unsigned 64-bit sum. A match of
2^40 pairs by chance has odds of 2^-21, and matches are checked exactly."""

Stage = list[np.ndarray]
"""By the number chosen: the sums modulo `PRIME`, uint64, ascending, each once."""


def refusal(problem: Balance) -> str | None:
    """Why this engine does not take the problem; None where it does."""
    made = max(_sums(problem, half) for half in _halves(problem))
    return f"more than {MOST:,} sums of one half" if made > MOST else None


def cost(problem: Balance) -> float:
    """Seconds it takes, about."""
    return sum(_sums(problem, half) for half in _halves(problem)) / SUMS_PER_SECOND


def solve(problem: Balance, deadline: float, work: float) -> Verdict:
    """Decide by comparing every sum of one half with what the other half lacks.

    Parameters
    ----------
    problem : Balance
    deadline : float
        `process_time` at which to give up.
    work : float
        Unused: the size of the tables is known before.
    """
    rng = np.random.default_rng(0)  # the multipliers need not be secret: matches are checked
    multipliers = [int(r) for r in rng.integers(1, PRIME, len(problem.target))]
    hashes = [_hash(vector, multipliers) for vector in problem.vectors]
    wanted = _hash(problem.target, multipliers)
    halves = _halves(problem)
    sides = []
    for half in halves:
        stages = _stages(problem, half, hashes, deadline)
        if stages is None:
            return OUT_OF_TIME
        sides.append(stages)
    left, right = (stages[-1] for stages in sides)
    for n, sums in enumerate(left):
        if not 0 <= problem.size - n < len(right):
            continue
        lacking = _add(np.uint64(wanted), np.uint64(PRIME) - right[problem.size - n])
        for match in np.intersect1d(sums, lacking).tolist():
            for one in _ways(problem, halves[0], hashes, sides[0], n, match):
                rest = (wanted - match) % PRIME
                for other in _ways(problem, halves[1], hashes, sides[1], problem.size - n, rest):
                    both = one | other
                    chosen = tuple(both[g] for g in range(len(problem.vectors)))
                    if problem.is_met(chosen):
                        return Verdict(Status.YES, chosen)
                    if process_time() > deadline:
                        return OUT_OF_TIME
    return NO


def _hash(vector: Vector, multipliers: list[int]) -> int:
    return sum(a * r for a, r in zip(vector, multipliers, strict=True)) % PRIME


def _add(a: np.uint64 | np.ndarray, b: np.ndarray) -> np.ndarray:
    """``(a + b) mod PRIME`` for a and b at most PRIME: below it, the difference wraps to something large."""
    total = a + b
    return np.minimum(total, total - np.uint64(PRIME))


def _halves(problem: Balance) -> tuple[list[int], list[int]]:
    """The vectors in two parts of about as many choices: the most numerous first, to the smaller part."""
    halves: tuple[list[int], list[int]] = ([], [])
    sizes = [1, 1]
    for g in sorted(range(len(problem.counts)), key=lambda g: (-problem.counts[g], g)):
        side = int(sizes[1] < sizes[0])
        halves[side].append(g)
        sizes[side] *= problem.counts[g] + 1
    return halves


def _sums(problem: Balance, half: list[int]) -> int:
    """A bound on the sums of all stages of a half, counted no further than past `MOST`."""
    ways = [1] + [0] * problem.size  # choices by number
    ranges = [1] * len(problem.target)
    made = 1
    for g in half:
        count = problem.counts[g]
        before = [0, *accumulate(ways)]
        ways = [before[n + 1] - before[max(0, n - count)] for n in range(problem.size + 1)]
        ranges = [r + a * count for r, a in zip(ranges, problem.vectors[g], strict=True)]
        made += min(sum(ways), (problem.size + 1) * prod(ranges))
        if made > MOST:
            break
    return made


def _stages(problem: Balance, half: list[int], hashes: list[int], deadline: float) -> list[Stage] | None:
    """The sums of the first 0, 1, ... vectors of a half; None where the time is up."""
    empty = np.empty(0, dtype=np.uint64)
    stages: list[Stage] = [[np.zeros(1, dtype=np.uint64)]]
    for g in half:
        if process_time() > deadline:
            return None
        last, count = stages[-1], problem.counts[g]
        stage = []
        for n in range(min(problem.size, len(last) - 1 + count) + 1):
            parts = [
                _add(np.uint64(i * hashes[g] % PRIME), last[n - i])
                for i in range(count + 1)
                if 0 <= n - i < len(last)
            ]
            stage.append(np.unique(np.concatenate(parts)) if parts else empty)
        stages.append(stage)
    return stages


def _ways(
    problem: Balance, half: list[int], hashes: list[int], stages: list[Stage], n: int, total: int
) -> Iterator[dict[int, int]]:
    """Every choice of `n` vectors of the half whose sum is `total` modulo PRIME, as numbers by vector."""
    if not half:
        if n == 0 and total == 0:
            yield {}
        return
    *rest, g = half
    before = stages[len(rest)]
    for i in range(min(problem.counts[g], n) + 1):
        lacking = (total - i * hashes[g]) % PRIME
        if n - i < len(before) and _holds(before[n - i], lacking):
            for way in _ways(problem, rest, hashes, stages, n - i, lacking):
                yield way | {g: i}


def _holds(sums: np.ndarray, value: int) -> bool:
    at = int(np.searchsorted(sums, np.uint64(value)))
    return at < len(sums) and int(sums[at]) == value
