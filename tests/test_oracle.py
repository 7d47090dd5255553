"""The oracle against facts worked out by hand."""

import ast
import sys
from fractions import Fraction
from math import comb, isclose, sqrt
from pathlib import Path

import pytest
from hypothesis import given

from tests import oracle
from tests.strategies import NOISE, Problem, grid_problems, wild_problems

PAPER = oracle.exact(["9/20", "9/20", "1/10"], [[-1], [1], [5]])
"""The worked example of the paper (section 3)."""


def test_it_imports_the_standard_library_alone():
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)


def test_the_worked_example():
    assert oracle.top_mass(PAPER, 2) == (0, 1)
    assert oracle.forced(PAPER, (0, 1)) == Fraction(1, 4)
    assert oracle.best(PAPER, range(3), 2) == (Fraction(81, 484), (0, 2), 3, 1, 0)
    assert oracle.balance(PAPER, range(3), 2) == (Fraction(81, 484), (0, 2), 1, 1, 1)
    assert oracle.free(PAPER, (0, 2)) == 0


@pytest.mark.parametrize(
    ("values", "kept", "squared"),
    [
        ([[-1, 1], [1, 1], [0, -2]], (0, 1), 1),  # nearest point inside the segment
        ([[1, 1], [3, 1], [-4, -2]], (0, 1), 2),  # nearest point is an end
        ([[2, 0], [2, 0], [-4, 0]], (0, 1), 4),  # twins: a hull of one point
        ([[-1, 0], [3, 0], [-2, 0]], (0, 1, 2), 0),  # dense output inside, points dependent
        ([[0, 3], [4, 0], [-4, -3]], (0, 1), Fraction(144, 25)),  # the height of a 3-4-5 triangle
    ],
)
def test_free_error_is_the_distance_to_the_hull(values, kept, squared):
    row = oracle.exact([1, 1, 1], values)  # the mean is the origin
    assert oracle.free(row, kept) == squared


def test_pool_prefers_mass_times_distance_and_then_the_lowest_position():
    row = oracle.exact([4, 1, 2, 2, 1], [[0], [2], [1], [-1], [-2]])
    assert oracle.top_mass(row, 2) == (0, 2)
    assert oracle.pool(row, 1, 2) == (0, 1, 2)  # all four others score 2
    assert oracle.pool(row, 1, 9) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("s", "extra"), [(4, 24), (8, 12), (16, 6), (32, 4), (64, 3), (128, 2), (256, 2), (1, 24), (631, 1)]
)
def test_default_pools_hold_as_many_subsets_as_the_paper_allows(s, extra):
    assert oracle.extra_of(s) == extra
    assert comb(s + extra, s) <= oracle.POOL_SUBSETS_MOST


def test_zero_masses_are_no_keys():
    row = oracle.exact([0, 1, 0, 1], [[9], [1], [9], [3]])
    assert oracle.best(row, row.keys, 2) == (0, (1, 3), 1, 1, 0)
    assert oracle.pool(row, 1, 3) == (1, 3)


@given(grid_problems())
def test_an_optimum_is_no_worse_than_any_set(problem: Problem):
    row, s = problem.exact, problem.s
    best, balanced = oracle.best(row, row.keys, s), oracle.balance(row, row.keys, s)
    assert best.squared <= balanced.squared <= oracle.forced(row, oracle.top_mass(row, s))
    assert best.squared == oracle.forced(row, best.kept) >= oracle.free(row, best.kept)


@given(wild_problems())
def test_the_float_twin_agrees(problem: Problem):
    row = problem.exact
    error, kept, subsets, _ = oracle.brute_force(problem.masses, problem.values, row.keys, problem.s)
    best = oracle.best(row, row.keys, problem.s)
    assert isclose(error, sqrt(best.squared), rel_tol=1e-10, abs_tol=NOISE * sqrt(row.variance))
    assert subsets == best.subsets
    assert isclose(sqrt(oracle.forced(row, kept)), error, rel_tol=1e-10, abs_tol=NOISE * sqrt(row.variance))


@given(grid_problems())
def test_the_float_twin_breaks_ties_alike(problem: Problem):
    row = problem.exact
    _, *found = oracle.brute_force(problem.masses, problem.values, row.keys, problem.s)
    best = oracle.best(row, row.keys, problem.s)
    assert tuple(found) == (best.kept, best.subsets, best.ties)
