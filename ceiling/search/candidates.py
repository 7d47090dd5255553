"""Searches over kept sets: exhaustive over the candidate pool, and balancing by swaps."""

import threading
from dataclasses import dataclass
from math import comb

import numpy as np

from ceiling.kernels import branch, lanes, subsets, swaps
from ceiling.objective import TIE, ZERO, check_extra, check_subsets
from ceiling.problem import Answer, Row, Status, check_budget
from ceiling.search.batch import Batch, head_of
from ceiling.search.plan import nodes_first


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What the searches found for every row of a batch at one budget; rows of at most `s` keys are skipped.

    Attributes
    ----------
    top, balanced, pool : ndarray of float64, shape (rows,)
        Errors of top-mass, of the balanced set and of the pool's best.
    kept_balanced, kept_pool : ndarray of bool, shape (rows, m)
        Which keys of the pool the last two keep.
    swaps, ties, subsets, excluded : ndarray of int64, shape (rows,)
        Swaps made; sets that reach the minimum; subsets evaluated; subsets excluded by proof.
    """

    top: np.ndarray
    balanced: np.ndarray
    pool: np.ndarray
    kept_balanced: np.ndarray
    kept_pool: np.ndarray
    swaps: np.ndarray
    ties: np.ndarray
    subsets: np.ndarray
    excluded: np.ndarray


def search(batch: Batch, b: int, exhaust: bool = True) -> Found:
    """Balance every row of a batch at budget number `b`, and find the minimum over its pool.

    Parameters
    ----------
    batch : Batch
    b : int
    exhaust : bool
        False leaves it at balancing.
    """
    n, (s, _) = len(batch.n_keys), list(batch.extras.items())[b]
    widest = batch.pools.shape[2]
    found = Found(
        *(np.zeros(n) for _ in range(3)),
        *(np.zeros((n, widest), dtype=bool) for _ in range(2)),
        *(np.zeros(n, dtype=np.int64) for _ in range(4)),
    )
    open_rows = batch.n_keys > s
    for m in np.unique(batch.sizes[open_rows, b]).tolist():
        chosen = np.flatnonzero(open_rows & (batch.sizes[:, b] == m))
        _balance(batch, b, chosen, m, found)
        if exhaust:
            _exhaust(batch, b, chosen, m, s, found)
    return found


def _balance(batch: Batch, b: int, chosen: np.ndarray, m: int, found: Found) -> None:
    """Balance the rows `chosen`, all of `m` keys in their pool."""
    n = len(chosen)
    kept, start, error, count = (
        batch.tops[chosen, b, :m],
        np.empty(n),
        np.empty(n),
        np.empty(n, dtype=np.int64),
    )
    swaps.balance_all(
        batch.residuals, batch.masses, batch.gram, chosen, batch.pools[chosen, b, :m], TIE,
        ZERO * batch.sigma[chosen], kept, start, error, count,
    )  # fmt: skip
    found.top[chosen], found.balanced[chosen], found.swaps[chosen] = start, error, count
    found.kept_balanced[chosen, :m] = kept


def _exhaust(batch: Batch, b: int, chosen: np.ndarray, m: int, s: int, found: Found) -> None:
    """Minimum over the pools of the rows `chosen`, all of `m` keys, as the plan says."""
    check_subsets(m, s)
    cap, total = nodes_first(m, s), comb(m, s)
    left = []
    for r in chosen.tolist() if cap else ():
        best = np.zeros(m, dtype=bool)
        error, found.ties[r], evaluated, nodes = branch.search(
            batch.gram[r], batch.residuals[r], batch.masses[r], batch.pools[r, b, :m], s,
            found.balanced[r], TIE, ZERO * batch.sigma[r], cap, best,
        )  # fmt: skip
        found.pool[r], found.kept_pool[r, :m] = error, best
        found.subsets[r], found.excluded[r] = evaluated, total - evaluated
        if nodes < 0:
            left.append(r)
    rest = np.array(left, dtype=np.int64) if cap else chosen
    if len(rest):
        _enumerate(batch, b, rest, m, s, found)


def _enumerate(batch: Batch, b: int, rest: np.ndarray, m: int, s: int, found: Found) -> None:
    """Every subset of the pools of the rows `rest`."""
    best = np.zeros((len(rest), m), dtype=bool)
    errors, ties = np.zeros(len(rest)), np.zeros(len(rest), dtype=np.int64)
    subsets.minima(
        batch.residuals, batch.masses, batch.gram, rest, batch.pools[rest, b, :m], s,
        found.balanced[rest], TIE, ZERO * batch.sigma[rest],
        *_room(m, min(s, m - s)), best, errors, ties,
    )  # fmt: skip
    found.pool[rest], found.ties[rest], found.kept_pool[rest, :m] = errors, ties, best
    found.subsets[rest], found.excluded[rest] = comb(m, s), 0


def _room(m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scratch of the enumeration, kept from call to call: fresh memory costs as much as 10 000 subsets."""
    size = m * m + k * (m + 1) if k > 1 else 0
    if len(_kept.room) < size:
        _kept.room = lanes.aligned(size)
    return (
        _kept.room[: m * m if size else 0].reshape(-1, m, lanes.LANES),
        _kept.room[m * m : size].reshape(-1, m + 1, lanes.LANES),
    )


