"""The kernels against the definitions; one answer, compiled or interpreted."""

import json
import os
import subprocess
import sys
from itertools import combinations
from math import isclose, sqrt
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling import objective
from ceiling.kernels import direct, gram, hull, subsets, swaps
from tests import oracle
from tests.strategies import Problem, grid_problems, wild_problems

SHAPES = [
    (6, 2, 1, 1),
    (9, 3, 2, 4),
    (11, 8, 3, 3),
    (12, 5, 64, 4),
    (14, 1, 3, 13),
    (40, 32, 5, 2),
    (7, 6, 2, 1),
]
"""Keys, budget, dimension, extra: kept or dropped set the smaller, short and long loops."""

problems = st.one_of(grid_problems(least=2), wild_problems())


def _marks(n: int, kept: tuple[int, ...]) -> np.ndarray:
    marks = np.zeros(n, dtype=bool)
    marks[list(kept)] = True
    return marks


@given(problems)
def test_direct_error_of_every_kept_set(problem: Problem):
    row = objective.centre(problem.row)
    n, d = row.residuals.shape
    for kept in combinations(range(n), min(problem.s, n - 1)):
        if kept:
            error = direct.forced_error(row.residuals, row.masses, _marks(n, kept), np.empty(d))
            assert isclose(error, objective.forced_error_at(row, np.array(kept)), rel_tol=1e-13)


@given(st.integers(1, 5), st.data())
def test_sets_are_ordered_like_sorted_lists(size: int, data: st.DataObject):
    one, other = (data.draw(st.permutations(range(7))) for _ in range(2))
    a, b = tuple(sorted(one[:size])), tuple(sorted(other[:size]))
    assert direct.precedes(_marks(7, a), _marks(7, b)) == (a < b)


@given(wild_problems(), st.floats(1, 1e3))
def test_the_optimum_does_not_depend_on_the_incumbent(problem: Problem, factor: float):
    row = objective.centre(problem.row)
    n, d = row.residuals.shape
    arguments = (row.residuals, row.masses, problem.s)
    limits = (objective.TIE, objective.ZERO * row.sigma)
    start = _marks(n, tuple(objective.largest(row.masses, problem.s).tolist()))
    tau = direct.forced_error(row.residuals, row.masses, start, np.empty(d))
    first, second = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    tight = subsets.minimum(*arguments, tau, *limits, first)
    assert subsets.minimum(*arguments, tau * factor, *limits, second) == tight
    assert first.tolist() == second.tolist()
    reached, _ = swaps.balance(row.residuals, row.masses, *limits, start)
    third = np.zeros(n, dtype=bool)
    assert subsets.minimum(*arguments, reached, *limits, third) == tight
    assert first.tolist() == third.tolist()


@given(problems)
def test_the_hull_distance_lies_between_its_bounds(problem: Problem):
    row, exact = objective.centre(problem.row), problem.exact
    for kept in list(combinations(range(len(row.masses)), min(problem.s, 5)))[:10]:
        upper, lower = hull.min_norm(row.centred[list(kept)], objective.FREE_TOLERANCE * row.sigma)
        distance = sqrt(oracle.free(exact, row.positions[list(kept)].tolist()))
        rounding = 1e-12 * float(row.distances[list(kept)].max())
        assert lower - rounding <= distance <= upper + rounding


def test_inner_products():
    rng = np.random.default_rng(0)
    columns, x = rng.standard_normal((5, 9)), rng.standard_normal(5)
    assert np.allclose(gram.gram(columns), columns.T @ columns, rtol=1e-13, atol=1e-14)
    assert np.allclose(gram.products(columns, x), columns.T @ x, rtol=1e-13, atol=1e-14)


EVERY_SUBSET = """
import itertools
import numpy as np
from ceiling.kernels import subsets

seen = []
forms = subsets._forms
subsets._forms = lambda *a: (*forms(*a)[:2], np.inf)  # let everything through
subsets._decide = lambda z, p, chosen, *_: seen.append(tuple(sorted(chosen.tolist())))
for tabled in (1, 2, 5, 16, 64, 2**14):  # the tail is as long as its table allows
    subsets.TABLED = tabled
    for m in range(1, 10):
        z, p = np.random.default_rng(m).standard_normal((m, 2)), np.full(m, 1 / m)
        for s in range(1, m + 1):
            seen.clear()
            subsets._scan(z, p, s, 1.0, 1e-12, -1.0, np.zeros(m, dtype=bool), np.zeros(3))
            wanted = itertools.combinations(range(m), min(s, m - s))
            assert sorted(seen) == list(wanted), (tabled, m, s)
"""


def test_every_subset_is_visited_once_wherever_head_and_tail_meet():
    """A scan once went round the tail from its far end where all keys came from the head."""
    off = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", EVERY_SUBSET], env=off, check=True)


def answers() -> tuple[list[Any], list[float]]:
    """Searches over rows of every shape, generic and tied, as plain data; and their hull distances."""
    found, distances = [], []
    for seed, (n, s, d, extra) in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        generic = ceiling.Row(rng.dirichlet(np.ones(n)), rng.standard_normal((n, d)))
        tied = ceiling.Row(np.full(n, 1 / n), rng.integers(-2, 3, (n, d)).astype(float))
        for row in (generic, tied):
            best, balanced = ceiling.best_in_pool(row, s, extra), ceiling.balance(row, s, extra)
            found.append([best.error.hex(), best.kept.tolist(), best.ties])
            found.append([balanced.error.hex(), balanced.kept.tolist(), balanced.swaps])
            centred = objective.centre(row)
            distances.append(hull.min_norm(centred.centred[best.kept], 1e-10 * centred.sigma)[0])
    return found, distances


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="this run interprets the kernels already")
def test_compiled_and_interpreted_agree():
    """Sets and errors to the last bit; hull distances, which sum in another order, to 1e-10 sigma."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_kernels"],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    jit_off, (found, distances) = json.loads(done.stdout)
    assert jit_off
    compiled, compiled_distances = answers()
    assert found == compiled
    assert distances == pytest.approx(compiled_distances, rel=1e-9, abs=1e-9)


if __name__ == "__main__":
    print(json.dumps([bool(numba.config.DISABLE_JIT), answers()]))
