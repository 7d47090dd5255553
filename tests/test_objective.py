"""Every definition against its exact twin in the oracle."""

from itertools import combinations
from math import comb, isclose, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from ceiling.problem import InputError
from tests import oracle
from tests.strategies import NOISE, Problem, close, grid_problems, wild_problems

FREE = 1e-10
"""Promise of `free_error` (units of sigma)."""

problems = st.one_of(grid_problems(), wild_problems())


@given(problems)
def test_top_mass(problem: Problem):
    top = ceiling.top_mass(problem.row, problem.s)
    assert top.dtype == np.int64
    assert tuple(top) == oracle.top_mass(problem.exact, problem.s)


def test_top_mass_of_a_long_uniform_row_is_its_beginning():
    row = ceiling.Row(np.full(1000, 1e-3), np.zeros((1000, 1)))
    assert ceiling.top_mass(row, 40).tolist() == list(range(40))


def test_top_mass_keeps_all_keys_of_a_short_row():
    row = ceiling.Row(np.array([0, 0.5, 0, 0.5]), np.zeros((4, 1)))
    assert ceiling.top_mass(row, 3).tolist() == [1, 3]


NEARLY_ALL = Problem([1.66e-12, 1 - 1.66e-12], [[1.7048831660124923], [0.9810779315575912]], 1)
"""Nearly all mass on one key: v_j - mu cancels, and the error is of the order of the dropped mass."""


@given(problems)
@example(NEARLY_ALL)
def test_dropped_mass_and_forced_error_of_every_kept_set(problem: Problem):
    row, exact = problem.row, problem.exact
    for kept in combinations(exact.keys, problem.s):
        assert close(ceiling.forced_error(row, kept), oracle.forced(exact, kept), exact)
        dropped = float(1 - oracle.mass(exact, kept))
        assert isclose(ceiling.dropped_mass(row, kept), dropped, rel_tol=1e-14)


