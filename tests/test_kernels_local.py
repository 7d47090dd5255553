"""Local search against brute force, and against its own promises: floor, order, determinism."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from ceiling.kernels import local
from ceiling.objective import TIE, ZERO, CentredRow
from tests.strategies import AGREE, Problem, grid_problems, wild_problems

ROUNDS = 500
"""Enough to search out rows of a few keys."""


def error(row: CentredRow, kept) -> float:
    g = row.residuals[list(kept)].cumsum(axis=0)[-1]
    return float(np.sqrt(g @ g) / mass(row, kept))


def mass(row: CentredRow, kept) -> float:
    return float(row.masses[list(kept)].cumsum()[-1])


def brute(row: CentredRow, s: int, least: float) -> float:
    """The least error of all sets that meet the floor."""
    sets = np.array(list(combinations(range(len(row.masses)), s)))
    masses = row.masses[sets].cumsum(axis=1)[:, -1]
    g = sum(row.residuals[sets[:, a]] for a in range(s))
    return (np.sqrt((g * g).sum(axis=1)) / masses)[masses >= least].min()


def search(row: CentredRow, s: int, rho: float = 0.0, seed: int = 0, rounds: int = ROUNDS, start=None):
    top = objective.largest(row.masses, s)
    start = top if start is None else start
    least = rho * mass(row, top)
    found, kept = local.search(
        row.residuals, row.masses, s, least, start, seed, rounds, TIE, ZERO * row.sigma
    )
    assert kept.dtype == np.int64
    assert len(kept) == s
    assert (np.diff(kept) > 0).all()
    assert mass(row, kept) >= least
    assert found == pytest.approx(error(row, kept), rel=1e-12, abs=ZERO * row.sigma)
    return found, kept


def diffuse(n: int, d: int, seed: int) -> CentredRow:
    """A row whose best sets may lie at any scale of mass."""
    rng = np.random.default_rng(seed)
    masses = np.exp(rng.normal(0, 2, n))
    return objective.centre(ceiling.Row(masses / masses.sum(), rng.standard_normal((n, d))))


@given(st.one_of(grid_problems(least=2), wild_problems()), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_every_budget_of_small_rows(problem: Problem, rho: float):
    """Duplicates, exact ties, zero errors, outliers, masses over twelve decades."""
    row = objective.centre(problem.row)
    for s in range(1, len(row.masses) + 1):
        least = rho * mass(row, objective.largest(row.masses, s))
        found, _ = search(row, s, rho)
        assert found <= max(brute(row, s, least) * (1 + AGREE), ZERO * row.sigma)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("n", "s", "d"), [(26, 4, 16), (16, 7, 64), (30, 3, 1), (20, 17, 5)])
def test_rows_of_some_keys(n: int, s: int, d: int, rho: float):
    for seed in range(3):
        row = diffuse(n, d, seed)
        least = rho * mass(row, objective.largest(row.masses, s))
        found, _ = search(row, s, rho, rounds=4 * ROUNDS)
        assert found == pytest.approx(brute(row, s, least), rel=AGREE)


def test_the_same_seed_gives_the_same_answer_and_more_rounds_no_worse_one():
    row = diffuse(700, 64, 7)
    errors = []
    for rounds in (1, 10, 100, 1000):
        (found, kept), again = search(row, 8, rounds=rounds), search(row, 8, rounds=rounds)
        assert (found, kept.tolist()) == (again[0], again[1].tolist())
        errors.append(found)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]


def test_the_best_of_several_starts_is_never_lost():
    row = diffuse(300, 8, 1)
    best, kept = search(row, 4, rounds=2000)
    starts = np.stack([objective.largest(row.masses, 4), kept, np.arange(4)])
    assert search(row, 4, rounds=1, start=starts)[0] == best


def test_of_tied_sets_the_first_wins():
    """Keys 0 to 5 twice over: every best set has a copy further back."""
    row = diffuse(6, 2, 4)
    twice = objective.centre(ceiling.Row(np.tile(row.masses, 2) / 2, np.tile(row.centred, (2, 1))))
    for s in (1, 2, 3):
        found, kept = search(twice, s)
        tied = [
            other
            for other in combinations(range(12), s)
            if error(twice, other) <= found * (1 + TIE)
        ]  # fmt: skip
        assert tuple(kept.tolist()) == tied[0]


def test_inner_products_when_room_runs_out():
    """What is not kept is computed again; kept keys never lose their slots."""
    row = diffuse(60, 5, 2)
    keys, slots = local._keys(row.residuals, row.masses), np.full(60, -1)
    cache = (np.empty((7, 60)), np.full(7, -1), slots, np.zeros(1, np.int64))
    mark = np.zeros(60, dtype=bool)
    mark[[3, 50]] = True
    for i in [3, 50, *range(60), 3]:
        products = cache[0][local._products(keys, cache, mark, i)]
        assert products == pytest.approx(row.residuals @ row.residuals[i], abs=1e-12)
        assert slots[3] >= 0
    assert sorted(slots[slots >= 0]) == list(range(7))
    assert slots[50] >= 0


def test_no_start_that_meets_the_floor():
    row = diffuse(20, 3, 0)
    lightest = np.sort(np.argsort(row.masses)[:3])
    assert local.search(row.residuals, row.masses, 3, 1.5, lightest, 0, 10)[0] == np.inf
