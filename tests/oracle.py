"""The oracle: every definition in exact rational arithmetic, by trying everything.

It imports nothing but the standard library, shares no code with the package and is slow on
purpose. Errors are returned *squared*, as fractions, so that no root is ever taken; the one
exception is `brute_force`, the plain float64 twin for rows too wide for fractions.
Definitions: arXiv 2608.25230, section 3; candidate pools and balancing: section 4.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, fsum, hypot, sqrt
from typing import Any, NamedTuple

TIE = Fraction(1, 10**12)
"""Errors within this share of the least one tie (relative): float64 sums of a few dozen terms
agree to about 1e-15, so equal errors are always inside and float noise never decides."""

ZERO = Fraction(1, 10**14)
"""Errors up to this many sigma are zero (units of sigma): what rounding leaves of an exact zero."""

POOL_EXTRA = {4: 24, 8: 12, 16: 6, 32: 4}
POOL_EXTRA_MOST = 24
POOL_SUBSETS_MOST = 200_000

Point = tuple[Fraction, ...]
Kept = tuple[int, ...]


class Exact(NamedTuple):
    """A row as fractions: masses summing to 1, values around the dense output, their variance."""

    masses: Point
    centred: tuple[Point, ...]
    variance: Fraction

    @property
    def keys(self) -> list[int]:
        """Positions of positive mass."""
        return [j for j, p in enumerate(self.masses) if p > 0]


class Best(NamedTuple):
    """An optimum: squared error, kept set, subsets tried and how many of them tie (or the swaps)."""

    squared: Fraction
    kept: Kept
    subsets: int = 1
    ties: int = 1
    swaps: int = 0


def exact(masses: Iterable[Any], values: Iterable[Iterable[Any]]) -> Exact:
    """Read a row of ints, floats, fractions or strings such as "9/20" as exact numbers."""
    raw = [Fraction(p) for p in masses]
    total = sum(raw)
    p = tuple(m / total for m in raw)
    v = [tuple(Fraction(x) for x in point) for point in values]
    mean = [dot(p, column) for column in zip(*v, strict=True)]
    centred = tuple(tuple(x - m for x, m in zip(point, mean, strict=True)) for point in v)
    variance = sum((q * dot(c, c) for q, c in zip(p, centred, strict=True)), Fraction())
    return Exact(p, centred, variance)


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    """Inner product."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction())


def mass(row: Exact, kept: Iterable[int]) -> Fraction:
    """p(A)."""
    return sum((row.masses[j] for j in kept), Fraction())


def residual(row: Exact, kept: Iterable[int]) -> Point:
    """g_A, the sum over A of z_j = p_j (v_j - mu)."""
    z = [[row.masses[j] * x for x in row.centred[j]] for j in kept]
    return tuple(sum(column, Fraction()) for column in zip(*z, strict=True))


def forced(row: Exact, kept: Iterable[int]) -> Fraction:
    """Squared forced error, (|g_A| / p(A))^2."""
    kept = tuple(kept)
    g = residual(row, kept)
    return dot(g, g) / mass(row, kept) ** 2


def free(row: Exact, kept: Iterable[int]) -> Fraction:
    """Squared free error: distance from mu to the hull of the kept values.

    The nearest point of a hull is the nearest point of the affine hull of some affinely
    independent subset, where its weights come out non-negative; so try every subset.
    """
    kept = tuple(kept)
    supports = [t for size in range(1, len(kept) + 1) for t in combinations(kept, size)]
    return min(squared for t in supports if (squared := _affine(row, t)) is not None)


def _affine(row: Exact, support: Kept) -> Fraction | None:
    """Squared distance to an affine hull, or None: weights negative or points dependent."""
    points = [row.centred[j] for j in support]
    one = Fraction(1)
    system = [[dot(a, b) for b in points] + [one, Fraction()] for a in points]
    system.append([one] * len(points) + [Fraction(), one])
    solution = _solve(system)
    if solution is None or min(weights := solution[:-1]) < 0:
        return None
    nearest = [dot(weights, column) for column in zip(*points, strict=True)]
    return dot(nearest, nearest)


