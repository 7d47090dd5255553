"""Budgets: what they keep in each arm, kvpress' rounding, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.audit.budget import Arm, Budget, ratio_for
from ceiling.problem import InputError

lengths = st.integers(1, 5000)


def kvpress_keeps(length, ratio):
    """kvpress' count, floating point included (its `compute_n_kept`)."""
    return max(1, int(length * (1 - ratio)))


@pytest.mark.parametrize("text", ["ratio=0.5", "ratio=0.0", "slots=256", "held=0.25", "held=1.0"])
def test_a_budget_reads_what_it_writes(text):
    assert str(Budget.parse(text)) == text


def test_a_bare_number_is_a_ratio():
    assert Budget.parse("0.9") == Budget("ratio", 0.9)


def test_equal_ratio_is_not_equal_slots():
    budget = Budget("ratio", 0.9)
    assert budget.kept(Arm.AGNOSTIC, 100, 20) == 9  # 100 * (1 - 0.9) is below 10
    assert budget.kept(Arm.AWARE_SCORES, 100, 20) == 9
    assert budget.kept(Arm.AWARE_KVPRESS, 100, 20) == 11


def test_equal_slots_in_every_arm():
    assert {Budget("slots", 40).kept(arm, 100, 20) for arm in Arm} == {40}


@given(st.floats(0.01, 1), st.integers(100, 3000), st.integers(1, 60), st.sampled_from(list(Arm)))
def test_held_is_held_when_the_answers_beginning_is_read(share, context, question, arm):
    budget, total = Budget("held", share), round(share * (context + question))
    least = 1 if arm is Arm.AWARE_KVPRESS else question + 1
    if total < least:
        with pytest.raises(InputError, match="at least 1"):
            budget.kept(arm, context, question)
    else:
        after = question if arm is not Arm.AWARE_KVPRESS else 0  # read after eviction, on top of what is kept
        assert budget.kept(arm, context, question) + after == total


@given(st.data(), lengths)
def test_ratio_for_keeps_the_count_under_kvpress(data, length):
    kept = data.draw(st.integers(1, length))
    ratio = ratio_for(kept, length)
    assert 0 <= ratio < 1
    assert kvpress_keeps(length, ratio) == kept


@given(st.floats(0, 1, exclude_max=True), lengths, st.integers(0, 100))
def test_a_ratio_keeps_what_kvpress_keeps(ratio, context, question):
    budget = Budget("ratio", ratio)
    assert budget.kept(Arm.AGNOSTIC, context, question) == kvpress_keeps(context, ratio)
    assert budget.kept(Arm.AWARE_KVPRESS, context, question) == kvpress_keeps(context + question, ratio)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ratio=1", "below 1"),
        ("ratio=-0.1", "0 or more"),
        ("ratio=nan", "0 or more"),
        ("slots=0", "at least 1"),
        ("slots=2.5", "e.g. ratio=0.5"),
        ("held=0", "above 0"),
        ("held=1.5", "at most 1"),
        ("bytes=7", "one of ratio, slots, held"),
        ("half", "e.g. ratio=0.5"),
    ],
)
def test_a_bad_budget_says_what_is_right(text, reason):
    with pytest.raises(InputError, match=reason):
        Budget.parse(text)


@pytest.mark.parametrize("kept", [0, 11])
def test_ratio_for_refuses_what_cannot_be_kept(kept):
    with pytest.raises(InputError, match="of 10 keys"):
        ratio_for(kept, 10)


def test_more_slots_than_keys_are_refused():
    with pytest.raises(InputError, match="slots=101 keeps 101 of 100 keys in arm agnostic"):
        Budget("slots", 101).kept(Arm.AGNOSTIC, 100, 20)
