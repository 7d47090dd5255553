"""Rules that rank keys by the attention of the last query."""

import numpy as np

from ceiling.selectors.ranking import best
from ceiling.selectors.sight import Sight


def top_mass(sight: Sight, count: int) -> np.ndarray:
    """Top-mass ``A*_s``: the largest masses, ties to the lowest position (arXiv 2608.25230, section 3)."""
    return best(sight.masses, sight.candidates, count)


def tova(sight: Sight, count: int) -> np.ndarray:
    """TOVA: the keys least attended by the last query are dropped (arXiv 2401.06104, section 3).

    For one query head this is top-mass, which is checked every time. In reading ``cache`` the last query
    is the one before, and its attention is the mean over the group's heads; the paper's averages over all
    heads of the layer.

    Raises
    ------
    ArithmeticError
        In reading ``per-query``, where the set is not the top-mass set.
    """
    candidates, drop = sight.candidates, len(sight.candidates) - count
    if sight.reading == "cache":
        return best(sight.masses, candidates, count)
    # Dropped one by one, lightest first and of equals the latest: an own route to the same set.
    latest_first = sight.masses[candidates[::-1]]
    limit = np.partition(latest_first, drop - 1)[drop - 1]
    dropped = latest_first < limit
    dropped[np.flatnonzero(latest_first == limit)[: drop - np.count_nonzero(dropped)]] = True
    kept = candidates[~dropped[::-1]]
    if not np.array_equal(kept, top_mass(sight, count)):
        raise ArithmeticError(f"tova: {kept.tolist()} is not the top-mass set of {sight!r} at {count} keys")
    return kept


def group_vote(sight: Sight, count: int) -> np.ndarray:
    """Group vote: the largest masses summed over the rows of all query heads that read the KV head.

    Shi & Gu, arXiv 2608.25230: what one set for a whole group costs its members. A key of mass 0 in
    one of them is no candidate there, and the next one takes its place.
    """
    return best(sight.group_masses.sum(axis=0), sight.candidates, count)
