"""The best kept set over all keys: bounds it must keep, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given

import ceiling
from ceiling.problem import InputError
from tests import oracle
from tests.strategies import AGREE, Problem, close, grid_problems, wild_problems


def row_of(n: int, d: int = 16, seed: int = 0) -> ceiling.Row:
    rng = np.random.default_rng(seed)
    masses = np.exp(rng.normal(0, 2, n))
    return ceiling.Row(masses / masses.sum(), rng.standard_normal((n, d)))


@given(wild_problems())
def test_wild_rows_against_the_oracle(problem: Problem):
    row, exact = problem.row, problem.exact
    answer = ceiling.improve(row, problem.s, rounds=300)
    assert close(answer.error, oracle.best(exact, exact.keys, problem.s).squared, exact)


@given(grid_problems())
def test_rows_with_ties_and_zero_masses(problem: Problem):
    row, exact = problem.row, problem.exact
    answer = ceiling.improve(row, problem.s, rounds=300)
    best = oracle.best(exact, exact.keys, problem.s)
    assert close(answer.error, best.squared, exact)
    assert close(answer.error, oracle.forced(exact, answer.kept.tolist()), exact)
    assert answer.kept.tolist() == sorted(answer.kept.tolist())
    assert answer.status == ("trivial" if len(exact.keys) == problem.s else "gap")
    if best.ties == 1:
        assert tuple(answer.kept.tolist()) == best.kept


@pytest.mark.parametrize("s", [1, 4, 8, 16, 32])
def test_never_above_the_pool_nor_below_what_it_keeps(s):
    for seed in range(3):
        row = row_of(200, seed=seed)
        answer = ceiling.improve(row, s, rounds=1000)
        assert answer.error <= ceiling.best_in_pool(row, s).error * (1 + AGREE)
        assert answer.error == pytest.approx(ceiling.forced_error(row, answer.kept), rel=AGREE)
        assert answer.kept.dtype == np.int64


@pytest.mark.parametrize("rho", [0.5, 0.9, 1.0, 1])
def test_the_mass_floor_holds(rho):
    row = row_of(300)
    free = ceiling.improve(row, 8, rounds=1000)
    floored = ceiling.improve(row, 8, rounds=1000, mass_floor=rho)
    top = ceiling.top_mass(row, 8)
    assert row.masses[floored.kept].cumsum()[-1] >= rho * row.masses[top].cumsum()[-1]
    assert free.error <= floored.error <= ceiling.forced_error(row, top) * (1 + AGREE)
    if rho == 1:
        assert floored.kept.tolist() == top.tolist()


def test_the_floor_matters_where_tails_balance():
    """Light keys that cancel beat every set of the heavy ones; no cache would keep them."""
    values = np.array([[3.0], [2.0], [1e-3], [-1e-3], [-2.5]])
    masses = np.array([0.3, 0.25, 0.001, 0.001, 0.448])
    row = ceiling.Row(masses, values - masses @ values)
    assert ceiling.improve(row, 2).kept.tolist() != ceiling.improve(row, 2, mass_floor=0.9).kept.tolist()
    assert row.masses[ceiling.improve(row, 2, mass_floor=0.9).kept].sum() > 0.5


def test_the_seed_decides():
    row = row_of(2000, 64)
    found = [ceiling.improve(row, 16, seed=seed, rounds=300) for seed in (3, 3, 4, 5, 6)]
    assert (found[0].error, found[0].kept.tolist()) == (found[1].error, found[1].kept.tolist())
    assert len({answer.error for answer in found}) > 1


@pytest.mark.parametrize("s", [3, 4, 100])
def test_short_rows_are_kept_whole(s):
    row = ceiling.Row(np.array([0.2, 0, 0.3, 0.5]), np.array([[1.0], [9], [2], [4]]))
    answer = ceiling.improve(row, s)
    assert (answer.error, answer.kept.tolist(), answer.status) == (0.0, [0, 2, 3], "trivial")


def test_keys_all_alike_need_no_search():
    row = ceiling.Row(np.full(50, 0.02), np.full((50, 3), 0.1))
    assert ceiling.improve(row, 4, rounds=10**9).error == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"s": 0}, r"s: 0 is not positive"),
        ({"s": 1, "seed": -1}, r"seed: -1; a seed"),
        ({"s": 1, "seed": 0.5}, r"seed: 0\.5; a seed"),
        ({"s": 1, "rounds": 0}, r"rounds: 0 is not positive"),
        ({"s": 1, "mass_floor": 0}, r"mass_floor: 0; a share"),
        ({"s": 1, "mass_floor": 1.5}, r"mass_floor: 1\.5; a share"),
        ({"s": 1, "mass_floor": float("nan")}, r"mass_floor: nan; a share"),
        ({"s": 1, "mass_floor": "0.5"}, r"mass_floor: '0\.5'; a share"),
        ({"s": 1, "mass_floor": True}, r"mass_floor: True; a share"),
    ],
)
def test_bad_requests_are_refused(arguments, message):
    row = ceiling.Row(np.array([0.5, 0.5]), np.zeros((2, 1)))
    with pytest.raises(InputError, match=message):
        ceiling.improve(row, **arguments)


def test_what_is_no_row_is_refused():
    with pytest.raises(InputError, match=r"row: ndarray; make one with"):
        ceiling.improve(np.zeros(3), 1)
