"""Searches over kept sets: exhaustive over the candidate pool, and balancing by swaps."""

from math import comb

import numpy as np

from ceiling.kernels import subsets, swaps
from ceiling.objective import (
    TIE,
    ZERO,
    CentredRow,
    by_error,
    centre,
    check_extra,
    check_subsets,
    fill,
    largest,
)
from ceiling.problem import Answer, Row, Status, check_budget


def best_in_pool(row: Row, s: int, extra: int | None = None) -> Answer:
    """Exact minimum of the forced error over every size-`s` subset of the candidate pool.

    Parameters
    ----------
    row : Row
    s : int
        Budget: how many keys are kept.
    extra : int, optional
        Candidates beside the top-mass set; by default 24 / 12 / 6 / 4 at s = 4 / 8 / 16 / 32.

    Returns
    -------
    Answer
        ``status`` is ``exact`` (every subset of the pool covered, ``subsets`` of them) or
        ``trivial`` (at most `s` keys). The error bounds the best over *all* subsets from above.

    Notes
    -----
    Minimum of ``e_S`` over the pool of section 3 of arXiv 2608.25230; errors within 1e-12
    relative tie and the lexicographically smallest sorted set wins.
    """
    centred, s, extra = centre(row), check_budget(s), check_extra(s, extra)
    top = largest(centred.masses, s)
    candidates = fill(top, by_error(centred), len(top) + extra)
    return best_among(centred, s, candidates, balance_among(centred, top, candidates).error)


def balance(row: Row, s: int, extra: int | None = None) -> Answer:
    """Balancing selector: from top-mass, the swap within the pool that helps most, repeatedly.

    Returns
    -------
    Answer
        ``swaps`` counts the swaps made; ``status`` is ``trivial`` where all keys are kept, else
        ``gap``: a local optimum proves nothing about the pool's.
    """
    centred, s, extra = centre(row), check_budget(s), check_extra(s, extra)
    top = largest(centred.masses, s)
    return balance_among(centred, top, fill(top, by_error(centred), len(top) + extra))


def best_among(row: CentredRow, s: int, candidates: np.ndarray, incumbent: float) -> Answer:
    """`best_in_pool` over key indices; `incumbent` is the error of some size-`s` subset of them."""
    if len(row.masses) <= s:
        return _keep_all(row)
    check_subsets(len(candidates), s)
    winner = np.zeros(len(candidates), dtype=bool)
    error, ties = subsets.minimum(
        row.residuals[candidates], row.masses[candidates], s, incumbent, TIE, ZERO * row.sigma, winner
    )
    kept = row.positions[candidates[winner]]
    return Answer(error, kept, comb(len(candidates), s), ties, Status.EXACT)


def balance_among(row: CentredRow, top: np.ndarray, candidates: np.ndarray) -> Answer:
    """`balance` over key indices, from the start set `top`."""
    if len(row.masses) <= len(top):
        return _keep_all(row, swaps=0)
    kept = mark(candidates, top)
    error, count = swaps.balance(
        row.residuals[candidates], row.masses[candidates], TIE, ZERO * row.sigma, kept
    )
    return Answer(error, row.positions[candidates[kept]], 1, 1, Status.GAP, swaps=count)


def _keep_all(row: CentredRow, swaps: int | None = None) -> Answer:
    return Answer(0.0, row.positions, 1, 1, Status.TRIVIAL, swaps)


def mark(candidates: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Which of the ascending `candidates` are among `chosen`, a subset of them; bool, same shape."""
    marks = np.zeros(len(candidates), dtype=bool)
    marks[np.searchsorted(candidates, chosen)] = True
    return marks
