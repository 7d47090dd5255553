"""The identities and inequalities of the theory, checked on the product's numbers (spec of section 3)."""

from itertools import combinations, pairwise
from math import comb, isclose, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from tests.strategies import NOISE, Problem, grid_problems, wild_problems

EVERYTHING = 10**6
"""An `extra` that puts every key into the pool."""

ROUNDING = 1e-12
"""Room for float64 on both sides of an inequality (relative)."""

FREE = 1e-10
"""Promise of `free_error` (units of sigma)."""

problems = st.one_of(grid_problems(), wild_problems())


@given(problems)
def test_residuals_sum_to_zero(problem: Problem):
    centred = objective.centre(problem.row)
    assert np.abs(centred.residuals.sum(axis=0)).max() <= NOISE * centred.sigma


@given(problems)
def test_forced_error_is_what_the_operator_misses(problem: Problem):
    """|mu - m_A|, |g_A| / p(A) and dropped mass times |m_Ac - m_A| are one number."""
    row, centred = problem.row, objective.centre(problem.row)
    everyone = set(centred.positions.tolist())
    slack = 1e-9 * centred.sigma + 1e-15 * np.abs(row.values).max()
    for kept in combinations(sorted(everyone), problem.s):
        rest = sorted(everyone - set(kept))
        if not rest:
            continue
        error = ceiling.forced_error(row, kept)
        output = _output(row, list(kept))
        inside = np.isin(centred.positions, kept)
        g = centred.residuals[inside].sum(axis=0)
        assert abs(error - np.linalg.norm(row.masses @ row.values - output)) <= slack
        assert isclose(error, np.linalg.norm(g) / centred.masses[inside].sum(), rel_tol=ROUNDING)
        apart = np.linalg.norm(_output(row, rest) - output)
        assert abs(error - ceiling.dropped_mass(row, kept) * apart) <= slack + 1e-9 * error


@given(problems)
def test_upper_bounds_of_the_top_mass_error(problem: Problem):
    row, centred = problem.row, objective.centre(problem.row)
    top = ceiling.top_mass(row, problem.s)
    error, dropped = ceiling.forced_error(row, top), ceiling.dropped_mass(row, top)
    assert error <= 2 * centred.radius * dropped * (1 + ROUNDING)
    assert error <= sqrt(dropped / (1 - dropped)) * centred.sigma * (1 + ROUNDING)


@given(problems)
def test_the_variance_bound_holds_for_every_kept_set(problem: Problem):
    row, sigma = problem.row, objective.centre(problem.row).sigma
    for kept in combinations(np.flatnonzero(row.masses).tolist(), problem.s):
        dropped = ceiling.dropped_mass(row, kept)
        bound = sqrt(dropped / row.masses[list(kept)].sum()) * sigma
        assert ceiling.forced_error(row, kept) <= bound * (1 + ROUNDING)


@given(problems)
def test_free_error_is_a_floor_that_falls_as_one_over_root_s(problem: Problem):
    row, centred = problem.row, objective.centre(problem.row)
    kept_sets = list(combinations(centred.positions.tolist(), problem.s))
    free = [ceiling.free_error(row, kept) for kept in kept_sets]
    room = FREE * centred.sigma
    for kept, distance in zip(kept_sets, free, strict=True):
        assert distance <= ceiling.forced_error(row, kept) * (1 + ROUNDING) + room
    assert min(free) <= ceiling.best_in_pool(row, problem.s, EVERYTHING).error * (1 + ROUNDING) + room
    assert min(free) <= centred.sigma / sqrt(problem.s) * (1 + ROUNDING) + room
    assert centred.sigma <= centred.radius * (1 + ROUNDING)


@given(grid_problems(least=3, most=8))
def test_some_d_plus_one_keys_reach_the_dense_output(problem: Problem):
    """Caratheodory: EF(d + 1) = 0."""
    row = problem.row
    keys = np.flatnonzero(row.masses).tolist()
    size = min(row.values.shape[1] + 1, len(keys))
    nearest = min(ceiling.free_error(row, kept) for kept in combinations(keys, size))
    assert nearest <= FREE * objective.centre(row).sigma


