"""Searches over kept sets: exhaustive over the candidate pool, and balancing by swaps."""

import threading
from dataclasses import dataclass
from math import comb

import numpy as np

from ceiling.kernels import branch, lanes, subsets, swaps
from ceiling.objective import POOL_CAP, TIE, ZERO, check_extra, check_subsets
from ceiling.problem import Answer, InputError, Row, Status, check_budget
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
    n, s = len(batch.n_keys), list(batch.extras)[b]
    found = Found(
        *(np.zeros(n) for _ in range(3)),
        *(np.zeros(batch.pools[b].shape, dtype=bool) for _ in range(2)),
        *(np.zeros(n, dtype=np.int64) for _ in range(4)),
    )
    found.kept_balanced[:] = batch.tops[b]
    zeros, some, sizes = ZERO * batch.sigma, np.flatnonzero(batch.n_keys > s), batch.sizes[b]
    for m in sorted(set(sizes[some].tolist())):
        rows = some[sizes[some] == m]
        swaps.balance_all(
            batch.residuals, batch.masses, batch.gram, batch.pools[b], rows, m, s, TIE, zeros,
            found.kept_balanced, found.top, found.balanced, found.swaps,
        )  # fmt: skip
        if exhaust:
            _exhaust(batch, b, rows, m, s, zeros, found)
    return found


def _exhaust(batch: Batch, b: int, rows: np.ndarray, m: int, s: int, zeros: np.ndarray, found: Found) -> None:
    """Minimum over the pools, all of `m` keys, of some rows: by branch and bound, then every subset."""
    cap, total, taus = nodes_first(m, s), comb(m, s), found.balanced
    if cap:
        unproved, taus = [], taus.copy()
        for r in rows.tolist():
            found.pool[r], found.ties[r], evaluated, nodes = branch.search(
                batch.gram[r], batch.residuals[r], batch.masses[r], batch.pools[b, r, :m], s,
                taus[r], TIE, zeros[r], cap, found.kept_pool[r, :m],
            )  # fmt: skip
            found.subsets[r], found.excluded[r] = evaluated, total - evaluated
            if nodes < 0:
                unproved.append(r)
                taus[r] = min(taus[r], found.pool[r])
        rows = np.array(unproved, dtype=np.int64)
    # Wide pools take long enough to want to be interrupted between one vector of rows and the next.
    stride = lanes.LANES if total > POOL_CAP else max(len(rows), 1)
    for first in range(0, len(rows), stride):
        some = rows[first : first + stride]
        subsets.minima(
            batch.residuals, batch.masses, batch.gram, batch.pools[b], some, m, s, taus, TIE, zeros,
            *_room(m, min(s, m - s)), found.kept_pool, found.pool, found.ties,
        )  # fmt: skip
        found.subsets[some], found.excluded[some] = total, 0


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
    batch = _batch_of(row, s, extra)
    if batch is None:
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
    batch = _batch_of(row, s, extra)
    if batch is None:
        return _keep_all(row, swaps=0)
    found = search(batch, 0, exhaust=False)
    kept = kept_positions(batch, 0, 0, found.kept_balanced)
    return Answer(float(found.balanced[0]), kept, 1, 1, Status.GAP, swaps=int(found.swaps[0]))


def kept_positions(batch: Batch, b: int, r: int, kept: np.ndarray) -> np.ndarray:
    """Ascending positions that row `r` keeps at budget number `b`, of marks, bool [rows, m]."""
    return batch.keys[r, batch.pools[b, r][kept[r]]]


def _batch_of(row: Row, s: int, extra: int | None) -> Batch | None:
    """A batch of one row; None where the budget keeps every key."""
    s, extra = check_budget(s), check_extra(s, extra)
    if not isinstance(row, Row):
        raise InputError(f"row: {type(row).__name__}; make one with ceiling.Row(masses, values)")
    if row.n_keys <= s:
        return None
    check_subsets(min(s + extra, row.n_keys), s)
    batch = Batch({s: extra}, 1, *row.values.shape)
    batch.read(0, head_of(row.values), row.masses)
    return batch.close()


def _keep_all(row: Row, swaps: int | None = None) -> Answer:
    return Answer(0.0, np.flatnonzero(row.masses), 1, 1, Status.TRIVIAL, swaps)
