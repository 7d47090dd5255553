"""All that is measured of one row: errors of five kept sets, free errors and statistics, per budget."""

from time import perf_counter
from typing import Any

import numpy as np

from ceiling.kernels import direct, hull
from ceiling.objective import (
    FREE_TOLERANCE,
    TIE,
    CentredRow,
    by_error,
    fill,
    forced_error_at,
    frank_wolfe,
    min_norm,
    ranked,
)
from ceiling.problem import Status
from ceiling.search.candidates import balance_among, best_among, mark

ENGINE = "gram-colex/1"
"""Name and version of the enumeration; part of what identifies a stored result."""

DEGENERATE = 1e-6
"""In units of sigma: captured masses carry about 1e-7 relative error, so a smaller top-mass error
is noise and its ratios mean nothing."""


def measure(row: CentredRow, extras: dict[int, int], leverage: np.ndarray) -> list[dict[str, Any]]:
    """Measure one row at every budget.

    Parameters
    ----------
    row : CentredRow
    extras : dict of int to int
        Budgets and, for each, the number of candidates beside the top-mass set.
    leverage : ndarray of float64, shape (n,)
        Ridge leverage of the row's keys.

    Returns
    -------
    list of dict
        One a budget, ascending: the measured columns of table ``instances`` (schema in
        `ceiling.store`). Undefined ratios are None.
    """
    budgets = sorted(extras)
    path, distances = frank_wolfe(row, budgets[-1])
    by_mass, by_leverage, candidates = ranked(row.masses), ranked(leverage), by_error(row)
    measured = []
    for s in budgets:
        top = np.sort(by_mass[:s])
        columns = _statistics(row, s, top) | {"ef_fw": float(distances[s - 1])}
        if len(row.masses) <= s:
            measured.append(columns | _trivial(row))
            continue
        pool = fill(top, candidates, s + extras[s])
        columns["e_geometric"] = forced_error_at(row, fill(np.unique(path[:s]), by_mass, s))
        columns["e_leverage"] = forced_error_at(row, np.sort(by_leverage[:s]))
        measured.append(columns | _enumerated(row, s, top, pool, columns["ef_fw"]))
    return measured


def _statistics(row: CentredRow, s: int, top: np.ndarray) -> dict[str, Any]:
    """What needs no search: budget, dropped mass, Phi, D and sigma (section 3)."""
    everything = len(top) == len(row.masses)
    dropped = row.masses.copy()
    dropped[top] = 0
    return {
        "n_keys": len(row.masses),
        "s": s,
        "dropped_mass": float(dropped.sum()),
        "phi": 0.0 if everything else float(np.linalg.norm(row.residuals[top].sum(axis=0))),
        "radius": row.radius,
        "sigma": row.sigma,
    }


def _trivial(row: CentredRow) -> dict[str, Any]:
    """At most `s` keys: every selector keeps them all and the dense output is reproduced."""
    zeros = dict.fromkeys(
        ("e_top", "e_pool", "e_balance", "e_geometric", "e_leverage", "free_top", "free_pool"), 0.0
    )
    kept = dict.fromkeys(("kept_top", "kept_pool", "kept_balance"), row.positions)
    counts = {"pool_size": len(row.positions), "subsets": 1, "swaps": 0, "ties": 1}
    ratios = dict.fromkeys(("kappa", "closable", "closable_balance", "recovered", "pi"))
    ending = {"degenerate": False, "status": str(Status.TRIVIAL), "seconds": 0.0}
    return zeros | kept | counts | ratios | ending


def _enumerated(row: CentredRow, s: int, top: np.ndarray, pool: np.ndarray, ef_fw: float) -> dict[str, Any]:
    """The pool optimum, the balancing set, their ratios and free errors."""
    e_top = direct.forced_error(
        row.residuals[pool],
        row.masses[pool],
        mark(pool, top),
        np.empty(row.residuals.shape[1]),
    )
    start = perf_counter()
    balanced = balance_among(row, top, pool)
    best = best_among(row, s, pool, balanced.error)
    seconds = perf_counter() - start
    best_indices = np.searchsorted(row.positions, best.kept)
    free_top = _free_error(row, top)
    degenerate = e_top < DEGENERATE * row.sigma or e_top == 0
    return {
        "e_top": e_top,
        "e_pool": best.error,
        "e_balance": balanced.error,
        "free_top": free_top,
        "free_pool": free_top if np.array_equal(best_indices, top) else _free_error(row, best_indices),
        **_ratios(e_top, best.error, balanced.error, ef_fw, row.sigma, degenerate),
        "pool_size": len(pool),
        "subsets": best.subsets,
        "swaps": balanced.swaps,
        "ties": best.ties,
        "degenerate": degenerate,
        "status": str(Status.DEGENERATE if degenerate else best.status),
        "kept_top": row.positions[top],
        "kept_pool": best.kept,
        "kept_balance": balanced.kept,
        "seconds": seconds,
    }


def _ratios(
    e_top: float, e_pool: float, e_balance: float, ef_fw: float, sigma: float, degenerate: bool
) -> dict[str, float | None]:
    """Ratios of the errors; None where undefined (degenerate, or nothing closable to recover)."""
    if degenerate:
        return dict.fromkeys(("kappa", "closable", "closable_balance", "recovered", "pi"))
    floor = DEGENERATE * sigma
    attained = e_top <= e_pool * (1 + TIE)
    return {
        "kappa": 1.0 if attained else e_top / e_pool if e_pool > floor else None,
        "closable": 0.0 if attained else 1 - e_pool / e_top,
        "closable_balance": 0.0 if e_top <= e_balance * (1 + TIE) else 1 - e_balance / e_top,
        "recovered": None if attained else (e_top - e_balance) / (e_top - e_pool),
        "pi": e_pool / ef_fw if ef_fw > floor else None,
    }


def _free_error(row: CentredRow, kept: np.ndarray) -> float | None:
    """Free error of a kept set to `FREE_TOLERANCE`; None where rounding keeps the gap above it."""
    points, tolerance = row.centred[kept], FREE_TOLERANCE * row.sigma
    upper, lower = hull.min_norm(points, tolerance)
    if upper - lower <= tolerance:
        return upper
    try:
        return min_norm(points, tolerance)
    except ArithmeticError:
        return None
