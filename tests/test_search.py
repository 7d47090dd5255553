"""Searches against the exact oracle, on ties, zeros, duplicates and both ways to enumerate."""

from math import comb, isclose, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling.problem import InputError
from tests import oracle
from tests.strategies import AGREE, Problem, close, grid_problems, same_set, wild_problems

EVERYTHING = 10**6
"""An `extra` that puts every key into the pool."""


@given(grid_problems(), st.integers(0, 7))
def test_best_in_pool_of_a_tied_row(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    answer = ceiling.best_in_pool(row, problem.s, extra)
    best = oracle.best(exact, ceiling.pool(row, problem.s, extra).tolist(), problem.s)
    assert answer.kept.dtype == np.int64
    assert (tuple(answer.kept), answer.subsets, answer.ties) == (best.kept, best.subsets, best.ties)
    assert close(answer.error, best.squared, exact)
    assert answer.status == ("trivial" if len(exact.keys) == problem.s else "exact")
    assert answer.swaps is None


@given(wild_problems(), st.integers(0, 7))
def test_best_in_pool_of_a_wild_row(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    answer = ceiling.best_in_pool(row, problem.s, extra)
    best = oracle.best(exact, ceiling.pool(row, problem.s, extra).tolist(), problem.s)
    assert close(answer.error, best.squared, exact)
    assert same_set(answer.kept, best.kept, exact)
    assert answer.subsets == best.subsets


@given(grid_problems(), st.integers(0, 7))
def test_balance_of_a_tied_row(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    answer = ceiling.balance(row, problem.s, extra)
    best = oracle.balance(exact, ceiling.pool(row, problem.s, extra).tolist(), problem.s)
    assert (tuple(answer.kept), answer.swaps) == (best.kept, best.swaps)
    assert close(answer.error, best.squared, exact)
    assert (answer.status == "trivial") == (len(exact.keys) == problem.s)


@given(wild_problems(), st.integers(0, 7))
def test_balance_of_a_wild_row(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    answer = ceiling.balance(row, problem.s, extra)
    best = oracle.balance(exact, ceiling.pool(row, problem.s, extra).tolist(), problem.s)
    assert close(answer.error, best.squared, exact)
    assert same_set(answer.kept, best.kept, exact)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("m", range(2, 14))
def test_every_shape_of_pool(m, d):
    """Every s below m: kept sets of every size, kept set or dropped set the smaller, last levels short."""
    rng = np.random.default_rng(100 * m + d)
    masses, values = rng.dirichlet(np.ones(m)), rng.standard_normal((m, d))
    row = ceiling.Row(masses, values)
    for s in range(1, m):
        answer = ceiling.best_in_pool(row, s, EVERYTHING)
        error, *found = oracle.brute_force(masses.tolist(), values.tolist(), range(m), s)
        assert isclose(answer.error, error, rel_tol=AGREE)
        assert [tuple(answer.kept), answer.subsets, answer.ties] == found


@pytest.mark.parametrize(
    ("m", "s"), [(28, 2), (28, 26), (36, 34), (130, 128), (257, 256), (18, 4), (16, 12), (15, 8)]
)
def test_lopsided_pools(m, s):
    """Pools as wide as the default ones, from both ends, with a subset to spare beside the pool."""
    rng = np.random.default_rng(m + s)
    n = m + 5
    masses, values = rng.dirichlet(np.full(n, 0.5)) + 1e-9, rng.standard_normal((n, 4))
    row = ceiling.Row(masses / masses.sum(), values)
    candidates = ceiling.pool(row, s, m - s)
    answer = ceiling.best_in_pool(row, s, m - s)
    if s > 100:  # brute force by what is dropped: the float sum over the few, not the many
        error, *found = _brute_force_by_dropping(row, candidates, s)
    else:
        error, *found = oracle.brute_force(row.masses.tolist(), values.tolist(), candidates.tolist(), s)
    assert isclose(answer.error, error, rel_tol=AGREE)
    assert [tuple(answer.kept), answer.subsets, answer.ties] == found


def _brute_force_by_dropping(row, candidates, s):
    drops = np.array([[i, j] for i in range(len(candidates)) for j in range(i)][: comb(len(candidates), 2)])
    if len(candidates) - s == 1:
        drops = np.arange(len(candidates))[:, None]
    errors = [ceiling.forced_error(row, np.delete(candidates, drop)) for drop in drops]
    winner = int(np.argmin(errors))
    return errors[winner], tuple(np.delete(candidates, drops[winner]).tolist()), len(drops), 1


@given(grid_problems(), st.permutations(range(7)))
def test_permuting_keys_permutes_the_answer(problem: Problem, order):
    order = [j for j in order if j < len(problem.masses)]
    moved = Problem([problem.masses[j] for j in order], [problem.values[j] for j in order], problem.s)
    answer = ceiling.best_in_pool(problem.row, problem.s, EVERYTHING)
    again = ceiling.best_in_pool(moved.row, moved.s, EVERYTHING)
    assert isclose(again.error, answer.error, rel_tol=1e-14)
    assert (again.ties, again.subsets, again.status) == (answer.ties, answer.subsets, answer.status)
    if answer.ties == 1:
        assert sorted(order[j] for j in again.kept) == answer.kept.tolist()


@given(wild_problems(), st.floats(1e-6, 1e6))
def test_scaling_values_scales_errors(problem: Problem, factor: float):
    row, exact = problem.row, problem.exact
    larger = ceiling.Row(row.masses, factor * row.values)
    for search in (ceiling.best_in_pool, ceiling.balance):
        answer, again = search(row, problem.s, 3), search(larger, problem.s, 3)
        assert close(again.error / factor, oracle.forced(exact, answer.kept.tolist()), exact)
        assert same_set(again.kept.tolist(), answer.kept.tolist(), exact)
    free = ceiling.free_error(row, answer.kept)
    assert isclose(
        ceiling.free_error(larger, answer.kept) / factor, free, rel_tol=1e-7, abs_tol=2e-10 * _sigma(exact)
    )


@given(grid_problems(), st.integers(-(10**6), 10**6))
def test_translating_values_changes_nothing(problem: Problem, shift: int):
    row = problem.row
    moved = ceiling.Row(row.masses, row.values + shift)
    for search in (ceiling.best_in_pool, ceiling.balance):
        answer, again = search(row, problem.s, 3), search(moved, problem.s, 3)
        assert (again.error, again.kept.tolist(), again.ties) == (
            answer.error,
            answer.kept.tolist(),
            answer.ties,
        )


@given(st.one_of(grid_problems(), wild_problems()), st.integers(0, 7))
def test_nothing_beats_the_pool_optimum(problem: Problem, extra: int):
    row, exact = problem.row, problem.exact
    best, balanced = ceiling.best_in_pool(row, problem.s, extra), ceiling.balance(row, problem.s, extra)
    top = ceiling.top_mass(row, problem.s)
    slack = 1e-14 * _sigma(exact)
    assert best.error <= balanced.error * (1 + 1e-12) + slack
    assert balanced.error <= ceiling.forced_error(row, top) * (1 + 1e-12) + slack
    assert (balanced.swaps == 0) == (balanced.kept.tolist() == top.tolist())
    for answer in (best, balanced):
        assert isclose(answer.error, ceiling.forced_error(row, answer.kept), rel_tol=1e-14, abs_tol=slack)
        assert answer.error >= ceiling.free_error(row, answer.kept) - 2e-10 * _sigma(exact)
    wider = ceiling.best_in_pool(row, problem.s, extra + 1)
    assert wider.error <= best.error * (1 + 1e-12) + slack


@given(grid_problems(), st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_keys_of_zero_mass_are_no_keys(problem: Problem, gaps: list[int]):
    masses, values, where = list(problem.masses), list(problem.values), list(range(len(problem.masses)))
    for gap in gaps:
        at = min(gap, len(masses))
        masses.insert(at, 0.0)
        values.insert(at, [1e3] * len(values[0]))
        where.insert(at, -1)
    padded = ceiling.Row(np.array(masses), np.array(values))
    for search in (ceiling.best_in_pool, ceiling.balance):
        answer, again = search(problem.row, problem.s, 2), search(padded, problem.s, 2)
        assert [where[j] for j in again.kept] == answer.kept.tolist()
        assert (again.error, again.subsets, again.ties) == (answer.error, answer.subsets, answer.ties)
        assert (again.status, again.swaps) == (answer.status, answer.swaps)


@pytest.mark.parametrize("s", [3, 4, 100])
def test_short_rows_are_kept_whole(s):
    row = ceiling.Row(np.array([0.2, 0, 0.3, 0.5]), np.array([[1.0], [9], [2], [4]]))
    for search, swaps in ((ceiling.best_in_pool, None), (ceiling.balance, 0)):
        answer = search(row, s)
        assert answer.kept.tolist() == [0, 2, 3]
        assert (answer.error, answer.subsets, answer.ties) == (0.0, 1, 1)
        assert (answer.status, answer.swaps) == (ceiling.Status.TRIVIAL, swaps)


def test_a_single_key():
    answer = ceiling.best_in_pool(ceiling.Row(np.array([1.0]), np.array([[7.0]])), 1)
    assert (answer.error, answer.kept.tolist(), answer.status) == (0.0, [0], "trivial")


@pytest.mark.parametrize("offset", [0.0, 0.1, -3.3e4])
@pytest.mark.parametrize("seed", range(5))
def test_keys_all_alike_tie_at_zero(seed, offset):
    """Every kept set returns the dense output; what rounding leaves must not choose among them."""
    row = ceiling.Row(np.random.default_rng(seed).dirichlet(np.ones(6)), np.full((6, 3), offset))
    answer = ceiling.best_in_pool(row, 2, EVERYTHING)
    assert (answer.error, answer.kept.tolist(), answer.ties) == (0.0, [0, 1], 15)
    assert ceiling.balance(row, 2, EVERYTHING).swaps == 0


@pytest.mark.parametrize("offset", [0.0, 0.7])
@pytest.mark.parametrize("keys", [6, 7, 12])
def test_zeros_that_rounding_blurs_tie(keys, offset):
    """Neither masses nor values are float64 numbers: zeros come out near 1e-17, and tie all the same."""
    whole = [[(-1) ** j * (j // 2)] for j in range(keys)]
    answer = ceiling.best_in_pool(
        ceiling.Row(np.full(keys, 1 / keys), np.array(whole) / 3 + offset), 4, EVERYTHING
    )
    wanted = oracle.best(oracle.exact([1] * keys, whole), range(keys), 4)
    assert (tuple(answer.kept), answer.ties) == (wanted.kept, wanted.ties)
    assert answer.error <= 1e-15 * (1 + offset) or wanted.squared > 0


@pytest.mark.parametrize(("apart", "kept", "ties"), [(1e-14, [0, 2], 2), (1e-10, [1, 2], 1)])
def test_errors_within_the_tolerance_tie(apart, kept, ties):
    """Two near-twins: a relative 1e-14 apart they tie and the lower position wins, 1e-10 apart the better."""
    values = np.array([[4 * (1 + apart)], [4.0], [-1], [-6]])
    masses = np.array([0.2, 0.2, 0.4, 0.2])
    answer = ceiling.best_in_pool(ceiling.Row(masses, values), 2, EVERYTHING)
    assert (answer.kept.tolist(), answer.ties) == (kept, ties)


@pytest.mark.parametrize("distance", [1e3, 4e4])
def test_outliers_far_beyond_sigma(distance):
    rng = np.random.default_rng(int(distance))
    masses = rng.dirichlet(np.ones(11))
    masses[5] = 1e-7
    masses /= masses.sum()
    values = rng.standard_normal((11, 3))
    values[5] *= distance
    row = ceiling.Row(masses, values)
    for s in (1, 3, 5, 9):
        answer = ceiling.best_in_pool(row, s, EVERYTHING)
        error, *found = oracle.brute_force(masses.tolist(), values.tolist(), range(11), s)
        assert isclose(answer.error, error, rel_tol=AGREE)
        assert [tuple(answer.kept), answer.subsets, answer.ties] == found


def test_more_keys_than_the_default_pool_are_left_out():
    rng = np.random.default_rng(3)
    row = ceiling.Row(rng.dirichlet(np.ones(60)), rng.standard_normal((60, 8)))
    answer = ceiling.best_in_pool(row, 4)
    assert answer.subsets == comb(28, 4)
    assert set(answer.kept.tolist()) <= set(ceiling.pool(row, 4).tolist())


def test_rows_are_not_written_to():
    rng = np.random.default_rng(4)
    row = ceiling.Row(rng.dirichlet(np.ones(20)), rng.standard_normal((20, 2)))
    first = ceiling.best_in_pool(row, 4, 6)
    ceiling.balance(row, 4, 6)
    second = ceiling.best_in_pool(row, 4, 6)
    assert first.error == second.error
    assert first.kept.tolist() == second.kept.tolist()


@pytest.mark.parametrize("search", ["best_in_pool", "balance"])
def test_bad_requests_are_refused_before_any_work(search):
    row = ceiling.Row(np.array([0.5, 0.5]), np.zeros((2, 1)))
    with pytest.raises(InputError, match=r"s: 0 is not positive"):
        getattr(ceiling, search)(row, 0)
    with pytest.raises(InputError, match=r"extra: -1"):
        getattr(ceiling, search)(row, 1, extra=-1)


def _sigma(row: oracle.Exact) -> float:
    return sqrt(row.variance)
