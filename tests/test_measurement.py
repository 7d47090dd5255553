"""Every column measured of a row, against the oracle and the front door."""

from fractions import Fraction
from itertools import combinations
from math import isclose, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from ceiling.problem import InputError
from ceiling.search import DEGENERATE, Task, head_of, measure
from tests import oracle
from tests.strategies import Problem, close, grid_problems, wild_problems

RATIOS = ("kappa", "closable", "closable_balance", "recovered", "pi", "pi_improved")
FREE = 1e-10
"""Promise of a free error (units of sigma)."""

problems = st.one_of(grid_problems(), wild_problems())


def measured(row: ceiling.Row, s: int, extra: int, leverage: np.ndarray | None = None) -> dict:
    """The columns at one budget."""
    (columns,) = rows_of(row, {s: extra}, leverage)
    return columns


def rows_of(row: ceiling.Row, extras: dict[int, int], leverage: np.ndarray | None = None) -> list[dict]:
    """The columns of one row, a dict a budget."""
    leverage = np.zeros(len(row.masses)) if leverage is None else leverage
    columns = measure([Task(head_of(row.values), row.masses, leverage)], extras)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@given(problems, st.integers(0, 4))
def test_columns_say_what_the_front_door_says(problem: Problem, extra: int):
    row, exact, s = problem.row, problem.exact, problem.s
    found = measured(row, s, extra)
    best, balanced = ceiling.best_in_pool(row, s, extra), ceiling.balance(row, s, extra)
    top = ceiling.top_mass(row, s)
    assert found["kept_top"].tolist() == top.tolist()
    assert found["kept_pool"].tolist() == best.kept.tolist()
    assert found["kept_balance"].tolist() == balanced.kept.tolist()
    assert (found["e_pool"], found["subsets"], found["ties"]) == (best.error, best.subsets, best.ties)
    assert (found["e_balance"], found["swaps"]) == (balanced.error, balanced.swaps)
    assert (found["n_keys"], found["s"]) == (len(exact.keys), s)
    assert found["pool_size"] == len(ceiling.pool(row, s, extra))
    assert close(found["e_top"], oracle.forced(exact, top.tolist()), exact)
    assert isclose(found["dropped_mass"], ceiling.dropped_mass(row, top), rel_tol=1e-12)
    g = oracle.residual(exact, top.tolist())
    assert close(found["phi"], oracle.dot(g, g), exact)
    assert isclose(found["sigma"], sqrt(exact.variance), rel_tol=1e-12)


@given(problems)
def test_free_errors_are_certified(problem: Problem):
    exact, found = problem.exact, measured(problem.row, problem.s, 3)
    for column, kept in (("free_top", "kept_top"), ("free_pool", "kept_pool")):
        distance = sqrt(oracle.free(exact, found[kept].tolist()))
        room = FREE * found["sigma"] + 1e-15 * np.abs(problem.values).max()
        assert abs(found[column] - distance) <= room


@given(problems)
def test_the_spectral_statistic_is_the_share_of_the_largest_eigenvalue(problem: Problem):
    exact, found = problem.exact, measured(problem.row, problem.s, 3)
    outside = [j for j in exact.keys if j not in found["kept_top"]]
    d = len(problem.values[0])
    z = [[exact.masses[j] * x for x in exact.centred[j]] for j in outside]
    moments = [[sum((r[a] * r[b] for r in z), Fraction(0)) for b in range(d)] for a in range(d)]
    trace = sum((moments[a][a] for a in range(d)), Fraction(0))
    if not outside:
        assert found["spectral"] is None
    elif trace > exact.variance * Fraction(1, 10**24):  # else nothing but rounding is dropped
        share = np.linalg.eigvalsh(np.array([[float(m / trace) for m in row] for row in moments]))[-1]
        assert isclose(found["spectral"], share, rel_tol=1e-6)


@given(problems)
def test_other_selectors(problem: Problem):
    row, exact = problem.row, problem.exact
    leverage = np.random.default_rng(len(exact.keys)).permutation(len(row.masses)).astype(float)
    found = measured(row, problem.s, 2, leverage)
    chosen = sorted(sorted(exact.keys, key=lambda j: -leverage[j])[: problem.s])
    assert close(found["e_leverage"], oracle.forced(exact, chosen), exact)
    path, distances = objective.frank_wolfe(objective.centre(row), problem.s)
    visited = [exact.keys[j] for j in dict.fromkeys(path.tolist())]
    by_mass = sorted(exact.keys, key=lambda j: (-exact.masses[j], j))
    geometric = sorted((visited + [j for j in by_mass if j not in visited])[: problem.s])
    assert close(found["e_geometric"], oracle.forced(exact, geometric), exact)
    assert isclose(found["ef_fw"], distances[-1], rel_tol=1e-9, abs_tol=1e-12 * found["radius"])


