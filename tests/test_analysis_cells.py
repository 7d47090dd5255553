"""The cell map and what it says about a model."""

import polars as pl
import pytest

from ceiling.analysis import cell_map, map_table
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances


def layered(rates, *, heads=2):
    """One document; in layer l, head h drops rates[l] + h/100 and is closable when that exceeds 0.3."""
    return hand_made(
        *(
            {"layer": layer, "head": h, "dropped_mass": m + h / 100, "e_pool": 0.5 if m > 0.3 else 1.0}
            for layer, m in enumerate(rates)
            for h in range(heads)
        )
    )


def test_medians_counts_and_flat_cells():
    cells = cell_map(
        hand_made(
            {"head": 0, "dropped_mass": 0.2, "e_pool": 1.0},
            {"head": 0, "dropped_mass": 0.4, "e_pool": 0.5},
            {"head": 0, "dropped_mass": 0.9, "status": "trivial"},
            {"head": 1, "dropped_mass": 0.25},
            {"head": 2, "status": "degenerate", "degenerate": True},
            {"head": 0, "dropped_mass": 0.9, "s": 4},
        )
    )
    assert cells["n"].to_list() == [2, 1, 0]
    assert cells["trivial"].to_list() == [1, 0, 0]
    assert cells["degenerate"].to_list() == [0, 0, 1]
    assert cells["dropped_mass"].to_list() == [pytest.approx(0.3), 0.25, None]
    assert cells["kappa"].to_list() == [1.5, pytest.approx(1 / 0.9), None]
    assert cells["flat"].to_list() == [True, False, None]  # 0.25 is not above 0.25


def test_a_median_beyond_every_number_is_null():
    cells = cell_map(hand_made({"e_pool": 1e-9}, {"e_pool": 1e-9}, {"e_pool": 0.9}))
    assert cells["kappa"][0] is None
    assert cells["label_rate"][0] == 1.0


def test_map_numbers_by_hand():
    # sixteen layers: the edge is two at each end
    rates = [0.4, 0.4, *[0.1] * 6, *[0.5] * 6, 0.2, 0.2]
    row = map_table(layered(rates)).row(0, named=True)
    assert (row["cells"], row["flat_cells"]) == (32, 16)
    assert row["cell_auc"] == 1.0
    assert row["edge_interior"] == pytest.approx((2 / 4) / (6 / 12))
    assert row["edge_interior_low"] is None
    assert 0 < row["rho_depth"] < 1


@pytest.mark.parametrize("captured", [(1, 2, 3), (0, 1, 3), (5,)])
def test_depth_needs_every_layer(captured):
    frame = toy_instances(documents=6, layers=8)
    row = map_table(frame.filter(pl.col("layer").is_in(captured))).row(0, named=True)
    depth = ("edge_interior", "edge_interior_low", "edge_interior_high", "rho_depth")
    assert [row[name] for name in depth] == [None] * 4
    assert row["cells"] == 4 * len(captured)
    whole = map_table(frame).row(0, named=True)
    assert all(whole[name] is not None for name in depth)


def test_a_layer_without_a_measured_row_is_there():
    frame = layered([0.4, 0.1, 0.5, 0.4])
    unmeasured = frame.with_columns(status=pl.when(layer=3).then(pl.lit("trivial")).otherwise("status"))
    row = map_table(unmeasured).row(0, named=True)
    assert row["edge_interior"] == pytest.approx(1 / (1 / 2))  # the edge is layer 0 alone, not 0 and 2


def test_no_cell_auc_when_all_cells_agree():
    row = map_table(layered([0.1, 0.2])).row(0, named=True)
    assert row["cell_auc"] is None
    assert row["edge_interior"] is None  # two layers have no interior


def test_intervals_of_the_edge_ratio():
    row = map_table(toy_instances(documents=6, layers=10)).row(0, named=True)
    assert row["edge_interior_low"] < row["edge_interior"] < row["edge_interior_high"]


@pytest.mark.parametrize("function", [cell_map, map_table])
def test_a_missing_budget_says_what_to_enumerate(function):
    with pytest.raises(InputError, match=r"no instances at s = 8 \(it has 4, 16\).*--budgets 4,8,16"):
        function(hand_made({"s": 4}, {"s": 16}))
