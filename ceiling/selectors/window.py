"""SnapKV: keys that the last queries looked at."""

from typing import Literal

import numpy as np

from ceiling.selectors.ranking import with_recent
from ceiling.selectors.sight import Sight

LONGEST_WINDOW = 32
"""Queries: the longest observation window that a budget sets by itself (arXiv 2608.25230)."""

KERNEL = 7
"""Keys pooled (arXiv 2608.25230)."""


def snapkv(
    sight: Sight, count: int, *, window: int = 0, kernel: int = KERNEL, pooling: Literal["max", "avg"] = "max"
) -> np.ndarray:
    """SnapKV: pooled attention of the last queries; their own keys are kept (arXiv 2404.14469, section 4).

    Attention that a key before the window receives is summed over the queries of the window, pooled
    along positions for each head, and summed over the heads that the sight shows.

    Parameters
    ----------
    sight : Sight
    count : int
    window : int
        Queries that observe; 0 is ``max(1, min(32, s // 2))`` at budget `s`.
    kernel : int
        Keys pooled, odd; 1 is no pooling.
    pooling : {"max", "avg"}
    """
    window = window or max(1, min(LONGEST_WINDOW, (count + sight.appended) // 2))
    window = min(window, sight.n)
    older = sight.n - window
    observed = sight.attention(older, sight.n)[:, :, :older].sum(axis=1)
    scores = pooled(observed, kernel, pooling).sum(axis=0)
    recent = len(sight.candidates) - int(np.searchsorted(sight.candidates, older))
    return with_recent(scores, sight.candidates, count, recent)


def pooled(scores: np.ndarray, kernel: int, pooling: str) -> np.ndarray:
    """Maximum or mean over the `kernel` positions around each, shape (h, n); outside counts as 0."""
    n, half = scores.shape[1], kernel // 2
    out = scores.copy()
    combine = np.maximum if pooling == "max" else np.add
    for shift in range(1, min(half, n - 1) + 1):
        combine(out[:, shift:], scores[:, :-shift], out=out[:, shift:])
        combine(out[:, :-shift], scores[:, shift:], out=out[:, :-shift])
    return out if pooling == "max" else out / kernel
