"""Dynamic programming over all sums that can be reached, one bit each."""

from math import isqrt, prod
from time import process_time

from ceiling.certify.balance import Balance
from ceiling.certify.engines.verdict import NO, OUT_OF_TIME, Verdict
from ceiling.problem import Status

NAME = "subset-sum"

MEMORY = 2**28
"""Bytes of bits that are held at once at most."""

STEPS = 2**33
"""Bytes that all the additions together move at most: a few seconds."""

BITS_PER_SECOND = 1e10
"""Bits of all additions that a core moves in a second, about: more while they fit its caches."""


def refusal(problem: Balance) -> str | None:
    """Why this engine does not take the problem; None where it does."""
    size, keys = _bits(problem) // 8 + 1, sum(problem.counts)
    held, moved = size * (2 * isqrt(len(problem.counts)) + 4), size * keys
    if held > MEMORY:
        return f"tables of about 2^{held.bit_length()} bytes; at most {MEMORY:,} are held"
    return (
        f"about 2^{moved.bit_length()} bytes to move; at most {STEPS:,} are moved" if moved > STEPS else None
    )


def cost(problem: Balance) -> float:
    """Seconds it takes, about."""
    return _bits(problem) * sum(problem.counts) / BITS_PER_SECOND


def solve(problem: Balance, deadline: float, work: float) -> Verdict:
    """Decide by marking what every further vector reaches.

    A number of vectors and their sum are one key, in mixed radix with the number as its highest digit;
    adding a vector adds to the key, as no digit overflows.

    Parameters
    ----------
    problem : Balance
    deadline : float
        `process_time` at which to give up.
    work : float
        Unused: the size of the tables is known before.
    """
    strides = _strides(problem)
    keys = [_key(strides, 1, vector) for vector in problem.vectors]
    wanted = _key(strides, problem.size, problem.target)
    within = (1 << (wanted + 1)) - 1
    steps = list(zip(keys, problem.counts, strict=True))
    stride = isqrt(len(steps)) + 1
    marks = [1]  # the reached keys before every block of vectors
    reached = 1
    for g, step in enumerate(steps):
        if process_time() > deadline:
            return OUT_OF_TIME
        reached = _extended(reached, *step) & within
        if (g + 1) % stride == 0:
            marks.append(reached)
    if not reached >> wanted:
        return NO
    chosen: list[int] = []
    for block in reversed(range(len(marks))):  # backwards, each block's sets made once more
        first = block * stride
        sets = [marks[block]]
        for step in steps[first : first + stride]:
            sets.append(_extended(sets[-1], *step) & within)
        for g in reversed(range(first, min(first + stride, len(steps)))):
            before, (key, _) = sets[g - first], steps[g]
            n = 0
            while not before >> (wanted - n * key) & 1:
                n += 1
            wanted -= n * key
            chosen.append(n)
    return Verdict(Status.YES, tuple(reversed(chosen)))


def _strides(problem: Balance) -> list[int]:
    """Value of a one in each component, lowest first, then of one more vector."""
    strides = [1]
    for total in problem.totals:
        strides.append(strides[-1] * (total + 1))
    return strides


def _key(strides: list[int], n: int, vector: tuple[int, ...]) -> int:
    return sum(a * stride for a, stride in zip((*vector, n), strides, strict=True))


def _bits(problem: Balance) -> int:
    return (problem.size + 1) * prod(total + 1 for total in problem.totals)


def _extended(reached: int, key: int, count: int) -> int:
    """What up to `count` additions of `key` reach."""
    for _ in range(count):
        reached |= reached << key
    return reached
