"""The reduction from PARTITION: what is planted is there, what is certified is not, and the gap."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling.certify.balance import balance_of, read_keys
from ceiling.certify.reduction import Instance, certified_no, planted_yes, reduce_partition
from ceiling.problem import InputError


def check(instance: Instance, m: int, bits: int) -> None:
    assert len(instance.points) == m == 2 * instance.s
    assert min(instance.points) >= 0
    assert max(instance.points).bit_length() <= bits
    assert sum(x == 0 for x in instance.points) == instance.s
    assert sum(instance.points) % 2 == 0  # parity decides nothing
    assert balance_of(read_keys(instance.points), instance.s) is not None  # nor does a common factor


@pytest.mark.parametrize("bits", [2, 3, 10, 70])
@pytest.mark.parametrize("m", [4, 6, 14, 200])
def test_a_planted_set_is_there(m: int, bits: int):
    for seed in range(3):
        instance = planted_yes(m, bits, seed)
        check(instance, m, bits)
        assert instance.witness is not None
        assert len(set(instance.witness)) == instance.s
        assert 2 * sum(instance.points[j] for j in instance.witness) == sum(instance.points)
        assert instance == planted_yes(m, bits, seed)
    assert planted_yes(m, bits, 0) != planted_yes(m, bits, 1) or bits == 2


@pytest.mark.parametrize("bits", [5, 6, 9, 30, 70])
@pytest.mark.parametrize("m", [6, 10, 14, 18])
def test_a_certified_no_has_no_partition(m: int, bits: int):
    for seed in range(3):
        instance = certified_no(m, bits, seed)
        check(instance, m, bits)
        sums = {0}
        for x in instance.points:
            sums |= {x + y for y in sums}
        assert sum(instance.points) // 2 not in sums
        assert instance == certified_no(m, bits, seed)
        assert instance.reason in ("hidden", "proved")


@pytest.mark.parametrize(("m", "bits"), [(100, 10), (60, 16), (60, 40)])
def test_large_ones_are_answered_as_certified(m: int, bits: int):
    yes, no = planted_yes(m, bits, 0), certified_no(m, bits, 0)
    assert ceiling.zero_error(yes.points, None, yes.s).status == "yes"
    assert ceiling.zero_error(no.points, None, no.s).status == "no"


def least_error(points: tuple[int, ...], s: int) -> Fraction:
    mean = Fraction(sum(points), len(points))
    return min(abs(Fraction(sum(kept), s) - mean) for kept in combinations(points, s))


@pytest.mark.parametrize("make", [planted_yes, certified_no])
@pytest.mark.parametrize("bits", [5, 8, 20])
@pytest.mark.parametrize("m", [6, 8, 10, 12])
def test_the_least_error_is_zero_or_at_least_a_step(make, m: int, bits: int):
    """ES is a multiple of 1/N at s = N/2: sharper than the paper's 2/N^2."""
    for seed in range(4):
        instance = make(m, bits, seed)
        least = least_error(instance.points, instance.s)
        assert (least * m).denominator == 1
        answer = ceiling.zero_error(instance.points, None, instance.s)
        assert answer.status == ("yes" if least == 0 else "no")
        assert instance.zero_error == (least == 0)
        assert least == 0 or least >= Fraction(1, m)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=9), st.data())
def test_the_step_at_any_size_is_one_over_n_s(points, data):
    n, s = len(points), data.draw(st.integers(1, len(points)))
    least = least_error(tuple(points), s)
    assert (least * n * s).denominator == 1
    assert (ceiling.zero_error(points, None, s).status == "yes") == (least == 0)
    assert least == 0 or least >= Fraction(1, n * s)


def test_the_gap_is_attained():
    points, s = reduce_partition([1, 2, 2])
    assert (points, s) == ((1, 2, 2, 0, 0, 0), 3)
    assert least_error(points, s) == Fraction(1, 6)
    assert ceiling.zero_error(points, None, s).status == "no"


@pytest.mark.parametrize(
    ("make", "arguments", "why"),
    [
        (planted_yes, (5, 10, 0), "m: 5 is odd"),
        (planted_yes, (2, 10, 0), "m: 2 is not a whole number of at least 4"),
        (planted_yes, (4, 1, 0), "bits: 1 is not a whole number of at least 2"),
        (certified_no, (4, 10, 0), "m: 4 is not a whole number of at least 6"),
        (certified_no, (8, 4, 0), "bits: 4 is not a whole number of at least 5"),
        (certified_no, (8.0, 4, 0), "m: 8.0 is not a whole number"),
    ],
)
def test_bad_sizes_are_named(make, arguments, why):
    with pytest.raises(InputError, match=why):
        make(*arguments)
