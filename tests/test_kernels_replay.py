"""The arithmetic of the replay against rational numbers: rounded up everywhere, and by next to nothing."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ceiling.certify import check
from ceiling.kernels import replay, whole
from tests import oracle
from tests.test_check import cases, root

TIGHT = Fraction(1, 2**48)
"""By what a form may exceed what it stands for, in units of the largest of the subtree."""


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2**bits), 2**bits)


@given(st.integers(0, 2**61 - 1), signed(60))
def test_the_high_part_of_a_product(a, b):
    assert whole.high_part(a, b) == a * b >> 62


@given(st.lists(st.integers(-(2**60) + 1, 2**60 - 1), min_size=1, max_size=40), st.integers(0, 40))
def test_sums_are_cut_off(numbers, k):
    places = np.arange(len(numbers))[::-1].copy()
    rest, k = np.array(numbers[::-1]), min(k, len(numbers))
    total = sum(numbers[::-1][:k]) + sum(numbers[::-1][: len(numbers) - k])
    expected = max(-whole.LIMIT, min(whole.LIMIT, total))
    numbers = np.array(numbers)
    assert whole.add_up(numbers, places, k, rest, len(numbers) - k) == expected


@given(st.lists(signed(62) | signed(15) | signed(1), min_size=1, max_size=70))
def test_a_direction_and_its_length(point):
    direction = np.empty(len(point), dtype=np.int32)
    length = whole.towards(np.array(point, dtype=np.int64), direction)
    grid = direction.tolist()
    if not any(grid):
        assert length == 0
        assert not any(point)
        return
    assert whole.DIRECTION // 2 - len(point) <= sum(map(abs, grid)) < whole.DIRECTION
    scale = Fraction(sum(map(abs, point)), sum(map(abs, grid)))
    assert all(abs(x - scale * u) <= scale * (len(point) + 1) for x, u in zip(point, grid, strict=True))
    exact = root(Fraction(sum(u * u for u in grid))) * 2**31
    assert exact <= length <= exact * (1 + TIGHT) + 1


@given(cases(), st.integers(0, 32767), st.integers(-60, 30), st.data())
def test_forms_are_rounded_up_and_hardly(found, mantissa, exponent, data):
    inside = found.masses > 0
    masses, values = found.masses[inside], found.values[inside]
    lower = found.error * data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    keys = check._claim(check._exact(masses, values), masses, found.s, lower, found.rho)
    state = replay.start(keys)
    tree = 0 if found.rho else data.draw(st.integers(0, len(masses) - found.s))
    replay.begin(keys, state, tree)
    for c in range(values.shape[1]):
        state.point[c] = data.draw(st.integers(-32768, 32767))
    unit = Fraction(2) ** replay.measure(keys, state, mantissa, exponent)
    length = whole.towards(state.point, state.direction)
    lam, scale = whole.multiplier(length, mantissa, exponent, keys.scale)
    lam = lam * Fraction(2) ** scale
    wanted = Fraction(length, 2**31) * mantissa * Fraction(2) ** exponent
    slope = Fraction(lower) * root(Fraction(sum(int(u) ** 2 for u in state.direction))) + lam
    assert abs(lam - wanted) <= slope / 2**40
    p, total = [Fraction(x) for x in masses], sum(Fraction(x) for x in masses)
    row = oracle.exact(masses, values)
    share = Fraction(found.rho) * oracle.mass(row, oracle.top_mass(row, found.s)) * total / found.s
    order = sorted(range(len(p)), key=lambda j: -p[j])
    along = [sum(int(u) * x for u, x in zip(state.direction, c, strict=True)) for c in row.centred]
    most = max(p[j] * (slope + sum(map(abs, row.centred[j])) * whole.DIRECTION) for j in order[tree:])
    for i, j in enumerate(order):
        if i >= tree:
            exact = p[j] * (slope - along[j]) - lam * share
            assert exact <= state.form[i] * unit <= exact + TIGHT * most