@given(problems, st.integers(0, 4))
def test_ratios_are_defined_or_null(problem: Problem, extra: int):
    found = measured(problem.row, problem.s, extra)
    e_top, e_pool, e_balance = (found[name] for name in ("e_top", "e_pool", "e_balance"))
    floor = DEGENERATE * found["sigma"]
    assert found["degenerate"] == (found["status"] != "trivial" and (e_top < floor or e_top == 0))
    if found["status"] in ("trivial", "degenerate"):
        assert [found[name] for name in RATIOS] == [None] * len(RATIOS)
        return
    attained = e_pool >= e_top * (1 - 1e-12)
    assert isclose(found["closable"], 1 - e_pool / e_top, abs_tol=1e-11)
    assert isclose(found["closable_balance"], 1 - e_balance / e_top, abs_tol=1e-11)
    assert 0 <= found["closable_balance"] <= found["closable"] + 1e-11 <= 1 + 1e-11
    assert (found["kappa"] is None) == (e_pool < floor)
    if found["kappa"] is not None:
        assert isclose(found["kappa"], e_top / e_pool, rel_tol=1e-11)
        assert found["kappa"] >= 1
    assert (found["recovered"] is None) == attained
    if not attained:
        assert isclose(
            found["recovered"], (e_top - e_balance) / (e_top - e_pool), rel_tol=1e-9, abs_tol=1e-11
        )
    if found["pi"] is not None:
        assert isclose(found["pi"], e_pool / found["ef_fw"], rel_tol=1e-12)
    assert (found["pi_improved"] is None) == (found["ef"] <= floor)
    if found["pi_improved"] is not None:
        assert isclose(found["pi_improved"], e_pool / found["ef"], rel_tol=1e-12)
        assert found["pi_improved"] >= 1
    assert all(np.isfinite(found[name]) for name in RATIOS if found[name] is not None)


@given(problems)
def test_the_least_free_error_lies_between_the_best_set_and_every_known_one(problem: Problem):
    exact, row = problem.exact, problem.row
    budgets = range(1, len(exact.keys) + 2)
    found = rows_of(row, dict.fromkeys(budgets, 2))
    for columns in found:
        s, ef = columns["s"], columns["ef"]
        known = [columns[name] for name in ("ef_fw", "free_top", "free_pool", "e_top", "e_pool")]
        if s >= len(exact.keys) or s > len(problem.values[0]):
            assert ef == 0
        assert ef <= min(error for error in known if error is not None)
        if s <= 3:
            best = min(oracle.free(exact, kept) for kept in combinations(exact.keys, min(s, len(exact.keys))))
            room = FREE * columns["sigma"] + 1e-14 * np.abs(problem.values).max()
            assert ef >= sqrt(best) - room
    assert [columns["ef"] for columns in found] == sorted((columns["ef"] for columns in found), reverse=True)


def test_budgets_are_measured_ascending_and_independently():
    rng = np.random.default_rng(1)
    row = ceiling.Row(rng.dirichlet(np.ones(30)), rng.standard_normal((30, 4)))
    leverage = rng.random(30)
    together = rows_of(row, {8: 3, 2: 5, 30: 1, 40: 1}, leverage)
    assert [columns["s"] for columns in together] == [2, 8, 30, 40]
    for columns, extra in zip(together, (5, 3, 1, 1), strict=True):
        (alone,) = rows_of(row, {columns["s"]: extra}, leverage)
        if columns["spectral"] is not None:  # its sums run from the largest budget inwards
            assert isclose(columns["spectral"], alone["spectral"], rel_tol=1e-12)
        assert {k: str(v) for k, v in alone.items() if k not in ("seconds", "spectral")} == {
            k: str(v) for k, v in columns.items() if k not in ("seconds", "spectral")
        }
    assert [columns["status"] for columns in together] == ["exact", "exact", "trivial", "trivial"]
    assert together[0].keys() == together[3].keys()


@pytest.mark.parametrize("s", [1, 2, 4])
def test_a_row_of_one_value_is_degenerate(s):
    rng = np.random.default_rng(s)
    row = ceiling.Row(rng.dirichlet(np.ones(6)), np.full((6, 2), 0.3))
    found = measured(row, s, 2)
    assert found["degenerate"]
    assert found["status"] == "degenerate"
    assert [found[name] for name in RATIOS] == [None] * len(RATIOS)


@pytest.mark.parametrize("dropped", [1e-3, 1e-6, 1e-9])
def test_nearly_all_mass_on_one_key_keeps_its_digits(dropped):
    """v_j - mu cancels at the heavy key; the error is of the order of the dropped mass."""
    rng = np.random.default_rng(5)
    rest = rng.dirichlet(np.ones(7)) * dropped
    masses, values = np.array([1 - dropped, *rest]), 10 + rng.standard_normal((8, 3))
    row, exact = ceiling.Row(masses, values), oracle.exact(masses.tolist(), values.tolist())
    for s in (1, 2, 4):
        found = measured(row, s, 3)
        best = oracle.best(exact, ceiling.pool(row, s, 3).tolist(), s)
        assert isclose(found["e_pool"], sqrt(best.squared), rel_tol=1e-9)
        assert tuple(found["kept_pool"]) == best.kept
        assert found["free_pool"] is not None
        assert abs(found["free_pool"] - sqrt(oracle.free(exact, best.kept))) <= FREE * found["sigma"]


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e101, -1e160])
def test_values_that_squares_cannot_hold_are_refused(value: float):
    """Once they gave infinite errors called exact."""
    values = np.eye(4)
    values[2, 1] = value
    with pytest.raises(InputError, match="values: not finite, or beyond 1e\\+100"):
        head_of(values)
