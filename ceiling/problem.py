"""The validated data of a problem: rows, budgets, kept sets, answers and their status."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np

MASS_SUM_TOLERANCE = 1e-3
"""How far from 1 the masses of a row may sum (probability): a softmax in bfloat16 strays about
4e-3 relative per term but sums far closer; anything beyond is not a softmax row."""


SMALLEST, LARGEST = 1e-60, 1e100
"""Bounds of positive masses and of the largest value: inside, the square of a mass times a rounding of a
value, 1e-272, does not underflow, nor do sums of squares overflow, on which exactness rests."""


class InputError(ValueError):
    """Bad input: names the field, the value and what would be right (exit code 2)."""


class Status(StrEnum):
    """How an answer ended; one table for the whole project."""

    EXACT = "exact"  # every subset of the candidate pool is covered
    TRIVIAL = "trivial"  # at most `s` keys: all are kept, error 0
    OPTIMAL = "optimal"  # upper <= lower * (1 + gap), proved; the gap is 1e-6 unless asked
    GAP = "gap"  # the interval is still open
    DEGENERATE = "degenerate"  # top-mass error below what captured masses resolve
    YES = "yes"  # zero error is reached (witness checked)
    NO = "no"  # zero error is impossible (proved)
    UNKNOWN = "unknown"  # undecided within the limits


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One attention row: the softmax weights of one query and the values they weigh.

    Parameters
    ----------
    masses : array_like or torch.Tensor, shape (N,)
        Softmax weights ``p``, finite and non-negative, summing to 1 within 1e-3. They are read
        as exact numbers and divided by their exact float64 sum.
    values : array_like or torch.Tensor, shape (N, d)
        Value vectors ``v_j`` of the row's KV head, finite.

    Attributes
    ----------
    masses : ndarray of float64, shape (N,)
        Normalised, read-only.
    values : ndarray of float64, shape (N, d)
        Read-only.

    Raises
    ------
    InputError
        Naming the field and the value that is wrong.

    Notes
    -----
    Keys of zero mass are no keys: they are never kept and not counted. Positions always refer to
    the arrays as given (arXiv 2608.25230, section 3: p > 0).
    """

    masses: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        masses = _floats("masses", self.masses, ndim=1)
        values = _floats("values", self.values, ndim=2)
        if len(masses) == 0:
            raise InputError("masses: empty; a row needs at least one key")
        if len(values) != len(masses):
            raise InputError(f"values: {len(values)} rows for {len(masses)} masses; lengths must agree")
        if values.shape[1] == 0:
            raise InputError("values: dimension 0; a value vector needs at least one component")
        if (negative := masses < 0).any():
            j = int(np.argmax(negative))
            raise InputError(f"masses[{j}]: {masses[j]:g} is negative; softmax weights are >= 0")
        if (tiny := (masses > 0) & (masses < SMALLEST)).any():
            j = int(np.argmax(tiny))
            raise InputError(f"masses[{j}]: {masses[j]:g} is below {SMALLEST:g}; write 0, which is no key")
        if (largest := np.abs(values).max()) > LARGEST or 0 < largest < SMALLEST:
            raise InputError(
                f"values: the largest is {largest:g}; rescale it into {SMALLEST:g} .. {LARGEST:g}, "
                "errors scale along"
            )
        total = fsum(masses)
        if abs(total - 1) > MASS_SUM_TOLERANCE:
            raise InputError(f"masses: sum is {total:.6g}; it must be 1 within {MASS_SUM_TOLERANCE}")
        masses = masses / total
        masses.flags.writeable = False
        values.flags.writeable = False
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "values", values)

    @property
    def n_keys(self) -> int:
        """Number of keys of positive mass."""
        return int(np.count_nonzero(self.masses))


@dataclass(frozen=True, eq=False, slots=True)
class Answer:
    """What a search found.

    Attributes
    ----------
    error : float
        Forced error of `kept`, the direct float64 sum over ascending positions, in the units of
        the values.
    kept : ndarray of int64, shape (s,)
        Kept positions, ascending.
    subsets : int
        How many subsets were evaluated.
    ties : int
        How many sets reach `error` within the tie tolerance, `kept` included.
    status : Status
    swaps : int or None
        Swaps made, for answers found by swapping.
    excluded : int
        How many subsets were excluded by proof, not evaluated.
    """

    error: float
    kept: np.ndarray
    subsets: int
    ties: int
    status: Status
    swaps: int | None = None
    excluded: int = 0


def check_budget(s: int, *, field: str = "s") -> int:
    """Return `s` as int, or raise `InputError`: budgets are whole numbers >= 1."""
    if isinstance(s, bool) or not isinstance(s, int | np.integer):
        raise InputError(f"{field}: {s!r} is not a whole number; a budget counts kept keys")
    if s < 1:
        raise InputError(f"{field}: {s} is not positive; at least 1 is needed")
    return int(s)


def check_budgets(budgets: Sequence[int]) -> tuple[int, ...]:
    """Return the budgets ascending, or raise `InputError` (none, not whole, <= 0, repeated)."""
    checked = tuple(sorted(check_budget(s, field="budgets") for s in budgets))
    if not checked:
        raise InputError("budgets: none given; name at least one, e.g. 4,8,16,32")
    for a, b in pairwise(checked):
        if a == b:
            raise InputError(f"budgets: {a} is repeated; name each budget once")
    return checked


def check_kept(row: Row, kept: Iterable[int]) -> np.ndarray:
    """Return `kept` as ascending int64 positions of positive-mass keys, or raise `InputError`."""
    raw = np.asarray(list(kept) if not isinstance(kept, np.ndarray) else kept)
    if raw.ndim != 1 or raw.size == 0:
        raise InputError("kept: needs a flat, non-empty list of positions")
    if raw.dtype.kind not in "iu":
        raise InputError(f"kept: {raw.dtype} entries; positions are whole numbers")
    positions = np.sort(raw.astype(np.int64))
    if positions[0] < 0 or positions[-1] >= len(row.masses):
        bad = positions[0] if positions[0] < 0 else positions[-1]
        raise InputError(f"kept: position {bad} is outside 0..{len(row.masses) - 1}")
    if (repeated := positions[1:] == positions[:-1]).any():
        raise InputError(f"kept: position {positions[1:][repeated][0]} is repeated")
    if (zero := row.masses[positions] == 0).any():
        raise InputError(f"kept: position {positions[zero][0]} has zero mass; it is no key of this row")
    return positions


def _floats(field: str, array: Any, *, ndim: int) -> np.ndarray:
    """A private float64 copy of `array`, finite and of `ndim` dimensions."""
    if hasattr(array, "detach"):  # a torch tensor, perhaps in bfloat16, on a device or with a gradient
        array = array.detach().cpu().double().numpy()
    try:
        if np.iscomplexobj(array):
            raise TypeError("complex numbers")
        out = np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{field}: not an array of numbers ({error})") from None
    if out.ndim != ndim:
        raise InputError(f"{field}: {out.ndim} dimensions, expected {ndim}")
    if not np.isfinite(out).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise InputError(f"{field}{list(where)}: {out[where]} is not finite")
    return out
