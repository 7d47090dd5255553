"""Whole numbers of 64 bits in place of reals: products and lengths, rounded to the side that is asked for.

A component c of a vector is held as ``C = floor(c 2^kappa)``, ``|C| <= 2^58``, with one kappa a vector, and
that as ``2^31 high + low`` with ``low`` in 0 .. 2^31 - 1; a direction U as whole numbers with
``sum |U| < 2^30``. So

* ``<U, high>`` and ``<U, low>`` are exact, below 2^58 and 2^61, and ``<U, high> + (<U, low> >> 31)`` is the
  floor of ``<U, C> / 2^31``. As ``<U, c 2^kappa>`` differs from ``<U, C>`` by less than ``sum |U| < 2^31``,
  one less is a lower bound of ``<U, c> 2^(kappa - 31)`` (`along`), at most ``2^57 + 1`` in absolute value.
* ``x = |U|^2`` is exact, below 2^60. With ``r`` the floor of its root, ``sqrt x <= r + (x - r^2) / 2r``; as
  ``sqrt x <= 2^30 - 1``, that is below 2^61 in units of 2^-31 (`towards`).
* `high_part` is exact: of its partial products none reaches 2^62, nor does the sum of the middle ones.
"""

import numpy as np

from ceiling.kernels.compiled import compiled

HALF = 31
"""Bits of the lower part of a number held in two."""

LOWER = (1 << HALF) - 1

DIRECTION = 1 << 30
"""Bound of the sum of a direction's absolute components."""

POINT, MULTIPLE = 58, 57
"""Bits of a component, and of a multiplier."""

LIMIT = 1 << 61
"""Where sums are cut off."""


@compiled
def high_part(a: int, b: int) -> int:
    """The floor of ``a b / 2^62``, for ``0 <= a < 2^61`` and ``|b| <= 2^60``."""
    a_high, a_low = a >> HALF, a & LOWER
    b_high, b_low = b >> HALF, b & LOWER
    return a_high * b_high + ((a_high * b_low + a_low * b_high + ((a_low * b_low) >> HALF)) >> HALF)


@compiled
def shifted(a: int, bits: int) -> int:
    """The floor of ``a / 2^bits``, however many ``bits >= 0`` there are."""
    return a >> min(bits, 63)


@compiled
def add_up(numbers: np.ndarray, places: np.ndarray, k: int, others: np.ndarray, m: int) -> int:
    """Sum of `numbers` at the first `k` of `places`, and of the first `m` of `others`, cut off at +-2^61.

    So the sign is right, also when less than 2^61 is added to it.
    """
    high, low = 0, 0
    for i in range(k + m):
        x = numbers[places[i]] if i < k else others[i - k]
        high += x >> HALF
        low += x & LOWER
    high += low >> HALF
    if high >= LIMIT >> HALF:
        return LIMIT
    if high < -(LIMIT >> HALF):
        return -LIMIT
    return (high << HALF) + (low & LOWER)


@compiled
def along(high: np.ndarray, low: np.ndarray, j: int, direction: np.ndarray) -> int:
    """A lower bound of ``<U, c_j> 2^(kappa_j - 31)``."""
    upper = lower = np.int64(0)
    for c in range(len(direction)):
        upper += np.int64(high[j, c]) * np.int64(direction[c])
        lower += np.int64(low[j, c]) * np.int64(direction[c])
    return int(upper + (lower >> HALF) - 1)


@compiled
def towards(point: np.ndarray, direction: np.ndarray) -> int:
    """Scale `point`, int64 up to 2^62, to a direction, int32; its length in units of 2^-31, rounded up.

    0 where nothing is left of it.
    """
    down, up = -1, 0
    total = DIRECTION
    while total >= DIRECTION:
        down += 1
        total = 0
        for c in range(len(point)):
            total += min(abs(point[c]) >> down, DIRECTION)
    if total == 0:
        direction[:] = 0
        return 0
    while total << (up + 1) < DIRECTION:
        up += 1
    square = 0
    for c in range(len(point)):
        size = (abs(point[c]) >> down) << up
        direction[c] = size if point[c] >= 0 else -size
        square += size * size
    root = DIRECTION  # Newton's steps from above end at the floor
    step = (root + square // root) >> 1
    while step < root:
        root = step
        step = (root + square // root) >> 1
    return (root << HALF) + ((square - root * root) << HALF) // (2 * root) + 1


@compiled
def multiplier(length: int, mantissa: int, exponent: int, least: int) -> tuple[int, int]:
    """About ``length 2^-31 mantissa 2^exponent``, below 2^57 units of ``2^unit``; and unit, >= `least`."""
    number, power = (length >> 15) * int(mantissa), int(exponent) - 16
    bits = 0
    while number >> bits > 0:
        bits += 1
    if bits == 0:
        return 0, least
    unit = max(least, power + bits - MULTIPLE)
    return (number << (power - unit) if power > unit else shifted(number, unit - power)), unit
