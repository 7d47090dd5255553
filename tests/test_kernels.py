"""The kernels against the definitions; one answer, compiled or interpreted."""

import json
import os
import shutil
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
from ceiling.kernels import compiled, direct, gram, hull, lanes, subsets, swaps
from tests import oracle
from tests.strategies import Problem, grid_problems, wild_problems
from tests.test_kernels_branch import KINDS, rows

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


def balanced(row: objective.CentredRow, kept: np.ndarray) -> tuple[float, float, int]:
    """`swaps.balance` with every key in the pool."""
    z = row.residuals
    limits = (objective.TIE, objective.ZERO * row.sigma)
    scratch = swaps.scratch_of(len(z), int(kept.sum()), *z.shape)
    return swaps.balance(z, row.masses, z @ z.T, np.arange(len(z)), *limits, kept, scratch)


def minima(
    centred: list[objective.CentredRow], s: int, taus: list[float]
) -> list[tuple[float, int, list[bool]]]:
    """`subsets.minima` with every key of equally long rows in the pool: error, ties and winner of each."""
    residuals, masses = (
        np.stack([row.residuals for row in centred]),
        np.stack([row.masses for row in centred]),
    )
    n, m, _ = residuals.shape
    gram, pools = residuals @ residuals.transpose(0, 2, 1), np.tile(np.arange(m), (n, 1))
    errors, ties, best = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros((n, m), dtype=bool)
    subsets.minima(
        residuals, masses, gram, pools, np.arange(n), m, s,
        np.array(taus), objective.TIE, objective.ZERO * np.array([row.sigma for row in centred]),
        lanes.aligned(m, m), lanes.aligned(max(s, 1), m + 1), best, errors, ties,
    )  # fmt: skip
    return list(zip(errors.tolist(), ties.tolist(), best.tolist(), strict=True))


@given(problems)
def test_direct_error_of_every_kept_set(problem: Problem):
    row = objective.centre(problem.row)
    n, d = row.residuals.shape
    everything = np.arange(n)
    for kept in combinations(range(n), min(problem.s, n - 1)):
        if kept:
            marks = _marks(n, kept)
            error = direct.forced_error(row.residuals, row.masses, everything, marks, np.empty(d))
            assert isclose(error, objective.forced_error_at(row, np.array(kept)), rel_tol=1e-13)


@given(st.integers(1, 5), st.data())
def test_sets_are_ordered_like_sorted_lists(size: int, data: st.DataObject):
    one, other = (data.draw(st.permutations(range(7))) for _ in range(2))
    a, b = tuple(sorted(one[:size])), tuple(sorted(other[:size]))
    assert direct.precedes(_marks(7, a), _marks(7, b)) == (a < b)


@given(wild_problems(), st.floats(1, 1e3))
def test_the_optimum_does_not_depend_on_the_incumbent(problem: Problem, factor: float):
    row = objective.centre(problem.row)
    marks = _marks(len(row.masses), tuple(objective.largest(row.masses, problem.s).tolist()))
    tau, reached, _ = balanced(row, marks)
    (tight,) = minima([row], problem.s, [tau])
    assert minima([row] * 3, problem.s, [tau * factor, reached, tight[0]]) == [tight] * 3


@pytest.mark.parametrize("count", [1, 5, 16, 17, 40])
def test_an_instance_is_alone_in_its_lane(count: int):
    """Rows of very different scales beside each other, tied ones among them, batches full and not."""
    rng = np.random.default_rng(count)
    centred, taus = [], []
    for i in range(count):
        values = rng.integers(-2, 3, (12, 3)).astype(float) if i % 3 == 0 else rng.standard_normal((12, 3))
        masses = np.full(12, 1 / 12) if i % 3 == 0 else rng.dirichlet(np.full(12, 0.3)) + 1e-9
        centred.append(
            objective.centre(ceiling.Row(masses / masses.sum(), values * 10.0 ** (7 * (i % 5) - 14)))
        )
        taus.append(balanced(centred[-1], _marks(12, tuple(range(5))))[1])
    together = minima(centred, 5, taus)
    assert together == [minima([row], 5, [tau])[0] for row, tau in zip(centred, taus, strict=True)]
    assert len({ties for _, ties, _ in together}) > 1 or count == 1


