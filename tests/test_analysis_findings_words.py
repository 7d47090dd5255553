"""Words of findings: spans, cases and estimates, with and without intervals, nulls and many families."""

import polars as pl

from ceiling.analysis import findings_words as words
from tests.toy_findings import frame


def test_a_span_says_a_number_once_and_no_minus_zero():
    assert words.span([0.5, None, 0.25]) == "0.25 to 0.50"
    assert words.span([0.501, 0.499]) == "0.50"
    assert words.span([-1e-16]) == "0.00"
    assert words.span([None]) == words.span([]) == "undefined"


def test_words_are_listed():
    assert [words.listed(list("abc"[:n])) for n in range(4)] == ["none", "a", "a and b", "a, b and c"]


def test_a_null_is_no_case():
    assert words.cases([True, None, False, True]) == "in 2 of 3"
    assert words.cases([]) == "in 0 of 0"


def test_away_goes_by_the_interval_where_there_is_one():
    rows = pl.DataFrame(
        {
            "x": [2.0, 2.0, 0.5, 2.0, None],
            "x_low": [1.5, 0.5, 0.2, None, None],
            "x_high": [3.0, 3.0, 0.9, None, None],
        }
    )
    assert words.away(rows, "x", 1) == [1, 0, -1, 1, None]
    assert words.sided(words.away(rows, "x", 1), 1) == "in 2 of 4"
    assert words.grounds(rows, "x") == "by intervals, 1 without one by their value"
    assert words.grounds(rows[:3], "x") == "by intervals"
    assert words.grounds(rows[3:], "x") == "by values, there being no interval"


def test_many_families_are_a_span():
    rows = frame(model=list("abcd"), s=[8] * 4, x=[1.0, 2.0, 3.0, 4.0], documents=[6] * 4)
    assert words.by_family(rows[:2], "x") == "1.00 (a) and 2.00 (b)"
    assert words.by_family(rows, "x") == "1.00 to 4.00 (4 families)"
    assert words.rests(rows[:2]) == "1,200 instances of 6 documents (a); 1,200 instances of 6 documents (b)"
    assert words.rests(rows) == "4,800 instances of 24 documents, 4 families"
    assert (
        words.estimates(rows, "x") == "1 [0.99, 1.01] (a, s = 8); 4 [3.96, 4.04] (d, s = 8): 95% percentile"
    )
    nothing = rows.with_columns(x=pl.lit(None, pl.Float64))
    assert words.estimates(nothing, "x") == "none: undefined"
    assert words.by_family(nothing[:1], "x") == "undefined (a)"


def test_the_map_budget_or_the_nearest():
    rows = pl.DataFrame({"model": ["b", "b", "a", "a"], "s": [4, 8, 16, 64]})
    assert words.at_map(rows).rows() == [("a", 16), ("b", 8)]