@given(problems)
def test_free_error_falls_as_the_set_grows(problem: Problem):
    row = problem.row
    kept = ceiling.top_mass(row, problem.s).tolist()
    room = 2 * FREE * objective.centre(row).sigma
    errors = [ceiling.free_error(row, kept[: i + 1]) for i in range(len(kept))]
    assert all(later <= earlier + room for earlier, later in pairwise(errors))


def test_the_worked_example():
    row = ceiling.Row(np.array([0.45, 0.45, 0.10]), np.array([[-1.0], [1], [5]]))
    top, best = ceiling.top_mass(row, 2), ceiling.best_in_pool(row, 2, EVERYTHING)
    assert top.tolist() == [0, 1]
    assert isclose(ceiling.forced_error(row, top), 1 / 2, rel_tol=1e-14)
    assert best.kept.tolist() == [0, 2]
    assert isclose(best.error, 9 / 22, rel_tol=1e-14)
    assert isclose(ceiling.forced_error(row, top) / best.error, 11 / 9, rel_tol=1e-14)
    assert ceiling.free_error(row, [0, 1]) <= 1e-15


def test_forced_error_is_neither_submodular_nor_supermodular():
    """Marginal gains e(A + j) - e(A) shrink along one chain and grow along another."""
    row = ceiling.Row(np.full(4, 0.25), np.array([[0.0], [1], [2], [3]]))

    def gain(kept: tuple[int, ...], key: int) -> float:
        return ceiling.forced_error(row, (*kept, key)) - ceiling.forced_error(row, kept)

    pairs = [
        gain((*small, more), key) - gain(small, key)
        for small in [(0,), (1,), (2,), (3,)]
        for more in range(4)
        for key in range(4)
        if len({*small, more, key}) == 3
    ]
    assert min(pairs) < -0.1
    assert max(pairs) > 0.1


def test_a_larger_budget_may_be_worse():
    row = ceiling.Row(np.full(4, 0.25), np.array([[0.0], [-1], [3], [-2]]))
    assert ceiling.best_in_pool(row, 1, EVERYTHING).error == 0
    assert ceiling.best_in_pool(row, 2, EVERYTHING).error == 0.5


@given(st.lists(st.integers(-40, 40), min_size=2, max_size=9), st.data())
def test_uniform_whole_numbers_leave_a_gap_above_zero(points: list[int], data: st.DataObject):
    """d = 1, uniform masses: e_S is a multiple of 1/(N s), so ES is 0 or at least that."""
    n = len(points)
    s = data.draw(st.integers(1, n - 1))
    row = ceiling.Row(np.full(n, 1 / n), np.array(points, dtype=float)[:, None])
    steps = ceiling.best_in_pool(row, s, EVERYTHING).error * n * s
    assert abs(steps - round(steps)) <= 1e-9


def test_the_gap_is_attained():
    """N = 2: with s = 1 the step 1/(N s) is 1/2, and 1/N at s = N/2 of four points."""
    pair = ceiling.Row(np.full(2, 0.5), np.array([[0.0], [1]]))
    assert ceiling.best_in_pool(pair, 1, EVERYTHING).error == 0.5
    four = ceiling.Row(np.full(4, 0.25), np.array([[0.0], [0], [0], [1]]))
    assert ceiling.best_in_pool(four, 2, EVERYTHING).error == 1 / 4


@pytest.mark.parametrize("s", [1, 2, 3, 5])
def test_subsets_counted_are_the_binomial(s):
    rng = np.random.default_rng(s)
    row = ceiling.Row(rng.dirichlet(np.ones(9)), rng.standard_normal((9, 2)))
    for extra in range(6):
        assert ceiling.best_in_pool(row, s, extra).subsets == comb(min(9, s + extra), s)


def _output(row: ceiling.Row, kept: list[int]) -> np.ndarray:
    """m_A: what a sparse operator returns."""
    return row.masses[kept] @ row.values[kept] / row.masses[kept].sum()
