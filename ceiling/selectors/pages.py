"""Quest: whole pages of keys, by an upper bound of what they can score."""

import numpy as np

from ceiling.objective import ranked
from ceiling.selectors.sight import Sight

LEAST_PAGE = 2
"""Keys: the smallest page that a budget sets by itself (arXiv 2608.25230)."""


def quest(sight: Sight, count: int, *, page: int = 0) -> np.ndarray:
    """Quest: the pages whose keys can have the largest product with the query (arXiv 2406.10774, section 3).

    Pages are runs of `page` positions from 0. A page's bound is ``sum_c max(q_c lowest_c, q_c highest_c)``
    over the least and largest components of its visible keys. Pages are taken whole, by descending bound,
    equal ones by position; of the last page that does not fit the lowest positions are taken.

    Parameters
    ----------
    sight : Sight
    count : int
    page : int
        Keys a page; 0 is ``max(2, s // 4)`` at budget `s`.
    """
    page = page or max(LEAST_PAGE, count // 4)
    candidates = sight.candidates
    first, bounds = _bounds(sight, page)
    kept, room = [], count
    for p in ranked(bounds).tolist():
        start, stop = np.searchsorted(candidates, ((first + p) * page, (first + p + 1) * page))
        kept.append(candidates[start : min(stop, start + room)])
        room -= len(kept[-1])
        if room == 0:
            break
    return np.sort(np.concatenate(kept))


def _bounds(sight: Sight, page: int) -> tuple[int, np.ndarray]:
    """The first page that is seen, and the bound of each page from there on, float32."""
    first, last = sight.first // page, sight.position // page
    least, largest = sight.shared(("pages", page), lambda keys, _: _extremes(keys, page))
    query = sight.queries[0, -1]
    up, down = np.maximum(query, 0), np.minimum(query, 0)
    bounds = np.empty(last + 1 - first, dtype=np.float32)
    bounds[:-1] = largest[first:last] @ up + least[first:last] @ down
    for p in (first, last):  # of these the query may not see all keys
        keys = sight.keys[max(p * page, sight.first) : (p + 1) * page]
        bounds[p - first] = keys.max(axis=0) @ up + keys.min(axis=0) @ down
    return first, bounds


def _extremes(keys: np.ndarray, page: int) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest components of the keys of every full page, each float32 [pages, d]."""
    full = len(keys) // page * page
    places = [keys[at:full:page] for at in range(page)]
    least, largest = places[0].copy(), places[0].copy()
    for place in places[1:]:
        np.minimum(least, place, out=least)
        np.maximum(largest, place, out=largest)
    return least, largest
