"""Allocation: sums by hand, a total that is not matched is left out and said, nothing is compared alone."""

import polars as pl
import pytest

from ceiling.analysis.allocation import allocation_table
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances, toy_scores

CELLS = ({"head": 0, "e_top": 1.0, "sigma": 1.0}, {"head": 1, "e_top": 3.0, "sigma": 10.0})
"""One query of two cells: a sum of 4, and of 1.3 in units of sigma."""


def panel(instances, errors, kept):
    """Top-mass under uniform, and under map with these errors and numbers of kept keys."""
    scores = toy_scores(instances).filter(selector="top-mass")
    changed = scores.filter(allocation="map").with_columns(
        error=pl.Series(errors), kept_count=pl.Series(kept, dtype=pl.Int64)
    )
    return pl.concat([scores.filter(allocation="uniform"), changed])


def test_by_hand():
    (row,) = allocation_table(panel(hand_made(*CELLS), [2.0, 1.0], [4, 12])).to_dicts()
    assert (row["model"], row["allocation"], row["s"]) == ("toy", "map", 8)
    assert (row["n"], row["cells"], row["instances"], row["unmatched"]) == (1, 2, 2, 0)
    assert row["median"] == row["mean"] == pytest.approx(3 / 4)
    assert row["median_scaled"] == row["mean_scaled"] == pytest.approx(2.1 / 1.3)
    assert row["cell_median"] == pytest.approx((2 + 1 / 3) / 2)


def test_mean_and_median_are_over_queries():
    rows = [{**cell, "position": p} for p in (100, 101, 102) for cell in CELLS]
    errors = [1.0, 3.0, 2.0, 6.0, 5.0, 15.0]  # one, two and five times the uniform ones
    (row,) = allocation_table(panel(hand_made(*rows), errors, [8] * 6)).to_dicts()
    assert (row["median"], row["mean"]) == pytest.approx((2, 8 / 3))


@pytest.mark.parametrize("kept", [[8, 9], [8, 7]])
def test_a_query_of_another_total_is_left_out_and_counted(kept):
    rows = hand_made(*CELLS, *({**cell, "position": 101} for cell in CELLS))
    (row,) = allocation_table(panel(rows, [1.0, 3.0, 0.1, 0.1], [8, 8, *kept])).to_dicts()
    assert (row["n"], row["unmatched"]) == (1, 1)
    assert row["median"] == pytest.approx(1)


def test_a_total_that_never_matches_is_refused_with_both_numbers():
    with pytest.raises(
        InputError, match=r"no query has the same total .*: 17 keys in 2 cells, uniform 16 in 2"
    ):
        allocation_table(panel(hand_made(*CELLS), [1.0, 1.0], [8, 9]))


def test_a_query_that_is_not_scored_in_all_cells_does_not_match():
    frame = panel(hand_made(*CELLS), [1.0, 1.0], [16, 0])
    with pytest.raises(InputError, match=r"16 keys in 1 cells, uniform 16 in 2\); run `ceiling score`"):
        allocation_table(frame.filter(~((pl.col("allocation") == "map") & (pl.col("head") == 1))))


@pytest.mark.parametrize(("left", "missing"), [("uniform", "any other"), ("map", "the uniform")])
def test_one_allocation_alone_is_refused(left, missing):
    frame = panel(hand_made(*CELLS), [1.0, 1.0], [8, 8])
    with pytest.raises(
        InputError, match=f"top-mass has none under {missing} allocation; run `ceiling score`"
    ):
        allocation_table(frame.filter(allocation=left))


def test_every_allocation_and_budget_has_its_row_with_an_interval():
    table = allocation_table(toy_scores(toy_instances(documents=5)))
    assert table.select("allocation", "s").rows() == [
        (allocation, s) for allocation in ("map", "pyramid") for s in (4, 8, 16, 32)
    ]
    assert (table["n"] == 30).all()
    assert (table["median_low"] < table["median_high"]).all()
    assert (table["mean_scaled_low"] < table["mean_scaled_high"]).all()


def test_rows_without_spread_do_not_divide_by_it():
    rows = hand_made(*CELLS, {"head": 2, "status": "trivial", "e_top": 0.0, "e_pool": 0.0, "sigma": 0.0})
    (row,) = allocation_table(panel(rows, [1.0, 3.0, 0.0], [8, 8, 8])).to_dicts()
    assert (row["median"], row["median_scaled"]) == pytest.approx((1, 1))
