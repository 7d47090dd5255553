"""Rules that look at where keys or values lie: ridge leverage of the keys, Frank-Wolfe on the values."""

import numpy as np

from ceiling.objective import ridge_leverage
from ceiling.selectors.ranking import best
from ceiling.selectors.sight import Sight

STEPS = 32
"""Frank-Wolfe steps walked at once: the largest budget of the enumeration."""


def leverage(sight: Sight, count: int) -> np.ndarray:
    """Keys of largest ridge leverage ``k (K^T K + lambda I)^-1 k`` among the visible (arXiv 2608.25230, 3).

    `ceiling.objective.ridge_leverage` says what ``lambda`` is: the paper does not.
    """
    first, last = sight.first, sight.n

    def scores(keys: np.ndarray, _: np.ndarray) -> np.ndarray:
        visible = np.zeros(last)
        visible[first:] = ridge_leverage(keys[first:last].astype(np.float64))
        return visible

    return best(sight.shared(("leverage", first, last), scores), sight.candidates, count)


def geometric(sight: Sight, count: int) -> np.ndarray:
    """Support of Frank-Wolfe on ``min |mu - conv(v)|`` after `s` steps, padded with top-mass.

    Shi & Gu, arXiv 2608.25230, section 3.
    The same walk as in ``e_geometric`` of table ``instances``.
    """
    steps = max(count, STEPS)  # the first steps of a walk do not depend on its length
    key = ("walk", sight.position, sight.head, steps)
    walk = sight.shared(key, lambda _, values: _walk(sight, values, steps))
    scores = sight.masses.copy()
    scores[walk[:count]] = np.inf  # at most `count` keys, none left out
    return best(scores, sight.candidates, count)


def _walk(sight: Sight, values: np.ndarray, steps: int) -> np.ndarray:
    """Keys that Frank-Wolfe takes, in order; after the end the last one repeats."""
    from ceiling.kernels import geometry, rows  # here, for numba: no other rule needs more than numpy

    masses = sight.masses.copy()  # writable like the others: the kernels are compiled once
    columns = sight.shared("columns", lambda _, values: np.ascontiguousarray(values.T))
    origin, mean = np.empty(values.shape[1]), np.empty(values.shape[1])
    squares, scratch, unused = np.empty(len(masses)), np.empty(len(masses)), np.empty(1, dtype=np.int64)
    rows.describe(values, columns, masses, unused, unused.copy(), origin, mean, squares, scratch)
    path, distances = np.empty(steps, dtype=np.int64), np.empty(steps)
    eps = float(np.finfo(values.dtype).eps)
    geometry.frank_wolfe(values, columns, masses, origin, mean, squares, eps, path, distances)
    return path