class _Kept(threading.local):
    room = lanes.aligned(0)


_kept = _Kept()


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
        ``status`` is ``exact`` (every subset of the pool covered: ``subsets`` of them evaluated,
        ``excluded`` ruled out by proof) or ``trivial`` (at most `s` keys). The error bounds the best over
        *all* subsets from above.

    Notes
    -----
    Minimum of ``e_S`` over the pool of section 3 of arXiv 2608.25230; errors within 1e-12
    relative tie and the lexicographically smallest sorted set wins.
    """
    batch, s = _batch_of(row, s, extra)
    if row.n_keys <= s:
        return _keep_all(row)
    found = search(batch, 0)
    kept = kept_positions(batch, 0, 0, found.kept_pool)
    return Answer(
        float(found.pool[0]), kept, int(found.subsets[0]), int(found.ties[0]), Status.EXACT,
        excluded=int(found.excluded[0]),
    )  # fmt: skip


def balance(row: Row, s: int, extra: int | None = None) -> Answer:
    """Balancing selector: from top-mass, the swap within the pool that helps most, repeatedly.

    Returns
    -------
    Answer
        ``swaps`` counts the swaps made; ``status`` is ``trivial`` where all keys are kept, else
        ``gap``: a local optimum proves nothing about the pool's.
    """
    batch, s = _batch_of(row, s, extra)
    if row.n_keys <= s:
        return _keep_all(row, swaps=0)
    found = search(batch, 0, exhaust=False)
    kept = kept_positions(batch, 0, 0, found.kept_balanced)
    return Answer(float(found.balanced[0]), kept, 1, 1, Status.GAP, swaps=int(found.swaps[0]))


def kept_positions(batch: Batch, b: int, r: int, kept: np.ndarray) -> np.ndarray:
    """Ascending positions that row `r` keeps at budget number `b`, of marks, bool [rows, m]."""
    m = batch.sizes[r, b]
    return batch.keys[r, batch.pools[r, b, :m][kept[r, :m]]]


def _batch_of(row: Row, s: int, extra: int | None) -> tuple[Batch, int]:
    s, extra = check_budget(s), check_extra(s, extra)
    batch = Batch({s: extra}, 1, *row.values.shape)
    batch.read(0, head_of(row.values), row.masses)
    return batch.close(), s


def _keep_all(row: Row, swaps: int | None = None) -> Answer:
    return Answer(0.0, np.flatnonzero(row.masses), 1, 1, Status.TRIVIAL, swaps)
