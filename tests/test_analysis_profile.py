"""Table 8 by hand."""

import pytest

from ceiling.analysis import budget_profile
from tests.toy_store import hand_made


def test_by_hand():
    row = budget_profile(
        hand_made(
            {"e_pool": 1.0, "phi": 3.0, "e_geometric": 1.0, "e_leverage": 5.0},
            {"e_pool": 0.9, "phi": 2.0, "e_geometric": 2.0, "e_leverage": 6.0},
            {"e_pool": 0.5, "phi": 1.0, "e_geometric": 4.0, "e_leverage": None},
        )
    ).row(0, named=True)
    assert row["median_kappa"] == pytest.approx(1 / 0.9)
    assert row["p99_kappa"] == pytest.approx(1 / 0.9 + 0.98 * (2 - 1 / 0.9))
    assert row["share_es_le_0_9_top"] == pytest.approx(2 / 3)  # 0.9 itself counts
    assert (row["geo_over_top"], row["lev_over_top"]) == (2.0, 5.5)
    assert row["rho_phi_es_pool"] == pytest.approx(1)


def test_a_kappa_without_a_number_is_above_every_number():
    row = budget_profile(hand_made({"e_pool": 1.0}, {"e_pool": 0.5}, {"e_pool": 1e-9})).row(0, named=True)
    assert row["median_kappa"] == pytest.approx(2)
    assert row["p99_kappa"] is None
    assert row["n_pi"] == 2
