"""Branch and bound against brute force: the same set, error and ties, to the last bit."""

from collections.abc import Iterator
from itertools import combinations
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling import objective
from ceiling.kernels import branch, direct
from ceiling.objective import TIE, ZERO
from tests.strategies import Problem, grid_problems, wild_problems

ALL = 10**9
"""Nodes no test comes near."""


class Pool:
    """Keys, the pool among them and a budget; every subset's direct error."""

    def __init__(self, residuals, masses, s, zero=0.0, pool=None):
        self.residuals, self.masses, self.s, self.zero = residuals, masses, s, zero
        self.pool = np.arange(len(masses)) if pool is None else pool
        g = np.empty(residuals.shape[1])
        self.sets = list(combinations(range(len(self.pool)), s))
        self.errors = [
            direct.forced_error(residuals, masses, self.pool, self.marks(kept), g) for kept in self.sets
        ]
        self.least = min(self.errors)

    def marks(self, kept):
        marks = np.zeros(len(self.pool), dtype=bool)
        marks[list(kept)] = True
        return marks

    def brute(self):
        """Error, ties and winner by definition; `combinations` are in lexicographic order."""
        limit = max(self.least * (1 + TIE), self.zero)
        tied = [i for i, error in enumerate(self.errors) if error <= limit]
        return self.errors[tied[0]], len(tied), self.sets[tied[0]]

    def arguments(self, tau, tie=TIE):
        gram = self.residuals @ self.residuals.T
        return gram, self.residuals, self.masses, self.pool, self.s, tau, tie, self.zero

    def search(self, tau, cap=ALL):
        """Error, ties and winner by branch and bound; and subsets evaluated and nodes visited."""
        best = np.zeros(len(self.pool), dtype=bool)
        error, ties, evaluated, nodes = branch.search(*self.arguments(tau), cap, best)
        return (error, ties, tuple(np.flatnonzero(best).tolist())), evaluated, nodes

    def scan(self, tau, tie=TIE):
        """The smallest error of one pass whose incumbent may be wrong."""
        found, best = np.array([inf, inf, 0.0]), np.zeros(len(self.pool), dtype=bool)
        branch._scan(*self.arguments(tau, tie), -1.0, ALL, best, found)
        return float(found[0])


def of(problem: Problem, s: int) -> Pool:
    row = objective.centre(problem.row)
    return Pool(row.residuals, row.masses, s, ZERO * row.sigma)


def rows(kind: str) -> Iterator[Pool]:
    """Pools inside larger rows, at every budget; some the hard way of their kind."""
    for seed, (n, d) in enumerate([(9, 1), (10, 3), (11, 64), (12, 8)]):
        rng = np.random.default_rng(seed)
        values, masses = rng.standard_normal((n, d)), rng.dirichlet(np.ones(n))
        if kind == "outlier":  # D some 2000 sigma
            values[0] *= 2e3 * np.sqrt(d)
            masses[0] = 1e-9
        elif kind == "decades":
            masses = 10.0 ** rng.uniform(-12, 0, n)
        elif kind == "duplicates":
            values, masses = rng.integers(0, 2, (n, d)).astype(float), np.full(n, 1 / 16)
        elif kind == "cancelling":  # sums eight digits smaller than their terms
            values[1::2] = -values[: n - n % 2 : 2]
            values, masses = values * 1e8 + rng.standard_normal((n, d)), np.full(n, 1 / n)
        elif kind == "zeros":  # many pairs that cancel exactly
            values[1::2] = -values[: n - n % 2 : 2]
            masses = np.full(n, 1 / 16)
        elif kind == "underflow":  # squares near the smallest number there is
            values, masses = values * 1e-70, np.full(n, 1e-91)
        elif kind == "alike":  # parallel residuals: every bound is attained, nothing to spare but the slack
            values, masses = np.full((n, d), 5.0), np.full(n, 1 / 20)
            values[n // 2], masses[n // 2] = 1.0, 1 / 2
        centred = (
            values if kind in ("zeros", "underflow", "alike") else values - masses / masses.sum() @ values
        )
        residuals = masses[:, None] * centred
        pool = np.sort(rng.permutation(n)[: n - 1])
        for s in range(1, len(pool) + 1):
            yield Pool(residuals, masses, s, pool=pool)


KINDS = ["generic", "outlier", "decades", "duplicates", "cancelling", "zeros", "underflow", "alike"]


@given(st.one_of(grid_problems(least=2), wild_problems()))
def test_every_budget_of_small_rows(problem: Problem):
    """Kept and dropped sets, duplicates and exact ties, zero errors, outliers, masses over twelve decades."""
    for s in range(1, problem.row.n_keys + 1):
        case = of(problem, s)
        for tau in (case.least, case.errors[0], max(case.errors)):
            found, evaluated, nodes = case.search(tau)
            assert found == case.brute()
            assert nodes > 0
            assert 0 < evaluated <= len(case.sets)


@pytest.mark.parametrize("kind", KINDS)
def test_pools_inside_larger_rows(kind: str):
    for case in rows(kind):
        for tau in (case.least, case.errors[0]):
            assert case.search(tau)[0] == case.brute()


@pytest.mark.parametrize("kind", KINDS)
def test_no_set_at_the_incumbent_is_pruned(kind: str):
    """The slack holds at its edge: an error of exactly tau, and of tau (1 + TIE), is let through."""
    for case in (case for case in rows(kind) if case.s < len(case.pool)):
        assert case.scan(case.least, tie=0.0) == case.least
        assert case.scan(case.least / (1 + 0.99 * TIE)) == case.least


def test_the_slack_is_tight_enough_to_prune():
    """With an incumbent a thousandth below the optimum no form is let through."""
    for case in (case for case in rows("generic") if case.s < len(case.pool)):
        assert case.scan(case.least * 0.999) == inf


def test_a_pass_ends_at_its_cap():
    """Nodes -1 up to what the search takes, the answer from there on, whichever pass ends it."""
    rng = np.random.default_rng(3)
    generic = Pool(rng.standard_normal((11, 3)), rng.dirichlet(np.ones(11)), 5)
    tied = Pool(np.ones((8, 2)), np.full(8, 1 / 8), 4)
    for case in (generic, tied):
        answer, evaluated, nodes = case.search(max(case.errors))
        assert answer == case.brute()
        ends = [case.search(max(case.errors), cap) for cap in range(nodes + 1)]
        done = [end[2] >= 0 for end in ends]
        assert done == sorted(done)
        assert not done[0]
        assert ends[-1] == (answer, evaluated, nodes)
        for (error, _, kept), _, left in ends:
            assert left in (-1, nodes)
            assert error == inf or error == case.errors[case.sets.index(kept)]
    assert case.search(case.least, nodes // 4)[2] == -1


def test_what_is_evaluated_is_a_small_part_of_a_wide_pool():
    """Masses fall off as in softmax rows; the far tail is below the rounding of the heavy keys."""
    rng = np.random.default_rng(5)
    masses = np.exp(-np.arange(40) * 0.5)
    masses /= masses.sum()
    values = rng.standard_normal((40, 16))
    residuals = masses[:, None] * (values - masses @ values)
    for s, m in ((3, 40), (4, 24), (18, 21)):
        case = Pool(residuals, masses, s, pool=np.arange(m))
        for tau in (case.least, case.errors[0]) if s == 18 else (case.least, max(case.errors)):
            found, evaluated, nodes = case.search(tau)
            assert found == case.brute()
            assert max(evaluated, nodes) < 0.1 * comb(m, s)
        assert case.scan(case.least * 0.999) == inf