def _solve(system: list[list[Fraction]]) -> list[Fraction] | None:
    """Gauss-Jordan on [A | b]; None where A is singular."""
    size = len(system)
    for i in range(size):
        pivot = next((r for r in range(i, size) if system[r][i] != 0), None)
        if pivot is None:
            return None
        system[i], system[pivot] = system[pivot], system[i]
        system[i] = [x / system[i][i] for x in system[i]]
        for r in range(size):
            if r != i and (factor := system[r][i]) != 0:
                system[r] = [x - factor * y for x, y in zip(system[r], system[i], strict=True)]
    return [line[-1] for line in system]


def top_mass(row: Exact, s: int) -> Kept:
    """The s heaviest keys, ties to the lowest position."""
    return tuple(sorted(sorted(row.keys, key=lambda j: (-row.masses[j], j))[:s]))


def extra_of(s: int) -> int:
    """The default number of further keys in a pool."""
    fits = [e for e in range(POOL_EXTRA_MOST + 1) if comb(s + e, s) <= POOL_SUBSETS_MOST]
    return POOL_EXTRA.get(s, max(fits))


def pool(row: Exact, s: int, extra: int | None = None) -> Kept:
    """Top-mass and the further keys of largest p_j |v_j - mu|, ties to the lowest position."""
    top = top_mass(row, s)
    rest = [j for j in row.keys if j not in top]
    rest.sort(key=lambda j: (-(row.masses[j] ** 2) * dot(row.centred[j], row.centred[j]), j))
    return tuple(sorted(top + tuple(rest[: extra_of(s) if extra is None else extra])))


def tied(row: Exact, least: Fraction, squared: Fraction) -> bool:
    """Whether a squared error ties with the least one."""
    return squared <= max(least * (1 + TIE) ** 2, ZERO**2 * row.variance)


def best(row: Exact, candidates: Iterable[int], s: int) -> Best:
    """Least forced error over all subsets of size s, the lexicographically smallest of the tied."""
    if len(row.keys) <= s:
        return Best(Fraction(), tuple(row.keys))
    errors = {kept: forced(row, kept) for kept in combinations(sorted(candidates), s)}
    least = min(errors.values())
    ties = [kept for kept, squared in errors.items() if tied(row, least, squared)]
    return Best(errors[ties[0]], ties[0], len(errors), len(ties))


def balance(row: Exact, candidates: Iterable[int], s: int) -> Best:
    """From top-mass, make the swap that lowers the error most until none lowers it."""
    if len(row.keys) <= s:
        return Best(Fraction(), tuple(row.keys))
    candidates, swaps = set(candidates), 0
    kept = top_mass(row, s)
    while True:
        rest = candidates - set(kept)
        near = [tuple(sorted({*kept, j} - {i})) for i in kept for j in rest]
        errors = {other: forced(row, other) for other in [*near, kept]}
        least = min(errors.values())
        if tied(row, least, errors[kept]):
            return Best(errors[kept], kept, swaps=swaps)
        kept, swaps = min(other for other in near if tied(row, least, errors[other])), swaps + 1


def brute_force(
    masses: Sequence[float], values: Sequence[Sequence[float]], candidates: Iterable[int], s: int
) -> tuple[float, Kept, int, int]:
    """The float64 twin of `best`: (error, kept, subsets, ties)."""
    total = fsum(masses)
    p = [m / total for m in masses]
    heaviest = values[max(range(len(p)), key=p.__getitem__)]  # the origin: nearly all mass keeps its digits
    shifted = [[x - o for x, o in zip(point, heaviest, strict=True)] for point in values]
    mean = [fsum(q * x for q, x in zip(p, column, strict=True)) for column in zip(*shifted, strict=True)]
    centred = [[x - m for x, m in zip(point, mean, strict=True)] for point in shifted]
    sigma = sqrt(fsum(q * x * x for q, c in zip(p, centred, strict=True) for x in c))
    z = [[q * x for x in c] for q, c in zip(p, centred, strict=True)]
    errors = {}
    for kept in combinations(sorted(candidates), s):
        g = [fsum(column) for column in zip(*(z[j] for j in kept), strict=True)]
        errors[kept] = hypot(*g) / fsum(p[j] for j in kept)
    bound = max(min(errors.values()) * (1 + float(TIE)), float(ZERO) * sigma)
    ties = [kept for kept, error in errors.items() if error <= bound]
    return errors[ties[0]], ties[0], len(errors), len(ties)