@pytest.mark.parametrize(("m", "s"), [(9, 3), (9, 6), (12, 4), (13, 11), (8, 1), (8, 7)])
def test_a_set_at_the_incumbent_is_never_screened_out(m: int, s: int):
    """The edge of the proof: the incumbent is the optimum itself, so its form is 0 but for rounding."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        spread = 10.0 ** rng.uniform(-6, 0, (m, 1))  # sums of large vectors that nearly cancel, too
        values = np.concatenate([rng.standard_normal((m // 2, 2)), -rng.standard_normal((m - m // 2, 2))])
        row = objective.centre(ceiling.Row(rng.dirichlet(np.ones(m)), 1e3 + values * spread))
        errors = [
            direct.forced_error(row.residuals, row.masses, np.arange(m), _marks(m, kept), np.empty(2))
            for kept in combinations(range(m), s)
        ]
        ((error, _, _),) = minima([row], s, [min(errors)])
        assert error == min(errors)


@pytest.mark.parametrize("kind", KINDS)
def test_hard_rows(kind: str):
    """Outliers, masses over twelve decades, duplicates, sums that cancel: as brute force, to the last bit."""
    for case in rows(kind):
        m, z, p = len(case.pool), case.residuals[None], case.masses[None]
        scratch = lanes.aligned(m, m), lanes.aligned(max(case.s, 1), m + 1)
        for tau in (case.least, case.errors[0], max(case.errors)):
            errors, ties, best = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, m), dtype=bool)
            subsets.minima(
                z, p, z @ z.transpose(0, 2, 1), case.pool[None], np.arange(1), m, case.s, np.array([tau]),
                objective.TIE, np.array([case.zero]), *scratch, best, errors, ties,
            )  # fmt: skip
            assert (errors[0], ties[0], tuple(np.flatnonzero(best[0]).tolist())) == case.brute()


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=48, max_size=48))
def test_lanes_compute_what_numpy_computes(numbers: list[int]):
    array = np.array(numbers, dtype=np.int32).reshape(3, 16)
    out = lanes.aligned(3)
    bits = _each_operation(array, out)
    assert out[0].tolist() == (array[0] + array[1]).tolist()
    assert out[1].tolist() == np.minimum(array[1], array[2]).tolist()
    assert [bits >> lane & 1 for lane in range(16)] == (array[0] <= array[2]).astype(int).tolist()
    assert out.ctypes.data % 64 == 0


@numba.njit
def _each_operation(array: np.ndarray, out: np.ndarray) -> int:
    a, b, c = lanes.load(array, 0), lanes.load(array, 1), lanes.load(array, 2)
    lanes.store(out, 0, lanes.add(a, b))
    lanes.store(out, 1, lanes.minimum(b, c))
    return lanes.not_above(a, c)


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
    assert np.allclose(gram.products(columns, x), columns.T @ x, rtol=1e-13, atol=1e-14)


EVERY_SUBSET = """
import itertools
import numpy as np
from ceiling.kernels import lanes, subsets

seen = []
subsets.slack = lambda *_: np.inf  # let everything through
subsets.decide = lambda error, kept, *_: seen.append(tuple(np.flatnonzero(kept).tolist()))
for m in range(1, 10):
    z, p = np.random.default_rng(m).standard_normal((1, m, 2)), np.full((1, m), 1 / m)
    gram, row, pool = z @ z.transpose(0, 2, 1), np.arange(1), np.arange(m)[None]
    for s in range(1, m + 1):
        seen.clear()
        scratch = lanes.aligned(m, m), lanes.aligned(max(min(s, m - s), 1), m + 1)
        out = np.zeros((1, m), dtype=bool), np.zeros((1, 3))
        subsets._scan(z, p, gram, pool, row, m, s, np.ones(1), np.zeros(1), 1e-12, True, *scratch, *out)
        assert sorted(seen) == list(itertools.combinations(range(m), s)), (m, s)
"""


def test_every_subset_is_visited_once():
    """A scan once went round the tail of a pool from its far end."""
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


def test_a_changed_kernel_is_compiled_into_those_that_call_it(tmp_path: Path):
    """A stale cache once gave errors of an older `direct.forced_error` until it was deleted by hand."""
    package = tmp_path / "copied"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(Path(compiled.__file__), package)
    head = "from copied.compiled import compiled\n{}\n@compiled\n"
    caller, callee = package / "caller.py", package / "callee.py"
    caller.write_text(head.format("from copied.callee import answer") + "def ask():\n    return answer()\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for number in (1, 2):
        callee.write_text(head.format("") + f"def answer():\n    return {number}\n")
        command = [sys.executable, "-c", "from copied.caller import ask; print(ask())"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f"{number}\n"
    assert len(list((package / "__pycache__").rglob("caller.ask*.nbi"))) == 2


if __name__ == "__main__":
    print(json.dumps([bool(numba.config.DISABLE_JIT), answers()]))
