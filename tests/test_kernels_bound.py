"""Bounds of a node, against exact arithmetic on the same floats."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.kernels import bound, gains
from ceiling.kernels.vectors import WIDTH, dot, padded

D = 5


def keys_of(residuals: np.ndarray, masses: np.ndarray, tau: float) -> bound.Keys:
    norms = np.linalg.norm(residuals, axis=1) * (1 + 1e-12)
    order = np.argsort(-(norms + tau * masses), kind="stable")
    residuals, masses, norms = padded(residuals[order]), masses[order], norms[order]
    tail_norms, tail_masses = (np.maximum.accumulate(x[::-1])[::-1].copy() for x in (norms, masses))
    scale = float(norms.max())
    rough = padded((residuals / scale).astype(np.float32), 2 * WIDTH)
    return bound.Keys(residuals, masses, norms, tail_norms, tail_masses, rough, scale)


class Node:
    """Some keys, of which some are kept, `k` are to come, and a direction."""

    def __init__(self, seed: int, spread: float, scale: float) -> None:
        random = np.random.default_rng(seed)
        n = int(random.integers(2, 30))
        self.k, self.least = int(random.integers(1, n + 1)), float(random.choice([0.0, 0.3]))
        size = np.exp(spread * random.normal(size=n))
        masses = np.exp(random.normal(size=n))
        residuals = scale * size[:, None] * random.normal(size=(n, D))
        if random.random() < 0.3:
            residuals[1:] = residuals[0]  # ties
        self.tau = float(scale * np.median(size) * random.uniform(0.01, 2))
        self.keys = keys_of(residuals, masses, self.tau)
        self.masses, residuals = self.keys.masses, self.keys.residuals
        self.alive, self.marks = np.arange(n, dtype=np.int32), np.ones(n, np.int8)
        self.g = padded(scale * random.normal(size=(1, D)))[0]
        self.mass = float(random.uniform(0, 1))
        self.least *= self.mass + float(np.sort(masses)[-self.k :].sum())
        self.unit, grid = np.zeros(WIDTH), np.zeros(WIDTH, np.int16)
        ways = (
            padded(random.normal(size=(1, D)))[0],
            residuals[0],
            -residuals[-1],
        )  # along a key r are extreme
        bound.direction(ways[random.integers(3)], grid, self.unit)
        self.lam = float(random.choice([0.0, 1.0, 1e17])) * self.tau
        self.r, self.values, self.tops = np.zeros(n), np.full(n + 1, 1e300), np.zeros(n + 1, np.int64)
        self.tops[:n] = random.permutation(n) if random.random() < 0.5 else random.integers(n, size=n)

    def largest(self, want: int, rough: np.ndarray, slope: float) -> int:
        error = bound.ROUGH * (WIDTH + 8) if len(rough) else bound.MARGIN
        return bound.largest(
            self.keys, self.alive, len(self.alive), want, self.unit, rough, slope, error, self.marks, self.r,
            self.values, self.tops,
        )  # fmt: skip

    def bound(self, exactly: bool = False) -> tuple:
        sums = (self.g, self.mass, float(np.linalg.norm(self.g)))
        if exactly:
            return bound._best(
                self.keys, self.alive, len(self.alive), self.k, sums, self.unit, np.zeros(0, np.float32),
                self.tau, self.least, self.lam, bound.MARGIN, self.marks, self.r, self.values, self.tops,
            )  # fmt: skip
        return bound.bound(
            self.keys, self.alive, len(self.alive), self.k, sums, self.unit, np.zeros(2 * WIDTH, np.float32),
            self.tau, self.least, self.lam, self.marks, self.r, self.values, self.tops,
        )  # fmt: skip

    def exact(self, lam: float) -> tuple[Fraction, list[Fraction]]:
        """What a node without candidates has, and every key's r."""
        unit = [Fraction(x) for x in self.unit]
        slope = Fraction(self.tau) + Fraction(lam)

        def inner(vector: np.ndarray) -> Fraction:
            return sum((Fraction(x) * u for x, u in zip(vector, unit, strict=True)), Fraction(0))

        r = [slope * Fraction(p) - inner(z) for p, z in zip(self.masses, self.keys.residuals, strict=True)]
        return inner(self.g) - slope * Fraction(self.mass) + Fraction(lam) * Fraction(self.least), r


