"""How a total budget is spread over cells: one query head of one layer at one query is a cell.

Every rule takes `limits`, the number of keys of each cell, and a budget `s`, and spends in all what `uniform`
spends; every cell keeps a key at least. What a rule's source leaves open (fractions, cells that run out of
keys) is settled alike for all: `apportion`.
"""

import numpy as np

from ceiling.problem import InputError, check_budget

BETA = 20
"""PyramidKV's: the last layer gets the mean budget over this (arXiv 2406.02069, section 4)."""

FLAT = 0.25
"""Probability: a cell whose median dropped mass at s = 8 is above is flat (arXiv 2608.25230)."""

FLAT_SHARE = 2.0
"""Ratio: budget of a flat cell over that of another. The paper gives no formula; this one is declared."""

BISECTIONS = 100
"""Halvings of the level of `apportion`: more than float64 has bits."""

DIGITS = 9
"""Decimals of a budget before its fraction is looked at, so that equal fractions tie."""


def uniform(limits: np.ndarray, s: int) -> np.ndarray:
    """`s` keys a cell, all of them where it has fewer.

    Parameters
    ----------
    limits : ndarray of int, shape (cells,)
        Keys of each cell, at least 1.
    s : int
        Keys a cell.

    Returns
    -------
    ndarray of int64, shape (cells,)
    """
    return np.minimum(_checked(limits), check_budget(s))


def pyramid(limits: np.ndarray, s: int, layers: np.ndarray, *, beta: int = BETA) -> np.ndarray:
    """PyramidKV: falling linearly from the first layer to the last (arXiv 2406.02069, section 4).

    The last layer gets ``s / beta``, the first ``2 s - s / beta``, so that the mean is `s`.

    Parameters
    ----------
    limits : ndarray of int, shape (cells,)
    s : int
    layers : ndarray of int, shape (cells,)
        The layer of each cell.
    beta : int
        Steepness.
    """
    steps = (layers - layers.min()) / max(int(np.ptp(layers)), 1)
    least = s / beta
    most = 2 * s - least
    return apportion(most - steps * (most - least), limits, s)


def by_map(limits: np.ndarray, s: int, dropped: np.ndarray) -> np.ndarray:
    """Flat cells get twice the budget of the others.

    Parameters
    ----------
    limits : ndarray of int, shape (cells,)
    s : int
    dropped : ndarray of float, shape (cells,)
        Median dropped mass of each (layer, head) at s = 8; above `FLAT` it is flat.
    """
    return apportion(np.where(dropped > FLAT, FLAT_SHARE, 1.0), limits, s)


def mass_greedy(masses: np.ndarray, s: int) -> np.ndarray:
    """Every cell keeps its largest mass; the rest goes to the largest masses of all cells.

    Ties go to the lowest cell. INFERRED from the name: the paper gives no formula.

    Parameters
    ----------
    masses : ndarray of float, shape (cells, N)
        Softmax row of each cell, 0 where there is no key.
    s : int

    Returns
    -------
    ndarray of int64, shape (cells,)
        How many of its largest masses each cell keeps.
    """
    limits = _checked(np.count_nonzero(masses, axis=1))
    cells = len(masses)
    rest = masses.copy()
    rest[np.arange(cells), masses.argmax(axis=1)] = 0
    room = int(uniform(limits, s).sum()) - cells
    if room == 0:
        return np.ones(cells, dtype=np.int64)
    at = rest.size - room
    threshold = np.partition(rest, at, axis=None)[at]
    kept = np.count_nonzero(rest > threshold, axis=1)
    level = np.cumsum(np.count_nonzero(rest == threshold, axis=1)).clip(max=room - kept.sum())
    return 1 + kept + np.diff(level, prepend=0)


def apportion(shares: np.ndarray, limits: np.ndarray, s: int) -> np.ndarray:
    """Whole budgets in proportion to `shares`, between 1 and `limits`, that sum to what `uniform` spends.

    The proportion holds between cells that no bound holds back. Fractions go to the largest ones, equal
    ones to the lowest cell.

    Parameters
    ----------
    shares : ndarray of float, shape (cells,)
        Positive.
    limits : ndarray of int, shape (cells,)
        Keys of each cell.
    s : int

    Returns
    -------
    ndarray of int64, shape (cells,)
    """
    limits = _checked(limits)
    total = int(uniform(limits, s).sum())
    low, high = 0.0, float((limits / shares).max())
    for _ in range(BISECTIONS):
        level = (low + high) / 2
        if np.clip(level * shares, 1, limits).sum() < total:
            low = level
        else:
            high = level
    exact = np.round(np.clip(high * shares, 1, limits), DIGITS)
    budgets = np.floor(exact).astype(np.int64)
    budgets[np.argsort(budgets - exact, kind="stable")[: total - budgets.sum()]] += 1
    return budgets


def _checked(limits: np.ndarray) -> np.ndarray:
    limits = np.asarray(limits, dtype=np.int64)
    if limits.ndim != 1 or len(limits) == 0 or limits.min() < 1:
        raise InputError("limits: every cell needs at least one key")
    return limits
