"""The zero-error question as it is solved: a choice of equal-sized integer vectors with a given sum."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, isfinite, lcm
from numbers import Rational
from typing import Any

import numpy as np

from ceiling.problem import InputError, check_budget

Vector = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Balance:
    """Choose ``size`` of the vectors, each at most ``counts`` times, so that they sum to ``target``.

    A set A of keys has error zero where ``sum_A P_j (T v_j - M) = 0`` with ``T = sum P``,
    ``M = sum P_j v_j`` (arXiv 2608.25230, section 3, times T). As all sets have one size, each component
    may be shifted and divided by a common factor; as the sum over all keys is zero, a set balances where
    its complement does. Hence vectors are non-negative, equal ones are counted, and the smaller of the
    kept and the dropped set is chosen.

    Attributes
    ----------
    vectors : tuple of tuple of int
        Distinct, of components >= 0, with greatest common divisor 1 in each component.
    members : tuple of tuple of int
        Positions of the keys that have each vector, ascending.
    target : tuple of int
    size : int
        Keys to choose, at least 1.
    dropped : bool
        Whether the chosen keys are those to drop.
    """

    vectors: tuple[Vector, ...]
    members: tuple[tuple[int, ...], ...]
    target: Vector
    size: int
    dropped: bool

    @cached_property
    def counts(self) -> Vector:
        """How many keys have each vector."""
        return tuple(map(len, self.members))

    @cached_property
    def totals(self) -> Vector:
        """Sum of each component over all keys."""
        columns = zip(*self.vectors, strict=True)
        return tuple(sum(a * n for a, n in zip(column, self.counts, strict=True)) for column in columns)

    def is_met(self, chosen: Sequence[int]) -> bool:
        """Whether taking ``chosen[g]`` of every vector has the size and the sum."""
        if len(chosen) != len(self.counts) or sum(chosen) != self.size:
            return False
        if any(not 0 <= n <= most for n, most in zip(chosen, self.counts, strict=True)):
            return False
        columns = zip(*self.vectors, strict=True)
        sums = (sum(a * n for a, n in zip(column, chosen, strict=True)) for column in columns)
        return tuple(sums) == self.target

    def kept(self, chosen: Sequence[int]) -> list[int]:
        """The kept positions, ascending, that such a choice stands for."""
        pairs = list(zip(self.members, chosen, strict=True))
        return sorted(j for group, n in pairs for j in (group[n:] if self.dropped else group[:n]))


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys of positive mass, in whole numbers.

    Attributes
    ----------
    positions : list of int
        Where they stand among the points as given.
    masses : list of int
        In units of a common denominator.
    points : list of tuple of int
        One tuple a key; each component in units of its own common denominator.
    """

    positions: list[int]
    masses: list[int]
    points: list[Vector]

    def __len__(self) -> int:
        return len(self.positions)

    def is_exact(self, kept: Iterable[int]) -> bool:
        """Whether the mean over `kept` is the mean over all keys: the definition, in rational numbers."""
        chosen = set(kept)
        inside = [i for i, j in enumerate(self.positions) if j in chosen]
        return bool(inside) and self._mean(inside) == self._mean(range(len(self)))

    def _mean(self, which: Iterable[int]) -> list[Fraction]:
        which = list(which)
        total = sum(self.masses[i] for i in which)
        columns = range(len(self.points[0]))
        return [Fraction(sum(self.masses[i] * self.points[i][c] for i in which), total) for c in columns]


def read_keys(points: Any, masses: Any = None) -> Keys:
    """Points and masses as exact numbers.

    Parameters
    ----------
    points : array_like, shape (m,) or (m, d)
        Whole numbers, rationals, or floats that are read exactly.
    masses : array_like, shape (m,), optional
        Likewise, non-negative, in any unit; by default all equal. A key of zero mass is no key.

    Returns
    -------
    Keys

    Raises
    ------
    InputError
        Naming the first number that is wrong.
    """
    rows = [_vector(f"points[{j}]", point) for j, point in enumerate(_listed("points", points))]
    if not rows:
        raise InputError("points: empty; at least one is needed")
    for j, row in enumerate(rows):
        if len(row) != len(rows[0]) or not row:
            raise InputError(f"points[{j}]: {len(row)} components, expected {len(rows[0]) or 'at least 1'}")
    weights = [Fraction(1)] * len(rows)
    if masses is not None:
        weights = [_number(f"masses[{j}]", mass) for j, mass in enumerate(_listed("masses", masses))]
        if len(weights) != len(rows):
            raise InputError(f"masses: {len(weights)} for {len(rows)} points; lengths must agree")
    if (bad := next((j for j, mass in enumerate(weights) if mass < 0), None)) is not None:
        raise InputError(f"masses[{bad}]: {weights[bad]} is negative; masses are >= 0")
    positions = [j for j, mass in enumerate(weights) if mass > 0]
    if not positions:
        raise InputError("masses: all are zero; a key of zero mass is no key")
    columns = [_whole([rows[j][c] for j in positions]) for c in range(len(rows[0]))]
    return Keys(positions, _whole([weights[j] for j in positions]), list(zip(*columns, strict=True)))


def balance_of(keys: Keys, s: int) -> Balance | None:
    """The choice that decides whether some set of `s` keys, fewer than all, has error zero.

    Returns
    -------
    Balance or None
        None where no sum can be right: in some component all sums miss it by less than their common step.
    """
    s = check_budget(s)
    size = min(s, len(keys) - s)
    total = sum(keys.masses)
    columns, target = [], []
    for values in zip(*keys.points, strict=True):
        moment = sum(p * v for p, v in zip(keys.masses, values, strict=True))
        column = [p * (total * v - moment) for p, v in zip(keys.masses, values, strict=True)]
        least = min(column)
        step = gcd(*(w - least for w in column))
        if step == 0:
            continue  # equal everywhere, hence zero
        if -size * least % step:
            return None
        columns.append([(w - least) // step for w in column])
        target.append(-size * least // step)
    groups: dict[Vector, list[int]] = {}
    for i, position in enumerate(keys.positions):
        groups.setdefault(tuple(column[i] for column in columns), []).append(position)
    members = tuple(tuple(group) for group in groups.values())
    return Balance(tuple(groups), members, tuple(target), size, size < s)


def _listed(field: str, array: Any) -> list[Any]:
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    if hasattr(array, "tolist"):
        array = array.tolist()  # numbers of numpy and torch become Python's, floats exactly
    if isinstance(array, str | bytes) or not isinstance(array, Iterable):
        raise InputError(f"{field}: {array!r} is not a list of numbers")
    return list(array)


def _vector(field: str, point: Any) -> list[Fraction]:
    if isinstance(point, Iterable) and not isinstance(point, str | bytes):
        return [_number(f"{field}[{c}]", x) for c, x in enumerate(_listed(field, point))]
    return [_number(field, point)]


def _number(field: str, x: Any) -> Fraction:
    if isinstance(x, float | np.floating):
        if not isfinite(x):
            raise InputError(f"{field}: {x} is not finite")
        return Fraction(*x.as_integer_ratio())
    if isinstance(x, np.integer):
        return Fraction(int(x))
    if type(x) is not bool and isinstance(x, Rational):
        return Fraction(x)
    raise InputError(f"{field}: {x!r} is not a whole number, a rational or a float")


def _whole(numbers: Sequence[Fraction]) -> list[int]:
    unit = lcm(*(x.denominator for x in numbers))
    return [x.numerator * (unit // x.denominator) for x in numbers]
