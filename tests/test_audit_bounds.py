"""Balancing over all keys against slow swaps in numpy; proofs against every set there is."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceiling.audit import bounds
from ceiling.audit.bounds import MOST_CERTIFIED, balanced, proved
from ceiling.kernels.descent import descend
from ceiling.objective import TIE, centre, forced_error, largest
from ceiling.problem import Row

CLOSE = 1e-9
"""Relative: both sides sum at most 40 terms in float64, in another order."""


def a_row(seed: int, n: int, d: int, sharp: float, zeros: int = 0) -> Row:
    rng = np.random.default_rng(seed)
    masses = np.exp(rng.normal(scale=sharp, size=n))
    masses[rng.choice(n, zeros, replace=False)] = 0
    return Row(masses / masses.sum(), rng.normal(size=(n, d)))


def slow(row: Row, s: int, most: int) -> float:
    """Every swap of every set by the definition."""
    keys = set(np.flatnonzero(row.masses).tolist())
    kept = set(largest(row.masses, s).tolist())
    error = forced_error(row, sorted(kept))
    for _ in range(most):
        sets = [sorted(kept - {i} | {j}) for i in kept for j in keys - kept]
        errors = [forced_error(row, each) for each in sets]
        if not min(errors) < error * (1 - TIE):
            break
        kept, error = set(sets[int(np.argmin(errors))]), min(errors)
    return error


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(3, 16),
    d=st.integers(1, 5),
    sharp=st.sampled_from([0.1, 1.0, 4.0]),
    zeros=st.integers(0, 1),
    most=st.sampled_from([0, 1, 3, 128]),
)
def test_balancing_is_the_best_swap_again_and_again(seed, n, d, sharp, zeros, most):
    row = a_row(seed, n, d, sharp, zeros)
    counts = range(1, n - zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SWAPS", most)
        found = balanced(row, counts)
    sigma = centre(row).sigma
    for s in counts:
        assert found[s] == pytest.approx(slow(row, s, most) / sigma, rel=CLOSE, abs=CLOSE)


def test_all_keys_cost_nothing_and_a_set_is_what_its_error_says():
    row = a_row(4, 40, 6, 1.0)
    assert balanced(row, [40]) == {40: 0.0}
    keys = centre(row)
    order = np.argsort(-keys.masses, kind="stable")
    z = np.ascontiguousarray(keys.residuals[order])
    error, kept, swaps = descend(z @ z.T, z, keys.masses[order], 15, 128, TIE)
    assert swaps > 0
    assert kept.sum() == 15
    assert error == pytest.approx(forced_error(row, np.sort(keys.positions[order][kept])), rel=CLOSE)


def test_equal_values_leave_nothing_to_swap():
    keys = centre(Row(np.full(8, 1 / 8), np.ones((8, 3))))
    error, _, swaps = descend(
        keys.residuals @ keys.residuals.T, keys.residuals, keys.masses.copy(), 3, 128, TIE
    )
    assert (error, swaps) == (0.0, 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 10), sharp=st.sampled_from([0.3, 2.0]))
def test_no_set_is_under_what_is_proved_and_balancing_is_a_set(seed, n, sharp):
    row = a_row(seed, n, 3, sharp)
    sigma = centre(row).sigma
    low, high = proved(row, range(1, n)), balanced(row, range(1, n))
    for s in range(1, n):
        least = min(forced_error(row, list(each)) for each in combinations(range(n), s)) / sigma
        assert low[s] <= least <= high[s] * (1 + CLOSE)


def test_proofs_end_where_few_keys_are_kept_and_are_not_tried_for_more():
    row = a_row(1, 60, 4, 2.0)
    found = proved(row, [4, MOST_CERTIFIED, MOST_CERTIFIED + 1])
    assert set(found) == {4, MOST_CERTIFIED}
    assert found[4] > 0
