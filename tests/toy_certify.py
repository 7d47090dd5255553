"""A solver and a checker in two lines each, for tests of what surrounds the real ones."""

from typing import Any

import numpy as np

from ceiling.certify import Certificate
from ceiling.objective import forced_error, top_mass
from ceiling.problem import Row, Status

CLAIM = 0.75
"""What the toy solver says of ES(s), in units of the top-mass error; no toy row is that bad."""


def toy_certify(row: Row, s: int, *, mass_floor: float | None = None, **limits: Any) -> Certificate:
    """Top-mass, and a lower bound that the proof repeats."""
    kept = top_mass(row, s)
    upper = forced_error(row, kept)
    if len(kept) == row.n_keys:
        return Certificate(0.0, 0.0, kept, Status.TRIVIAL, 0, 0.0, "none", mass_floor, None)
    lower = CLAIM * upper
    return Certificate(lower, upper, kept, Status.GAP, 7, 0.5, "nodes", mass_floor, lower.hex().encode())


def toy_check(
    masses: np.ndarray,
    values: np.ndarray,
    s: int,
    lower: float,
    upper: float,
    kept: np.ndarray,
    mass_floor: float | None,
    proof: bytes,
) -> str | None:
    """Whether the proof repeats the bound, and the set has its error."""
    if lower.hex().encode() != proof:
        return "the proof is of another bound"
    found = forced_error(Row(masses, values), kept)
    return None if abs(found - upper) <= 1e-12 * upper else f"the kept set has error {found}"
