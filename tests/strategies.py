"""Hypothesis strategies for small rows, and what it means to agree with the oracle."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from hypothesis import strategies as st

import ceiling
from tests import oracle

GRID = 64
"""Grid masses are multiples of 1/GRID, a power of two: masses, means and residuals of whole-number
values are exact in float64, so the product meets exact ties and exact zeros, not nearly so."""

AGREE = 1e-9
"""How far a product error may stray from the exact one (relative); the promise of the project."""

NOISE = 1e-14
"""Below this many sigma an error is the rounding of an exact zero (units of sigma)."""


@dataclass(frozen=True)
class Problem:
    """A row as plain lists, so that hypothesis prints what to paste, and a budget."""

    masses: list[float]
    values: list[list[float]]
    s: int

    @property
    def row(self) -> ceiling.Row:
        """The row as the product reads it."""
        return ceiling.Row(np.array(self.masses), np.array(self.values))

    @property
    def exact(self) -> oracle.Exact:
        """The row as the oracle reads it."""
        return oracle.exact(self.masses, self.values)


@st.composite
def grid_problems(draw: st.DrawFn, *, least: int = 1, most: int = 7, spread: int = 4) -> Problem:
    """Masses on the grid (zeros among them), small whole values: ties and duplicates abound."""
    n = draw(st.integers(least, most))
    d = draw(st.integers(1, 3))
    cuts = sorted(draw(st.lists(st.integers(0, GRID), min_size=n - 1, max_size=n - 1)))
    masses = [float(b - a) / GRID for a, b in zip([0, *cuts], [*cuts, GRID], strict=True)]
    point = st.lists(st.integers(-spread, spread).map(float), min_size=d, max_size=d)
    values = draw(st.lists(point, min_size=n, max_size=n))
    return Problem(masses, values, draw(st.integers(1, sum(p > 0 for p in masses))))


@st.composite
def wild_problems(draw: st.DrawFn, *, least: int = 2, most: int = 7) -> Problem:
    """Masses over twelve decades and generic values; every other row has one key far outside."""
    n = draw(st.integers(least, most))
    d = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    masses = 10.0 ** rng.uniform(-12, 0, n)
    values = rng.standard_normal((n, d))
    if draw(st.booleans()):
        values[np.argmin(masses)] *= 4e3
    return Problem((masses / masses.sum()).tolist(), values.tolist(), draw(st.integers(1, n - 1)))


def close(error: float, squared: Fraction, row: oracle.Exact) -> bool:
    """Whether a product error is the root of an exact squared one."""
    return abs(error - sqrt(squared)) <= AGREE * sqrt(squared) + NOISE * sqrt(row.variance)


def same_set(kept: Iterable[int], wanted: Iterable[int], row: oracle.Exact) -> bool:
    """Equal sets; or, where the second best is within `AGREE`, equal errors."""
    kept, wanted = tuple(kept), tuple(wanted)
    if kept == wanted:
        return True
    return close(sqrt(oracle.forced(row, kept)), oracle.forced(row, wanted), row)