nodes = st.builds(
    Node, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 8.0]), st.sampled_from([1e-60, 1.0, 1e60])
)


@given(nodes, st.booleans())
def test_a_bound_is_as_close_as_it_says(node: Node, exactly: bool):
    d, margin, lam, seen, *_ = node.bound(exactly)
    base, r = node.exact(lam)
    true = base - sum(sorted(r)[len(r) - node.k :])
    assert abs(Fraction(d) - true) <= Fraction(margin)
    assert node.k <= seen <= len(r)
    assert (node.marks == 1).all()


@given(nodes)
def test_the_largest_are_found(node: Node):
    _, _, lam, _, error = node.bound()
    want = min(node.k + 1, len(node.alive))
    r = np.array([float(x) for x in node.exact(lam)[1]])
    slack = (error + 1e-12) * node.keys.norms.max() + 1e-12 * np.abs(r).max()
    tops = node.tops[:want]
    assert len(set(tops.tolist())) == want
    assert np.abs(np.sort(r)[::-1][:want] - node.values[:want]).max() <= slack
    assert (np.diff(node.values[:want]) <= 0).all()


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e17])
@pytest.mark.parametrize("exactly", [True, False])
def test_hints_hide_no_key(exactly: bool, factor: float):
    """All places are filled, by the largest: also where hints are these, and norms vanish beside masses."""
    for seed in range(60):
        node = Node(seed, 1.0, 1.0)
        slope, want = factor * node.tau, min(node.k + 1, len(node.alive))
        rough = np.zeros(0 if exactly else 2 * WIDTH, np.float32)
        rough[: len(rough) // 2] = node.unit[: len(rough) // 2]
        inner = node.keys.residuals @ node.unit
        if not exactly:
            inner[:] = [node.keys.scale * dot(node.keys.rough, j, rough) for j in range(len(inner))]
        r = slope * node.masses - inner
        if seed % 4:
            node.tops[:want] = np.argsort(-r, kind="stable")[:want]
        seen = node.largest(want, rough, slope)
        assert want <= seen <= len(r)
        assert len(set(node.tops[:want].tolist())) == want
        slack = 1e-12 * (np.abs(r).max() + node.keys.scale)
        assert np.abs(node.values[:want] - np.sort(r)[::-1][:want]).max() <= slack
        assert np.abs(node.values[:want] - r[node.tops[:want]]).max() <= slack


def test_a_rough_r_above_its_norm_is_seen():
    """Keys of norms 2, 1.5 and 1, of which the first and the last lie along the direction."""
    for seed in range(50):
        along, across = np.linalg.qr(np.random.default_rng(seed).normal(size=(D, 2)))[0].T
        node = Node(0, 0.0, 1.0)
        node.keys = keys_of(np.stack([-2 * along, 1.5 * across, -along]), np.full(3, 1e-3), 1.0)
        node.alive, node.marks = np.arange(3, dtype=np.int32), np.ones(3, np.int8)
        node.r, node.values, node.tops = np.zeros(3), np.zeros(3), np.array([0, 2, 0])
        rough = np.zeros(2 * WIDTH, np.float32)
        rough[:D] = along
        assert node.largest(2, rough, 0.0) == 3
        assert node.tops[:2].tolist() == [0, 2]


@given(nodes)
def test_what_is_fixed_is_in_no_set_or_in_all(node: Node):
    """Exactly: with a dropped key, or without a kept one, the node would be empty."""
    d, margin, lam, seen, error = node.bound()
    if d >= margin:
        return
    base, r = node.exact(lam)
    m = len(node.alive)
    left, forced = bound.fix(
        node.keys, node.alive, m, node.k, d, margin, node.tau + lam, seen, error, node.r, node.values,
        node.tops, node.marks,
    )  # fmt: skip
    assert sorted(node.alive[:left].tolist()) == np.flatnonzero(node.marks == 1).tolist()
    for j in set(range(m)) - set(node.alive[:left].tolist()):
        others = sorted(x for i, x in enumerate(r) if i != j)
        assert base - r[j] - sum(others[len(others) - node.k + 1 :]) >= 0
    for j in node.tops[: forced if m > node.k else 0].tolist():
        others = sorted(x for i, x in enumerate(r) if i != j)
        assert base - sum(others[len(others) - node.k :]) >= 0


def test_where_rough_sums_cannot_tell_exact_ones_do():
    """One key to come, along the direction, a hair above and below what the kept ones leave."""
    for share, empty in ((1 - 1e-9, False), (1 + 1e-9, True)):
        node = Node(3, 0.0, 1.0)
        node.k, node.least, node.tau = 1, 0.0, 0.0
        r = -(node.keys.residuals @ node.unit)
        node.g[:] = node.unit * r.max() * share / float(node.unit @ node.unit)
        d, margin, _, _, error = node.bound()
        assert error == bound.MARGIN
        assert (d >= margin) is empty


@pytest.mark.parametrize(("number", "width"), [(np.float64, WIDTH), (np.float32, 2 * WIDTH)])
@pytest.mark.parametrize("d", [1, 5, 64, 80])
def test_compiled_sums_are_those_of_the_interpreter(number: type, width: int, d: int):
    random = np.random.default_rng(d)
    matrix = padded(random.normal(size=(20, d)).astype(number), width)
    vector = padded(random.normal(size=(1, d)).astype(number), width)[0]
    for row in range(20):
        found = _dot(matrix, row, vector)
        assert found == dot(matrix, row, vector)
        rounding = (d + 8) * np.finfo(number).eps / 2
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(matrix[row], vector, strict=True))
        size = np.linalg.norm(matrix[row].astype(float)) * np.linalg.norm(vector.astype(float))
        assert abs(found - exact) <= rounding * size


