"""The largest of many scores, ties to the lowest position."""

import numpy as np


def best(scores: np.ndarray, candidates: np.ndarray, count: int) -> np.ndarray:
    """The `count` candidates of largest score, ascending; equal scores go to the lowest position.

    Parameters
    ----------
    scores : ndarray of float, shape (n,)
        One for each position; no NaN.
    candidates : ndarray of int64, ascending
        At least `count`.
    count : int

    Returns
    -------
    ndarray of int64, shape (count,)
    """
    if count == 0:
        return candidates[:0]
    among = scores[candidates]
    at = len(among) - count
    threshold = np.partition(among, at)[at]
    chosen = among > threshold
    chosen[np.flatnonzero(among == threshold)[: count - np.count_nonzero(chosen)]] = True
    return candidates[chosen]


def with_recent(scores: np.ndarray, candidates: np.ndarray, count: int, recent: int) -> np.ndarray:
    """The `recent` last candidates, and of those before them the best, `count` in all; ascending."""
    recent = min(recent, count)
    older = len(candidates) - recent
    return np.concatenate((best(scores, candidates[:older], count - recent), candidates[older:]))
