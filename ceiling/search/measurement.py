"""All that is measured of rows: errors of five kept sets, free errors and statistics, per budget."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ceiling.kernels import hull
from ceiling.objective import FREE_TOLERANCE, TIE, min_norm
from ceiling.problem import Status
from ceiling.search.batch import Batch, Head
from ceiling.search.candidates import Found, kept_positions, search

ENGINE = "lanes-int32/4"
"""Name and version of the enumeration; part of what identifies a stored result."""

DEGENERATE = 1e-6
"""In units of sigma: captured masses carry about 1e-7 relative error, so a smaller top-mass error
is noise and its ratios mean nothing."""

BATCH_BYTES = 2**28
"""Of residuals and Gram matrices held at once: rows of very wide pools are taken a few at a time."""


class Task(NamedTuple):
    """One row to measure."""

    head: Head
    softmax: np.ndarray  # float32 or float64 [n], n at most the head's keys
    leverage: np.ndarray  # float64 [n]


def measure(tasks: Sequence[Task], extras: dict[int, int]) -> dict[str, list[Any]]:
    """Measure rows at every budget.

    Parameters
    ----------
    tasks : sequence of Task
        Rows of heads of one dimension.
    extras : dict of int to int
        Budgets and, for each, the number of candidates beside the top-mass set.

    Returns
    -------
    dict of str to list
        The measured columns of table ``instances`` (schema in `ceiling.store`), and ``row``, the index
        of the task: rows in order, budgets ascending within a row. Undefined ratios are None.

    Raises
    ------
    InputError
        When the weights of a row are not those of a softmax.
    """
    longest = max(len(task.softmax) for task in tasks)
    keys = min(longest, max(extras) + max(s + extra for s, extra in extras.items()))
    d = tasks[0].head.values.shape[1]
    room = max(BATCH_BYTES // (8 * keys * (keys + 3 * d)), 1)
    columns: dict[str, list[Any]] = {}
    for first in range(0, len(tasks), room):
        some = tasks[first : first + room]
        batch = Batch(extras, len(some), longest, d)
        for r, task in enumerate(some):
            batch.read(r, *task)
        for name, values in _columns(batch.close()).items():
            shifted = [r + first for r in values] if name == "row" else values
            columns.setdefault(name, []).extend(shifted)
    return columns


def _columns(batch: Batch) -> dict[str, list[Any]]:
    """The columns of a batch: one budget after the other, then interleaved so that rows stay together."""
    n = len(batch.n_keys)
    least = np.full(n, np.inf)
    parts = [_at_budget(batch, b, s, least) for b, s in enumerate(batch.extras)]
    return {name: [part[name][r] for r in range(n) for part in parts] for name in parts[0]}


def _at_budget(batch: Batch, b: int, s: int, least: np.ndarray) -> dict[str, Sequence[Any]]:
    """The columns at one budget; `least`, shape (rows,), is the least free error so far and after."""
    start = perf_counter()
    found = search(batch, b)
    rows, some = range(len(batch.n_keys)), batch.n_keys > s
    seconds = np.where(some, (perf_counter() - start) / max(int(some.sum()), 1), 0.0)
    degenerate = some & ((found.top < DEGENERATE * batch.sigma) | (found.top == 0))
    top_marks = batch.tops[b]
    free_top, free_pool = _free_errors(batch, b, found, some)
    _lower(least, batch, b, found, some, free_top, free_pool)
    status = np.where(
        ~some, str(Status.TRIVIAL), np.where(degenerate, str(Status.DEGENERATE), str(Status.EXACT))
    )
    marks = {"kept_top": top_marks, "kept_pool": found.kept_pool, "kept_balance": found.kept_balanced}
    everything = [batch.keys[r][batch.keys[r] >= 0] for r in rows]
    return {
        "row": list(rows),
        "n_keys": batch.n_keys.tolist(),
        "s": [s] * len(rows),
        "e_top": found.top.tolist(),
        "e_pool": found.pool.tolist(),
        "e_balance": found.balanced.tolist(),
        "e_geometric": np.where(some, batch.geometric[:, b], 0.0).tolist(),
        "e_leverage": np.where(some, batch.leverage[:, b], 0.0).tolist(),
        "free_top": free_top,
        "free_pool": free_pool,
        "ef_fw": batch.distances[:, b].tolist(),
        "ef": least.tolist(),
        "dropped_mass": batch.dropped[:, b].tolist(),
        "phi": _phi(batch, b, some).tolist(),
        "radius": batch.radius.tolist(),
        "sigma": batch.sigma.tolist(),
        "spectral": [
            float(x) if defined else None
            for x, defined in zip(batch.spectral[:, b], some & np.isfinite(batch.spectral[:, b]), strict=True)
        ],
        **_ratios(batch, b, found, least, some & ~degenerate),
        "pool_size": batch.sizes[b].tolist(),
        "subsets": np.where(some, found.subsets, 1).tolist(),
        "excluded": found.excluded.tolist(),
        "swaps": found.swaps.tolist(),
        "ties": np.where(some, found.ties, 1).tolist(),
        "degenerate": degenerate.tolist(),
        "status": status.tolist(),
        **{
            name: [kept_positions(batch, b, r, kept) if some[r] else everything[r] for r in rows]
            for name, kept in marks.items()
        },
        "seconds": seconds.tolist(),
    }


def _phi(batch: Batch, b: int, some: np.ndarray) -> np.ndarray:
    """``Phi = |sum of the top-mass residuals|``, shape (rows,); 0 where all keys are kept."""
    phi = np.zeros(len(some))
    for r in np.flatnonzero(some):
        top = batch.pools[b, r][batch.tops[b, r]]
        phi[r] = np.linalg.norm(batch.residuals[r, top].sum(axis=0))
    return phi


def _ratios(
    batch: Batch, b: int, found: Found, least: np.ndarray, fair: np.ndarray
) -> dict[str, list[float | None]]:
    """Ratios of the errors; None where undefined (trivial, degenerate, or nothing closable to recover)."""
    top, pool, balanced, free = found.top, found.pool, found.balanced, batch.distances[:, b]
    floor = DEGENERATE * batch.sigma
    attained, even = top <= pool * (1 + TIE), top <= balanced * (1 + TIE)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = np.where(attained, 1.0, top / pool)
        ratios = {
            "kappa": (kappa, fair & (attained | (pool > floor))),
            "closable": (np.where(attained, 0.0, 1 - pool / top), fair),
            "closable_balance": (np.where(even, 0.0, 1 - balanced / top), fair),
            "recovered": ((top - balanced) / (top - pool), fair & ~attained),
            "pi": (pool / free, fair & (free > floor)),
            "pi_improved": (pool / least, fair & (least > floor)),
        }
    return {
        name: [float(x) if defined else None for x, defined in zip(values, where, strict=True)]
        for name, (values, where) in ratios.items()
    }


def _free_errors(
    batch: Batch, b: int, found: Found, some: np.ndarray
) -> tuple[list[float | None], list[float | None]]:
    """Free errors of the top-mass sets and of the pools' best, 0 where all keys are kept."""
    of_top: list[float | None] = [0.0] * len(some)
    of_pool: list[float | None] = [0.0] * len(some)
    for r in np.flatnonzero(some).tolist():
        pool, top, best = batch.pools[b, r], batch.tops[b, r], found.kept_pool[r]
        of_top[r] = of_pool[r] = _free_error(batch.centred[r, pool[top]], batch.sigma[r])
        if not np.array_equal(top, best):
            of_pool[r] = _free_error(batch.centred[r, pool[best]], batch.sigma[r])
    return of_top, of_pool


def _lower(
    least: np.ndarray,  # float64 [rows], in and out
    batch: Batch,
    b: int,
    found: Found,
    some: np.ndarray,
    *known: list[float | None],  # free errors of sets of the budget
) -> None:
    """Bring EF's upper estimate down to the least distance that any set of the budget's size attains.

    Sets of smaller budgets stay in, as further keys at weight 0 change nothing; a forced error is the
    distance of a point of its set's hull.
    """
    least[:] = np.minimum.reduce([least, batch.corrective[:, b], batch.distances[:, b], found.pool])
    for errors in known:
        least[:] = np.fmin(least, np.array(errors, dtype=float))  # None becomes NaN, which fmin passes over
    least[~some] = 0.0


def _free_error(points: np.ndarray, sigma: float) -> float | None:
    """Free error of a kept set to `FREE_TOLERANCE`; None where rounding keeps the gap above it."""
    tolerance = FREE_TOLERANCE * sigma
    upper, lower = hull.min_norm(points, tolerance)
    if upper - lower <= tolerance:
        return float(upper)
    try:
        return min_norm(points, tolerance)
    except ArithmeticError:
        return None
