"""Frames as text: counts, intervals, and ours beside the paper's."""

import polars as pl

from ceiling.analysis import beside, counts, readable
from ceiling.analysis.tables import table

ROW = {"model": "m", "s": 4, "documents": 6, "n": 1200, "trivial": 3, "degenerate": 1, "interval": "why"}
PAPER = pl.DataFrame(
    {"quantity": ["x", "x", "y"], "s": [None, 4, 8], "low": [0.1, 0.2, 1.0], "high": [0.3, 0.2, 1.0]}
)


def test_table_of_nulls_has_float_columns():
    assert table([{"x": None}]).schema == {"x": pl.Float64}


def test_counts_sums_budgets_and_names_what_was_left_out():
    text = counts(table([ROW, ROW | {"s": 8}]))
    assert (
        text == "m: n = 2,400 instances of 6 documents (6 trivial and 2 degenerate left out); intervals: why."
    )


def test_readable_shows_intervals_where_there_are_any():
    rows = [
        ROW | {"x": 0.123456, "x_low": 0.1, "x_high": 0.2, "k": 12345},
        ROW | {"s": None, "x": None, "x_low": None, "x_high": None, "k": 7},
    ]
    shown = readable(table(rows), ["x", "k"])
    assert shown.columns == ["model", "s", "n", "x", "k"]
    assert shown["x"].to_list() == ["0.1235 [0.1, 0.2]", "–"]
    assert shown["s"].to_list() == ["4", "all"]
    assert shown["k"].to_list() == ["12345", "7"]


def test_beside_prefers_the_papers_number_at_the_budget():
    ours = table([ROW | {"x": 0.5, "y": 2.0}, ROW | {"s": 8, "x": 0.6, "y": 3.0}])
    long = beside(ours, PAPER, ["x", "y"])
    assert long["paper"].to_list() == ["0.2", "0.1 to 0.3", "–", "1"]
    assert long["ours"].to_list() == ["0.5", "0.6", "2", "3"]
