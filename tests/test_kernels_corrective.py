"""Fully-corrective Frank-Wolfe with swaps: never below brute force, mostly equal, never above Frank-Wolfe."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from ceiling.kernels import corrective, rows
from tests import oracle
from tests.strategies import Problem, grid_problems, wild_problems

problems = st.one_of(grid_problems(least=2), wild_problems())


def distances(row: ceiling.Row, budgets: list[int], dtype: type = np.float64) -> list[float]:
    """The kernel's distances at ascending budgets."""
    values: np.ndarray = np.ascontiguousarray(row.values, dtype=dtype)
    columns, (n, d) = np.ascontiguousarray(values.T), values.shape
    leading, ranking = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64)
    origin, mean, squares, scores = np.empty(d), np.empty(d), np.empty(n), np.empty(n)
    _, sigma = rows.describe(
        values, columns, row.masses, leading, ranking, origin, mean, squares, scores
    )  # fmt: skip
    out = np.full(len(budgets), np.nan)
    tolerance = objective.FREE_TOLERANCE * sigma
    corrective.corrective(columns, row.masses, origin, mean, squares, np.array(budgets), tolerance, out)
    return out.tolist()


def brute(centred: objective.CentredRow, s: int) -> float:
    """EF(s) of a small row."""
    tolerance = objective.FREE_TOLERANCE * centred.sigma
    kept_sets = combinations(range(len(centred.masses)), s)
    return min(objective.min_norm(centred.centred[list(kept)], tolerance) for kept in kept_sets)


@given(problems)
def test_it_is_attained_and_never_rises(problem: Problem):
    exact, centred = problem.exact, objective.centre(problem.row)
    n = len(exact.keys)
    found = distances(problem.row, list(range(1, n + 1)))
    room = 1e-10 * centred.sigma + 1e-13 * centred.radius
    assert found == sorted(found, reverse=True)
    assert found[-1] == 0
    for s in range(1, min(n, 4)):
        best = sqrt(min(oracle.free(exact, kept) for kept in combinations(exact.keys, s)))
        assert found[s - 1] >= best - room
        assert objective.corrective(centred, s) >= best - room
    assert found[0] <= centred.distances.min() + room  # EF(1) is the nearest key's


def test_it_mostly_is_the_least_over_all_sets():
    """As is the definition's; 120 instances of 4 to 11 keys in up to 7 dimensions."""
    kernel = definition = count = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(4, 12)), int(rng.integers(2, 8))
        row = ceiling.Row(rng.dirichlet(np.ones(n)), rng.standard_normal((n, d)))
        centred, budgets = objective.centre(row), [2, 3]
        for s, found in zip(budgets, distances(row, budgets), strict=True):
            best = 0.0 if s > d else brute(centred, s)
            kernel += found <= best * (1 + 1e-9) + 1e-9
            definition += objective.corrective(centred, s) <= best * (1 + 1e-9) + 1e-9
            count += 1
    assert count == 120
    assert kernel >= 0.7 * count
    assert definition >= 0.6 * count


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_wide_rows_come_nearer_than_frank_wolfe(dtype: type, offset: float):
    """Also where a common offset leaves float32 products few digits."""
    rng = np.random.default_rng(3)
    values: np.ndarray = (offset + rng.standard_normal((600, 24))).astype(dtype)
    row = ceiling.Row(rng.dirichlet(np.full(600, 0.05)) + 1e-12, values.astype(np.float64))
    row = ceiling.Row(row.masses / row.masses.sum(), row.values)
    budgets = [4, 8, 16, 24, 25]
    _, path = objective.frank_wolfe(objective.centre(row), 24)
    found = distances(row, budgets, dtype)
    for s, distance in zip(budgets[:-1], found, strict=False):
        assert distance < 0.9 * path[s - 1]
    assert found[-1] == 0  # 25 keys of 24 dimensions hold mu


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e90])
def test_it_scales_with_the_values(scale: float):
    rng = np.random.default_rng(8)
    masses, values = rng.dirichlet(np.ones(40)), rng.standard_normal((40, 6))
    one = distances(ceiling.Row(masses, values), [2, 4, 6])
    other = distances(ceiling.Row(masses, values * scale), [2, 4, 6])
    assert [x / scale for x in other] == pytest.approx(one, rel=1e-9)


def test_duplicates_and_keys_of_no_mass_do_not_help():
    """Equal values lie in the hull already; a key of zero mass is no key, even where it is mu itself."""
    rng = np.random.default_rng(2)
    masses, values = rng.dirichlet(np.ones(12)), rng.standard_normal((12, 5))
    single = ceiling.Row(masses, values)
    twice = ceiling.Row(np.tile(masses, 2) / 2, np.tile(values, (2, 1)))
    ghost = ceiling.Row([*masses, 0.0], np.vstack([values, single.masses @ values]))
    budgets = [1, 2, 3, 4, 5]
    assert distances(twice, budgets) == pytest.approx(distances(single, budgets), rel=1e-9)
    assert distances(ghost, budgets) == pytest.approx(distances(single, budgets), rel=1e-9)
