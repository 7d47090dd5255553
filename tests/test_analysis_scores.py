"""Scores: ratios by hand, joins by instance, what is counted once, and what is refused."""

import polars as pl
import pytest

from ceiling.analysis.scores import score_groups, scored
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_certificates, toy_instances, toy_scores


def of(instances, selector="snapkv", reading="cache", **columns):
    """Scores of one selector, with the columns that are given."""
    frame = toy_scores(instances).filter(selector=selector, reading=reading, allocation="uniform")
    return frame.with_columns(pl.lit(value).alias(name) for name, value in columns.items())


def proved(instances, lower, upper):
    frame = toy_certificates(instances, floors=(0.0, 0.9))
    return frame.with_columns(es_lower=pl.lit(lower), es_upper=pl.lit(upper), status=pl.lit("gap"))


def test_by_hand():
    instances = hand_made({"e_top": 1.0, "e_pool": 0.8})
    (row,) = scored(of(instances, error=1.6), instances, proved(instances, 0.4, 0.64)).to_dicts()
    assert row["measured"]
    assert row["over_top"] == pytest.approx(1.6)
    assert row["excess"] == pytest.approx(2.0)
    assert (row["excess_lower"], row["excess_upper"]) == pytest.approx((2.5, 4.0))


def test_without_the_other_tables_ratios_are_null():
    (row,) = scored(of(hand_made({}), error=1.6)).to_dicts()
    assert row["over_top"] == pytest.approx(1.6)
    assert [row[name] for name in ("excess", "excess_lower", "excess_upper")] == [None] * 3


def test_a_divisor_that_masses_do_not_resolve_is_beyond_every_number():
    instances = hand_made({"e_pool": 1e-9})
    (row,) = scored(of(instances, error=1.6), instances, proved(instances, 0.0, 0.5)).to_dicts()
    assert row["excess"] == row["excess_upper"] == float("inf")
    assert row["excess_lower"] == pytest.approx(3.2)


@pytest.mark.parametrize("status", ["trivial", "degenerate"])
def test_rows_that_are_not_measured_have_no_ratio(status):
    instances = hand_made(
        {"status": status, "degenerate": status == "degenerate", "e_top": 0.0, "e_pool": 0.0}
    )
    frame = scored(of(instances, error=0.0), instances)
    assert frame.select("over_top", "excess").row(0) == (None, None)
    ((_, group),) = score_groups(frame, "selector", draws=0)
    assert (group.rows.height, group.trivial, group.degenerate) == (
        0,
        status == "trivial",
        status == "degenerate",
    )


def test_an_allocation_has_no_excess_because_its_budget_is_another():
    instances = hand_made({"head": 0})
    frame = scored(toy_scores(instances).filter(pl.col("allocation") == "map"), instances)
    assert frame["excess"].to_list() == [None]
    assert frame["over_top"].null_count() == 0


def test_a_text_that_two_dumps_hold_counts_once_and_has_one_cluster():
    instances = hand_made({"text_id": "a" * 12}, {"text_id": "b" * 12, "document": 1})
    scores = of(instances, error=1.6)
    again = scores.filter(document=0).with_columns(dump=pl.lit("other"), document=pl.lit(7, pl.Int64))
    frame = scored(pl.concat([scores, again]), instances)
    assert frame.height == 2
    assert sorted(frame["cluster"]) == [0, 1]
    assert frame["excess"].null_count() == 0  # the row that stays is the one with an instance


def test_documents_of_two_dumps_without_a_text_are_apart():
    scores = of(hand_made({}), error=1.6)
    frame = scored(pl.concat([scores, scores.with_columns(dump=pl.lit("other"))]))
    assert sorted(frame["cluster"]) == [0, 1]


def test_groups_of_a_model_share_their_resamplings():
    frame = scored(toy_scores(toy_instances(documents=5)))
    found = list(score_groups(frame, "selector", "reading", "allocation", draws=7))
    assert len(found) == 4 * 16
    assert sum(group.rows.height for _, group in found) == frame["measured"].sum()
    assert {group.weights.shape for _, group in found} == {(8, 5)}
    first = found[0][1].weights
    assert all((group.weights == first).all() for _, group in found)


def test_no_score_says_what_to_run():
    with pytest.raises(InputError, match=r"scores: .* run `ceiling score`"):
        scored(toy_scores(hand_made({})).clear())


def test_an_error_below_what_is_proved_is_refused():
    instances = hand_made({})
    with pytest.raises(
        InputError, match=r"error 0.3 of selector snapkv, reading cache, .* below es_lower 0.4"
    ):
        scored(of(instances, error=0.3), instances, proved(instances, 0.4, 0.5))
    fewer = of(instances, error=0.3, kept_count=7)  # of another size: nothing is proved of it
    assert scored(fewer, instances, proved(instances, 0.4, 0.5)).height == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop("reading"), "no column 'reading'"),
        (lambda f: f.with_columns(error=pl.lit(float("nan"))), "error holds a number that is not finite"),
        (lambda f: pl.concat([f, f.with_columns(config=pl.lit("6" * 8))]), "--config"),
    ],
)
def test_malformed_scores_are_refused(change, words):
    with pytest.raises(InputError, match=f"scores: .*{words}"):
        scored(change(of(hand_made({}))))


def test_an_instance_that_stands_twice_is_refused():
    instances = hand_made({})
    with pytest.raises(InputError, match="instances: a row stands there twice"):
        scored(of(instances), pl.concat([instances, instances]))
