"""The class behind the hardness proof: PARTITION, padded with zeros, as a zero-error question."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ceiling.certify.balance import Balance, balance_of, read_keys
from ceiling.certify.engines import meet_in_the_middle as exact
from ceiling.problem import InputError, Status

PROVABLE = 30
"""Numbers up to which a random instance is proved by comparing all sums of its halves: 2^15 of them, by how
many of as many zeros join them."""

SPARSE = 8
"""Bits by which numbers must exceed their count for random ones to have a partition once in 2^8 or less."""

HIDDEN_BITS = 5
"""Bits that a hidden obstruction needs at least: a base of 5 or more, and three multiples of it."""


@dataclass(frozen=True)
class Instance:
    """Points on a line with equal masses, a budget, and the answer.

    Attributes
    ----------
    points : tuple of int
    s : int
        Half the points.
    zero_error : bool
    witness : tuple of int or None
        Ascending positions of a set of zero error, where there is one.
    reason : str
        What certifies the answer: ``planted``; ``proved``, by comparing all sums; ``hidden``, by
        construction: see `certified_no`.
    """

    points: tuple[int, ...]
    s: int
    zero_error: bool
    witness: tuple[int, ...] | None
    reason: str


def reduce_partition(numbers: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The zero-error question that is yes exactly where the numbers split into two of equal sum.

    Parameters
    ----------
    numbers : sequence of int
        Positive.

    Returns
    -------
    points : tuple of int
        The numbers, then as many zeros: they let a half of the numbers be of any size.
    s : int
        Half the points. Errors of sets of this size are multiples of ``1 / len(points)``, and of any size
        s of ``1 / (len(points) s)``.
    """
    return (*numbers, *[0] * len(numbers)), len(numbers)


def planted_yes(m: int, bits: int, seed: int) -> Instance:
    """An instance of `m` points of at most `bits` bits with a hidden set of zero error.

    Raises
    ------
    InputError
        When `m` is odd or below 4, or there are fewer than 2 bits.
    """
    n, rng = _sizes(m, bits, least_bits=2, least=4), np.random.default_rng([seed, m, bits, 1])
    most = 2**bits - 1
    signs = rng.permutation([1 if j < (n + 1) // 2 else -1 for j in range(n)]).tolist()
    numbers = [_draw(rng, most) for _ in range(n)]
    while excess := sum(a * b for a, b in zip(signs, numbers, strict=True)):
        for left, j in zip(range(n, 0, -1), rng.permutation(n).tolist(), strict=True):
            step = -signs[j] * -(-abs(excess) // left) * (1 if excess > 0 else -1)  # its share, rounded up
            moved = min(max(numbers[j] + step, 1), most) - numbers[j]
            numbers[j] += moved
            excess += signs[j] * moved
            if excess == 0:
                break
    kept = [j for j in range(n) if signs[j] > 0]
    return _instance(rng, numbers, "planted", kept)


def certified_no(m: int, bits: int, seed: int) -> Instance:
    """An instance of `m` points of at most `bits` bits without a set of zero error, of even total.

    Where numbers are few and long, random ones, proved by comparing all sums. Else a parity hidden in the
    last digit to a secret odd base q: number j is ``q f_j + 2 t_j`` with ``2 sum t < q``, so a partition
    would split the t too, whose sum is odd. No common factor and no parity of the numbers gives it away.

    Raises
    ------
    InputError
        When `m` is odd or below 6, or there are too few bits.
    """
    n, rng = _sizes(m, bits, HIDDEN_BITS, least=6), np.random.default_rng([seed, m, bits, 0])
    while n <= PROVABLE and bits >= n + SPARSE:
        numbers = [_draw(rng, 2**bits - 1) for _ in range(n)]
        numbers[0] -= (sum(numbers) % 2) * (1 if numbers[0] > 1 else -1)
        problem = _balance(numbers)
        if problem is not None and exact.solve(problem, inf, 0).status == Status.NO:
            return _instance(rng, numbers, "proved")
    while _balance(numbers := _hidden(rng, n, bits)) is None:
        pass  # too few small numbers share a factor now and then
    return _instance(rng, numbers, "hidden")


def _hidden(rng: np.random.Generator, n: int, bits: int) -> list[int]:
    """Numbers ``q f + 2 t`` of even total, with ``2 sum t < q`` and an odd sum of the t."""
    length = 2 * bits // 3
    q = 2 ** (length - 1) + 2 * _draw(rng, 2 ** (length - 2)) - 1
    most = (q - 1) // 2
    some = min(n, most)
    halves = [_draw(rng, most // some) for _ in range(some)] + [0] * (n - some)
    halves[0] -= 1 - sum(halves) % 2
    factors = [_draw(rng, (2**bits - q) // q) for _ in range(n)]
    if sum(factors) % 2:
        factors[0] += 1 if factors[0] == 1 else -1
    return [q * factor + 2 * half for factor, half in zip(factors, halves, strict=True)]


def _balance(numbers: Sequence[int]) -> Balance | None:
    points, s = reduce_partition(numbers)
    return balance_of(read_keys(points), s)


def _sizes(m: int, bits: int, least_bits: int, least: int) -> int:
    """How many numbers give `m` points, or `InputError`."""
    for field, value, lowest in (("m", m, least), ("bits", bits, least_bits)):
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise InputError(f"{field}: {value!r} is not a whole number of at least {lowest}")
    if m % 2:
        raise InputError(f"m: {m} is odd; half of the points are kept")
    return m // 2


def _draw(rng: np.random.Generator, most: int) -> int:
    """A whole number in 1 .. most of any length, but for a bias of 2^-64 uniform."""
    return 1 + int.from_bytes(rng.bytes(most.bit_length() // 8 + 9), "little") % most


def _instance(
    rng: np.random.Generator, numbers: Sequence[int], reason: str, half: Sequence[int] | None = None
) -> Instance:
    """The padded points in random order; `half` are numbers that sum to half of the total."""
    points, s = reduce_partition(numbers)
    order = rng.permutation(len(points)).tolist()
    witness = None
    if half is not None:
        chosen = {*half, *range(s, 2 * s - len(half))}
        witness = tuple(place for place, j in enumerate(order) if j in chosen)
    return Instance(tuple(points[j] for j in order), s, half is not None, witness, reason)