@bound.compiled
def _dot(matrix: np.ndarray, row: int, vector: np.ndarray) -> float:
    return dot(matrix, row, vector)


def test_a_key_is_scored_by_what_its_own_branchings_gained():
    learned = gains.room(3)
    for _ in range(50):
        gains.learn(learned, 1, 1.0, gains.KEPT, 0.5, 4.0)
        gains.learn(learned, 1, 1.0, gains.LEFT_OUT, 0.5, 4.0)
        gains.learn(learned, 2, 1.0, gains.KEPT, 0.5, 0.1)
        gains.learn(learned, 2, 1.0, gains.LEFT_OUT, 0.5, 0.1)
    norms, x, keys = np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.5]), np.arange(3)
    assert gains.best(learned, norms, keys, 3, x) == 1
    assert gains.score(learned, 2, 1.0, 0.5) < gains.score(learned, 0, 1.0, 0.5)  # unknown: as the mean
    x[1] = 1.0  # of weight 1: there is nothing to decide
    assert gains.best(learned, norms, keys, 3, x) == 0
    gains.forget(learned)
    x[:] = (1.0, 0.5, 0.5)
    assert gains.score(learned, 1, 1.0, 0.5) == gains.score(learned, 2, 1.0, 0.5)
    x[:] = (1.0, 0.0, 1.0)
    assert gains.best(learned, norms, keys, 3, x) == 0  # any


def test_weights_of_keys_are_those_of_their_vertices():
    hull = (np.array([[0, 1], [1, 2], [2, 3]], np.int32), np.array([0.25, 0.75, 0.0]))
    x, keys = np.full(5, 7.0), np.zeros(6, np.int64)
    count = gains.mixed(hull, 3, 2, x, keys)
    assert sorted(keys[:count].tolist()) == [0, 1, 2]
    assert x[:3].tolist() == [0.25, 1.0, 0.75]
