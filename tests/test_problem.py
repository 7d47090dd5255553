"""Rows, budgets and kept sets: what is accepted, and one clear error for what is not."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling.problem import MASS_SUM_TOLERANCE, InputError, check_budget, check_budgets, check_kept

HALVES = np.array([0.5, 0.5])
FLAT = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("masses", "values", "message"),
    [
        ([], np.zeros((0, 3)), r"^masses: empty"),
        (HALVES, np.zeros((3, 3)), r"^values: 3 rows for 2 masses"),
        (HALVES, np.zeros((2, 0)), r"^values: dimension 0"),
        (HALVES, [1.0, 2.0], r"^values: 1 dimensions, expected 2"),
        (HALVES[:, None], FLAT, r"^masses: 2 dimensions, expected 1"),
        (0.5, FLAT, r"^masses: 0 dimensions"),
        ([1.5, -0.5], FLAT, r"^masses\[1\]: .*-0\.5.* is negative"),
        ([np.nan, 1.0], FLAT, r"^masses\[0\]: nan is not finite"),
        ([1.0, np.inf], FLAT, r"^masses\[1\]: inf is not finite"),
        (HALVES, [[0, 0, 0], [0, np.nan, 0]], r"^values\[1, 1\]: nan is not finite"),
        ([0.5, 0.4], FLAT, r"^masses: sum is 0\.9; it must be 1 within 0\.001"),
        ([0.0, 0.0], FLAT, r"^masses: sum is 0"),
        (["a", "b"], FLAT, r"^masses: not an array of numbers"),
        ([[0.5], [0.2, 0.3]], FLAT, r"^masses: not an array of numbers"),
        (HALVES * 1j, FLAT, r"^masses: "),
        (None, FLAT, r"^masses: "),
    ],
)
def test_rows_that_are_none(masses, values, message):
    with pytest.raises(InputError, match=message):
        ceiling.Row(masses, values)


@pytest.mark.parametrize("off", [0.999 * MASS_SUM_TOLERANCE, -0.999 * MASS_SUM_TOLERANCE])
def test_masses_nearly_summing_to_one_are_divided_by_their_sum(off):
    row = ceiling.Row(HALVES * (1 + off), FLAT)
    assert row.masses.tolist() == [0.5, 0.5]


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40).filter(lambda m: sum(m) > 0.1))
def test_float32_masses_are_read_as_exact_numbers(raw):
    masses = (np.array(raw) / sum(raw)).astype(np.float32)
    row = ceiling.Row(masses, np.zeros((len(raw), 1)))
    total = sum(Fraction(float(p)) for p in masses)
    for mine, theirs in zip(row.masses, masses, strict=True):
        exact = float(Fraction(float(theirs)) / total)
        assert abs(mine - exact) <= 2.3e-16 * exact  # one rounding of the sum, one of the quotient


def test_a_row_owns_its_numbers_and_keeps_them():
    masses, values = HALVES.copy(), FLAT.copy()
    row = ceiling.Row(masses, values)
    masses[0] = values[0, 0] = 9
    assert row.masses[0] == 0.5
    assert row.values[0, 0] == 0
    assert row.masses.dtype == row.values.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        row.masses[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        row.values[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.masses = masses


def test_only_keys_of_positive_mass_count():
    assert ceiling.Row(np.array([0, 0.5, 0, 0.5, 0]), np.zeros((5, 1))).n_keys == 2


def test_masses_of_every_float_kind_are_read():
    for kind in (np.float16, np.float32, np.float64):
        assert ceiling.Row(HALVES.astype(kind), FLAT.astype(kind)).masses.tolist() == [0.5, 0.5]
    assert ceiling.Row(np.array([0, 1]), np.array([[1], [2]])).n_keys == 1


@pytest.mark.parametrize("s", [1, np.int64(4), np.uint8(3)])
def test_budgets(s):
    assert check_budget(s) == s
    assert type(check_budget(s)) is int


@pytest.mark.parametrize("s", [0, -3, 2.0, np.float64(2), True, "4", None, [4]])
def test_budgets_that_are_none(s):
    with pytest.raises(InputError, match=r"^s: "):
        check_budget(s)


def test_torch_tensors_of_every_kind_are_read():
    """A captured layer's own tensors, in bfloat16 or with a gradient, once were no numbers."""
    torch = pytest.importorskip("torch")
    masses = torch.tensor([0.25, 0.75], dtype=torch.bfloat16)
    values = torch.tensor([[1.5], [2.0]], requires_grad=True)
    row = ceiling.Row(masses, values)
    assert row.masses.tolist() == [0.25, 0.75]
    assert row.values.tolist() == [[1.5], [2.0]]


@pytest.mark.parametrize("scale", [1e-101, 1e101])
def test_values_whose_squares_under_or_overflow_are_refused(scale):
    """At 1e-165 every error once was 0 and every set a tie."""
    with pytest.raises(InputError, match=r"^values: the largest is .*rescale"):
        ceiling.Row(HALVES, np.array([[scale], [-scale]]))
    assert ceiling.Row(HALVES, np.zeros((2, 1))).n_keys == 2


def test_masses_whose_squares_underflow_are_refused():
    with pytest.raises(InputError, match=r"^masses\[1\]: .*write 0"):
        ceiling.Row(np.array([1, 1e-120]), FLAT)


def test_budget_lists_come_out_ascending():
    assert check_budgets([32, 4, 8]) == (4, 8, 32)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "budgets: none given"),
        ([4, 8, 4], "budgets: 4 is repeated"),
        ([4, 0], "budgets: 0 is not positive"),
        ([4, 2.5], "budgets: 2.5 is not a whole number"),
    ],
)
def test_budget_lists_that_are_none(asked, message):
    with pytest.raises(InputError, match=message):
        check_budgets(asked)


def test_kept_sets_come_out_ascending():
    row = ceiling.Row(np.full(4, 0.25), np.zeros((4, 1)))
    kept = check_kept(row, iter([3, 0, 2]))
    assert kept.tolist() == [0, 2, 3]
    assert kept.dtype == np.int64


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ([2**60], "kept: position 1152921504606846976 is outside 0..1"),
        ([True, False], "kept: bool entries"),
        ("01", "kept: "),
        ([2**70], "kept: "),
    ],
)
def test_kept_sets_that_are_none(kept, message):
    with pytest.raises(InputError, match=message):
        check_kept(ceiling.Row(HALVES, FLAT), kept)


def test_bad_input_is_a_value_error():
    """So that callers who know nothing of the package can catch it."""
    assert issubclass(InputError, ValueError)


def test_the_status_table():
    assert {status.value for status in ceiling.Status} == {
        "exact", "trivial", "optimal", "gap", "degenerate", "yes", "no", "unknown",
    }  # fmt: skip
