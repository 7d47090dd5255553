"""Frank-Wolfe on the values of a row.

Each step wants the key most opposed to the current point ``x``. All keys are ranked in the values' own
precision, and those within its rounding of the lowest again in float64: with ``x`` scaled so that no
product of a value with it exceeds 1, a sum of `d` products strays at most ``(d + 2) eps``, as long as
float32 values are not all below 1e-38, where they lose digits; the walk is then a longer one, still a bound.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot

BLOCK = 64
"""Keys whose running minimum is kept side by side, which vectorises."""


@compiled
def frank_wolfe(
    values: np.ndarray,  # float [N, d]
    columns: np.ndarray,  # float [d, N], the same: loops over keys vectorise
    masses: np.ndarray,  # float64 [n], n <= N; keys of zero mass are no keys
    origin: np.ndarray,  # float64 [d]
    mean: np.ndarray,  # float64 [d], mu - origin
    squares: np.ndarray,  # float64 [>= n], |v_j - mu|^2
    eps: float,  # spacing of the values' precision
    keys: np.ndarray,  # int64 [steps], out
    distances: np.ndarray,  # float64 [steps], out
) -> None:
    """Frank-Wolfe on ``min |mu - conv(v)|`` as in `ceiling.objective.frank_wolfe`."""
    n, d = len(masses), len(mean)
    ranks, barred = np.empty(n, values.dtype), np.zeros(n, values.dtype)
    nearest, farthest, centre = -1, 0.0, 0.0
    for j in range(n):
        if masses[j] == 0:
            barred[j] = np.inf
            continue
        farthest = max(farthest, squares[j])
        if nearest < 0 or squares[j] < squares[nearest]:
            nearest = j
    x, scaled, trial, direction = np.empty(d), np.empty(d, values.dtype), np.empty(d), np.empty(d)
    for c in range(d):
        centre += (origin[c] + mean[c]) ** 2
        x[c] = (values[nearest, c] - origin[c]) - mean[c]
    reach = np.sqrt(farthest) + np.sqrt(centre)  # no value is longer
    keys[0], distances[0] = nearest, np.sqrt(dot(x, x))
    for step in range(1, len(keys)):
        unit = reach * distances[step - 1]
        if unit == 0:  # arrived
            keys[step:], distances[step:] = keys[step - 1], 0.0
            break
        for c in range(d):
            scaled[c] = x[c] / unit
        ranks[:] = barred
        add_products(columns, scaled, ranks)
        bound = _lowest(ranks) + 2 * (d + 2) * eps
        key, product = -1, np.inf
        for j in range(n):
            if ranks[j] <= bound:
                v = values[j]
                for c in range(d):
                    trial[c] = (v[c] - origin[c]) - mean[c]
                along = dot(trial, x)
                if along < product:
                    key, product = j, along
                    for c in range(d):
                        direction[c] = trial[c]
        for c in range(d):
            direction[c] -= x[c]
        gap, length = dot(x, x) - product, dot(direction, direction)
        if not (gap > 0 and length > 0):  # no key improves: the last one repeats
            keys[step:], distances[step:] = keys[step - 1], distances[step - 1]
            break
        move = min(gap / length, 1.0)
        for c in range(d):
            x[c] += move * direction[c]
        keys[step], distances[step] = key, np.sqrt(dot(x, x))


@compiled
def add_products(columns: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """``out_j += <v_j, x>``, four components at a time."""
    d, n = len(x), len(out)
    for c in range(0, d - d % 4, 4):
        a, b, e, f = columns[c], columns[c + 1], columns[c + 2], columns[c + 3]
        p, q, r, s = x[c], x[c + 1], x[c + 2], x[c + 3]
        for j in range(n):
            out[j] += (p * a[j] + q * b[j]) + (r * e[j] + s * f[j])
    for c in range(d - d % 4, d):
        a = columns[c]
        for j in range(n):
            out[j] += x[c] * a[j]


@compiled
def _lowest(numbers: np.ndarray) -> float:
    """The smallest number, over `BLOCK` running minima."""
    low = np.full(BLOCK, np.inf, numbers.dtype)
    for at in range(0, len(numbers), BLOCK):
        block = numbers[at : at + BLOCK]
        for i in range(len(block)):
            low[i] = min(low[i], block[i])
    lowest = np.inf
    for i in range(BLOCK):
        lowest = min(lowest, low[i])
    return lowest