@given(problems)
def test_free_error_of_every_kept_set(problem: Problem):
    row, exact = problem.row, problem.exact
    sigma = sqrt(exact.variance)
    for kept in list(combinations(exact.keys, min(problem.s, 5)))[:10]:
        distance = sqrt(oracle.free(exact, kept))
        scale = max(abs(x) for point in problem.values for x in point)
        assert abs(ceiling.free_error(row, kept) - distance) <= FREE * sigma + 1e-15 * scale


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "d"), [(40, 3), (40, 64), (12, 1), (33, 32)])
def test_free_error_is_certified_on_wide_rows(n, d, seed):
    """A convex combination gives an upper bound, a separating direction a lower one: no oracle needed."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    values[n // 2] = values[0]
    masses = rng.dirichlet(np.full(n, 0.1)) + 1e-12
    row = ceiling.Row(masses / masses.sum(), values)
    kept = ceiling.top_mass(row, n // 2)
    centred = objective.centre(row)
    error = ceiling.free_error(row, kept)
    assert error <= ceiling.forced_error(row, kept) + FREE * centred.sigma
    nearest, gap = _frank_wolfe_bounds(centred.centred[kept])
    assert nearest - gap - FREE * centred.sigma <= error <= nearest + FREE * centred.sigma


def _frank_wolfe_bounds(points: np.ndarray) -> tuple[float, float]:
    """Distance reached by away-step-free Frank-Wolfe and how far the true one may lie below it."""
    x = points[np.argmin(np.linalg.norm(points, axis=1))]
    for _ in range(3000):
        key = np.argmin(points @ x)
        direction = points[key] - x
        if not direction.any():
            break
        x = x + np.clip(-(x @ direction) / (direction @ direction), 0, 1) * direction
    norm = float(np.linalg.norm(x))
    return norm, 0.0 if norm == 0 else norm - max(0.0, float((points @ x).min()) / norm)


@given(problems, st.integers(0, 4))
def test_pool(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    found = ceiling.pool(row, problem.s, extra)
    assert found.dtype == np.int64
    assert len(found) == min(problem.s + extra, len(exact.keys))
    assert np.all(np.diff(found) > 0)
    top = set(oracle.top_mass(exact, problem.s))
    assert top <= set(found.tolist()) <= set(exact.keys)
    # Scores compare as roots, so exactly tied ones may differ in the last bit of float64.
    score = {j: float(exact.masses[j]) * sqrt(oracle.dot(c, c)) for j, c in enumerate(exact.centred)}
    chosen = [score[j] for j in found.tolist() if j not in top]
    missed = [score[j] for j in exact.keys if j not in found]
    assert min(chosen, default=np.inf) >= max(missed, default=-np.inf) * (1 - 1e-14)


def test_pool_ties_go_to_the_lowest_position():
    row = ceiling.Row(np.array([4, 1, 2, 2, 1]) / 10, np.array([[0], [2], [1], [-1], [-2]]))
    assert ceiling.pool(row, 1, 2).tolist() == [0, 1, 2]


@pytest.mark.parametrize("s", [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 33, 64, 128, 256, 631, 632, 1024])
def test_default_pools(s):
    row = ceiling.Row(np.full(1100, 1 / 1100), np.arange(1100.0)[:, None])
    extra = oracle.extra_of(s)
    assert objective.default_extra(s) == extra
    assert len(ceiling.pool(row, s)) == s + extra


@pytest.mark.parametrize(("s", "cap"), [(4, 5_000_000), (8, 5_000_000), (32, 100), (1, 1), (16, 17)])
def test_a_cap_takes_the_widest_pool_under_it(s, cap):
    extra = objective.default_extra(s, cap)
    assert comb(s + extra, s) <= cap < comb(s + extra + 1, s)


@given(problems)
@example(NEARLY_ALL)
def test_a_centred_row_holds_the_quantities_of_the_paper(problem: Problem):
    exact, centred = problem.exact, objective.centre(problem.row)
    assert centred.positions.tolist() == exact.keys
    assert isclose(centred.sigma, sqrt(exact.variance), rel_tol=1e-12)
    radius = sqrt(max(oracle.dot(exact.centred[j], exact.centred[j]) for j in exact.keys))
    assert isclose(centred.radius, radius, rel_tol=1e-12)
    assert np.abs(centred.residuals.sum(axis=0)).max() <= NOISE * centred.sigma


@given(problems)
def test_frank_wolfe_descends_towards_the_hull(problem: Problem):
    exact, centred = problem.exact, objective.centre(problem.row)
    steps = problem.s + 3
    taken, distances = objective.frank_wolfe(centred, steps)
    assert taken.shape == distances.shape == (steps,)
    assert isclose(distances[0], centred.distances.min(), rel_tol=1e-12)
    assert np.all(np.diff(distances) <= NOISE * centred.sigma)
    keys = centred.positions[taken].tolist()
    # Two steps with exact line search end at the point of one segment nearest the dense output.
    pair = sqrt(oracle.free(exact, sorted(set(keys[:2]))))
    assert abs(distances[1] - pair) <= 1e-12 * centred.radius
    for step in range(2, steps):
        free = sqrt(oracle.free(exact, sorted(set(keys[: step + 1]))))
        assert distances[step] >= free - 1e-12 * centred.radius


def test_frank_wolfe_on_a_row_worked_by_hand():
    row = ceiling.Row(np.full(4, 0.25), np.array([[1.0, 1], [3, -3], [-3, -3], [-1, 5]]))
    taken, distances = objective.frank_wolfe(objective.centre(row), 2)
    assert taken.tolist() == [0, 2]
    assert distances[0] == sqrt(2)
    assert distances[1] <= 1e-15


@given(st.integers(1, 6), st.integers(0, 10), st.floats(1e-3, 1e3))
def test_ridge_leverage(d: int, more: int, scale: float):
    keys = np.random.default_rng(more).standard_normal((d + more, d))
    leverage = objective.ridge_leverage(keys)
    spectrum = np.linalg.svd(keys, compute_uv=False) ** 2
    ridge = objective.LEVERAGE_RIDGE * spectrum.mean()
    assert isclose(leverage.sum(), (spectrum / (spectrum + ridge)).sum(), rel_tol=1e-9)
    assert np.all((leverage > 0) & (leverage < 1))
    assert np.allclose(objective.ridge_leverage(scale * keys), leverage, rtol=1e-9)


def test_ridge_leverage_of_orthogonal_keys_and_of_none():
    ridge = objective.LEVERAGE_RIDGE
    assert np.allclose(objective.ridge_leverage(np.eye(5)), 1 / (1 + ridge), rtol=1e-14)
    assert objective.ridge_leverage(np.zeros((3, 2))).tolist() == [0, 0, 0]


@pytest.mark.parametrize("s", [0, -1, 2.0, True, "4", None])
def test_budgets_that_are_none(s):
    row = ceiling.Row(np.array([0.5, 0.5]), np.zeros((2, 1)))
    for ask in (ceiling.top_mass, ceiling.pool, ceiling.best_in_pool, ceiling.balance):
        with pytest.raises(InputError, match=r"^s: "):
            ask(row, s)


@pytest.mark.parametrize("extra", [-1, 1.5, False, "all"])
def test_pool_sizes_that_are_none(extra):
    row = ceiling.Row(np.array([0.5, 0.5]), np.zeros((2, 1)))
    for ask in (ceiling.pool, ceiling.best_in_pool, ceiling.balance):
        with pytest.raises(InputError, match=r"^extra: "):
            ask(row, 1, extra)


@pytest.mark.parametrize("cap", [0, -5, 2.5])
def test_caps_that_are_none(cap):
    with pytest.raises(InputError, match=r"^cap: "):
        objective.default_extra(4, cap)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ([], "kept: .*non-empty"),
        ([[0, 1]], "kept: .*flat"),
        ([0.0, 1.0], "kept: float64 entries"),
        ([0, 3], "kept: position 3 is outside 0..2"),
        ([-1, 0], "kept: position -1 is outside"),
        ([1, 1], "kept: position 1 is repeated"),
        ([0, 2], "kept: position 2 has zero mass"),
    ],
)
def test_kept_sets_that_are_none(kept, message):
    row = ceiling.Row(np.array([0.5, 0.5, 0]), np.zeros((3, 1)))
    for ask in (ceiling.dropped_mass, ceiling.forced_error, ceiling.free_error):
        with pytest.raises(InputError, match=message):
            ask(row, kept)


def test_kept_sets_may_come_in_any_order():
    row = ceiling.Row(np.array([0.45, 0.45, 0.1]), np.array([[-1.0], [1], [5]]))
    assert ceiling.forced_error(row, {2, 0}) == ceiling.forced_error(row, np.array([0, 2], dtype=np.uint8))


@pytest.mark.parametrize("cap", [1, 7, 20_475, 10**9, 10**10])
@pytest.mark.parametrize("s", [1, 2, 4, 32, 256])
def test_a_cap_takes_the_largest_pool_within_it(s, cap):
    """At s = 1 the search once went up one by one to the cap."""
    extra = objective.default_extra(s, cap)
    assert comb(s + extra, s) <= cap < comb(s + extra + 1, s)
