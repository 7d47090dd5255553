"""Answers and solving times of the zero-error question: by hand, ranges of keys, trivial ones left out."""

import polars as pl
import pytest

from ceiling.analysis import answer_table, solving_times
from ceiling.problem import InputError
from tests.toy_store import toy_zero_errors

TOY = toy_zero_errors(rows=10)


def questions(*rows):
    """Questions by (keys, status, engine, seconds)."""
    base = TOY.head(len(rows))
    keys, status, engine, seconds = (pl.Series(column) for column in zip(*rows, strict=True))
    return base.with_columns(
        bits=pl.lit(8, pl.Int64), rounded_keys=keys, status=status, engine=engine, seconds=seconds
    )


def test_by_hand():
    frame = questions(
        (9, "no", "cp-sat", 1.0),
        (16, "yes", "cp-sat", 2.0),
        (12, "unknown", "cp-sat", 60.0),
        (16, "no", "subset-sum", 0.5),
        (17, "no", "cp-sat", 4.0),
        (3, "trivial", "none", 0.0),
    )
    times = solving_times(frame)
    assert times.select("engine", "m_from", "m_to", "n").rows() == [
        ("cp-sat", 9, 16, 3),
        ("cp-sat", 17, 32, 1),
        ("subset-sum", 9, 16, 1),
    ]
    first = times.row(0, named=True)
    assert [first[name] for name in ("yes", "no", "unknown")] == [1, 1, 1]
    assert (first["seconds"], first["seconds_max"]) == (2.0, 60.0)
    answer = answer_table(frame).row(0, named=True)
    assert (answer["n"], answer["trivial"], answer["yes"], answer["no"], answer["unknown"]) == (5, 1, 1, 3, 1)
    assert (answer["keys"], answer["keys_max"], answer["seconds"]) == (16, 17, 67.5)


@pytest.mark.parametrize(
    ("keys", "range_"),
    [
        (2, (2, 2)),
        (3, (3, 4)),
        (4, (3, 4)),
        (5, (5, 8)),
        (8, (5, 8)),
        (1024, (513, 1024)),
        (1025, (1025, 2048)),
    ],
)
def test_ranges_end_at_powers_of_two(keys, range_):
    times = solving_times(questions((keys, "no", "cp-sat", 1.0)))
    assert times.select("m_from", "m_to").row(0) == range_


def test_every_question_is_in_one_range():
    asked = TOY.filter(pl.col("status") != "trivial").height
    times, answers = solving_times(TOY), answer_table(TOY)
    assert times["n"].sum() == answers["n"].sum() == asked
    assert answers["trivial"].sum() == TOY.height - asked
    for frame in (times, answers):
        assert (frame["yes"] + frame["no"] + frame["unknown"]).equals(frame["n"].alias("yes"))


def test_nothing_but_trivial_questions_has_no_times():
    with pytest.raises(InputError, match="all are trivial; ask with more --bits"):
        solving_times(TOY.filter(pl.col("status") == "trivial"))


def test_a_text_in_two_dumps_counts_once():
    named = TOY.with_columns(text_id=pl.format("text {}", "document"))
    twice = pl.concat([named, named.with_columns(dump=pl.lit("second"))])
    assert answer_table(twice).equals(answer_table(named))


@pytest.mark.parametrize(
    ("frame", "words"), [(TOY.drop("bits"), "no column 'bits'"), (TOY.clear(), "run `ceiling zero-error`")]
)
def test_frames_that_are_refused(frame, words):
    for table in (answer_table, solving_times):
        with pytest.raises(InputError, match=words):
            table(frame)
