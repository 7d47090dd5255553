"""Budgets of cells: the same total under every rule, and each rule's own proportions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.problem import InputError
from ceiling.selectors.allocation import apportion, by_map, mass_greedy, pyramid, uniform

limits = st.lists(st.integers(1, 40), min_size=1, max_size=12)
budgets = st.integers(1, 30)


@given(limits, budgets, st.data())
def test_every_rule_spends_what_uniform_spends(limits, s, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    cells = len(limits)
    masses = np.where(np.arange(40) < np.array(limits)[:, None], rng.random((cells, 40)) + 0.01, 0)
    spent = uniform(np.array(limits), s)
    assert spent.tolist() == [min(limit, s) for limit in limits]
    for budgets in (
        pyramid(np.array(limits), s, rng.integers(0, 5, cells)),
        by_map(np.array(limits), s, rng.random(cells)),
        mass_greedy(masses, s),
        apportion(rng.random(cells) * 10.0 ** rng.integers(-3, 3) + 1e-6, np.array(limits), s),
    ):
        assert budgets.dtype == np.int64
        assert budgets.sum() == spent.sum()
        assert budgets.min() >= 1
        assert (budgets <= limits).all()


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(any), min_size=1, max_size=6), budgets
)
def test_mass_greedy_takes_the_largest_masses(rows, s):
    """Each cell's largest, then the largest of all; ties to the lowest cell."""
    cells = len(rows)
    total = sum(min(s, sum(mass > 0 for mass in row)) for row in rows)
    rest = sorted((-mass, cell) for cell, row in enumerate(rows) for mass in sorted(row)[:-1] if mass > 0)
    wanted = [1] * cells
    for _, cell in rest[: total - cells]:
        wanted[cell] += 1
    assert mass_greedy(np.array(rows, dtype=np.float32), s).tolist() == wanted


def test_pyramid_falls_linearly():
    layers, many = np.repeat(np.arange(5), 2), np.full(10, 1000)
    assert pyramid(many, 20, layers).tolist() == [39, 39, 30, 30, 20, 20, 10, 10, 1, 1]
    assert pyramid(many, 40, layers).tolist() == [78, 78, 59, 59, 40, 40, 21, 21, 2, 2]
    assert pyramid(many, 8, np.full(10, 3)).tolist() == [8] * 10, "one layer"


def test_flat_cells_get_twice_the_budget():
    assert by_map(np.full(4, 100), 9, np.array([0.1, 0.25, 0.26, 0.9])).tolist() == [6, 6, 12, 12]
    assert by_map(np.array([100, 100, 100, 7]), 9, np.array([0.1, 0.2, 0.6, 0.9])).tolist() == [7, 7, 13, 7]


def test_fractions_go_to_the_largest():
    assert apportion(np.array([1.0, 1.0, 1.0, 1.1]), np.full(4, 100), 3).tolist() == [3, 3, 3, 3]
    assert apportion(np.array([5.0, 3.0, 3.0]), np.full(3, 100), 5).tolist() == [7, 4, 4]
    assert apportion(np.array([1.0, 1.0, 1.3]), np.full(3, 100), 3).tolist() == [3, 3, 3]


@pytest.mark.parametrize("limits", [[], [3, 0], [[3]]])
def test_cells_without_keys_are_refused(limits):
    with pytest.raises(InputError, match="every cell needs at least one key"):
        uniform(np.array(limits), 4)
