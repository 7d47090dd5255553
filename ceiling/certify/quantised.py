"""A captured row in whole numbers: masses and values rounded to b bits, for exact questions."""

import numpy as np

from ceiling.certify.balance import Keys
from ceiling.problem import InputError, Row

LEAST_BITS, MOST_BITS = 2, 16
"""Bits a number: with one there are no signs; float32 masses and bfloat16 values have little more to say
than sixteen, and three times as many bits, with the keys' own, then still fit the 64 of an engine."""


def check_bits(bits: int) -> int:
    """Return `bits` as int, or raise `InputError`."""
    if isinstance(bits, bool) or not isinstance(bits, int | np.integer):
        raise InputError(f"bits: {bits!r} is not a whole number")
    if not LEAST_BITS <= bits <= MOST_BITS:
        raise InputError(f"bits: {bits} is outside {LEAST_BITS}..{MOST_BITS}")
    return int(bits)


def quantise(row: Row, bits: int) -> Keys:
    """Round a row's masses and values.

    Parameters
    ----------
    row : Row
    bits : int
        Masses become multiples of ``2^-bits``; values multiples of ``r / (2^(bits - 1) - 1)``, r the
        largest component of a visible value. Halves round to even.

    Returns
    -------
    Keys
        Those of positive rounded mass, as positions of the row: a key of none would make zero errors that
        mean nothing. There may be none at all, where the row is flat.
    """
    bits = check_bits(bits)
    masses = np.rint(row.masses * 2**bits).astype(np.int64)
    positions = np.flatnonzero(masses)
    largest = np.abs(row.values[row.masses > 0]).max()
    scale = (2 ** (bits - 1) - 1) / largest if largest > 0 else 0.0
    points = np.rint(row.values[positions] * scale).astype(np.int64)
    return Keys(positions.tolist(), masses[positions].tolist(), [tuple(point) for point in points.tolist()])
