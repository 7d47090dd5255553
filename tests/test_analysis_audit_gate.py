"""Gates of the audit: a planted hole, duplicate, mix or broken record is refused by name."""

import polars as pl
import pytest

from ceiling.analysis.audit_gate import LISTED, gate, length_table
from ceiling.problem import InputError
from tests.toy_audit import toy_audit


@pytest.fixture(scope="module")
def frame():
    return toy_audit(instances=3, tasks=("cwe", "vt"), budgets=("ratio=0.5",))


def planted(frame, change, **where):
    """`frame` with `change` made to the records where all of `where` holds."""
    here = pl.all_horizontal(pl.col(name) == value for name, value in where.items())
    return frame.with_columns(pl.when(here).then(pl.lit(v)).otherwise(k).alias(k) for k, v in change.items())


def test_a_whole_grid_passes_in_any_order(frame):
    there = gate(frame)
    assert there.height == frame.height
    assert there.equals(gate(frame.sample(fraction=1.0, shuffle=True, seed=1)))
    assert there.equals(gate(frame.lazy()))


def test_a_hole_is_named(frame):
    hole = (pl.col("press") == "tova") & (pl.col("arm") == "agnostic") & (pl.col("instance") == 1)
    with pytest.raises(InputError) as error:
        gate(frame.filter(~(hole & (pl.col("task") == "vt"))))
    assert str(error.value) == (
        "audit: not one whole grid: model toy-1 on eager, arm agnostic, tova at ratio=0.5, task vt, "
        "instance 1, question 0 is missing"
    )


@pytest.mark.parametrize("column", ["task", "arm"])
def test_an_instance_that_only_one_task_or_arm_lacks_is_a_hole(frame, column):
    value = {"task": "vt", "arm": "aware-scores"}[column]
    with pytest.raises(InputError, match=r"task vt, instance 2, question 0 is missing"):
        gate(frame.filter(~((pl.col(column) == value) & (pl.col("instance") == 2))))


def test_a_long_list_is_cut_and_counted(frame):
    with pytest.raises(InputError) as error:
        gate(frame.filter(~((pl.col("arm") == "agnostic") & (pl.col("instance") == 2))))
    holes = 2 * 10
    assert str(error.value).count("is missing") == LISTED
    assert str(error.value).endswith(f"and {holes - LISTED} more")


def test_a_duplicate_is_named(frame):
    with pytest.raises(
        InputError, match=r"full at none, task cwe, instance 0, question 0 stands there 2 times"
    ):
        gate(pl.concat([frame, frame.head(1)]))


def test_another_configuration_of_the_same_records_is_a_duplicate(frame):
    with pytest.raises(InputError, match="stands there 2 times"):
        gate(pl.concat([frame, frame.with_columns(config=pl.lit("1" * 8))]))


def test_backends_and_dtypes_are_not_mixed(frame):
    with pytest.raises(InputError, match=r"backends eager, sdpa; no ranking is made across them"):
        gate(pl.concat([frame, frame.with_columns(backend=pl.lit("sdpa"))]))
    h2o = pl.col("press").is_in(["h2o", "full"])
    mix = pl.concat(
        [frame.filter(h2o), frame.filter(pl.col("press") != "h2o").with_columns(backend=pl.lit("sdpa"))]
    )
    with pytest.raises(InputError, match=r"backends eager, sdpa"):
        gate(mix)
    with pytest.raises(InputError, match=r"dtypes bfloat16, float32"):
        gate(pl.concat([frame, frame.with_columns(dtype=pl.lit("bfloat16"))]))


def test_a_press_that_an_arm_lacks_is_named(frame):
    with pytest.raises(InputError, match=r"arm agnostic has no record of h2o at ratio=0.5$"):
        gate(frame.filter(~((pl.col("press") == "h2o") & (pl.col("arm") == "agnostic"))))


def test_without_an_anchor_nothing_is_claimed(frame):
    with pytest.raises(InputError, match="no records of the anchor full"):
        gate(frame.filter(pl.col("press") != "full"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"score": None, "status": "not finite"}, "has no score .status not finite, score None"),
        ({"score": float("nan")}, "has no score .status answered, score nan"),
        ({"score": 1.5}, "has no score .status answered, score 1.5"),
    ],
)
def test_a_record_that_is_not_finite_is_named(frame, change, words):
    where = {"press": "knorm", "arm": "agnostic", "task": "cwe", "instance": 0}
    with pytest.raises(InputError, match=f"knorm at ratio=0.5, task cwe, instance 0, question 0 {words}"):
        gate(planted(frame, change, **where))


@pytest.mark.parametrize(
    ("column", "other"),
    [("room_tokens", 7), ("context_tokens", 7), ("seed", 7), ("versions", '{"kvpress": "0.5.4"}')],
)
def test_a_question_put_in_two_ways_is_refused(frame, column, other):
    with pytest.raises(InputError, match=f"task cwe, instance 0, question 0 has 2 different {column}"):
        gate(planted(frame, {column: other}, press="knorm", task="cwe", instance=0))


def test_no_records_says_what_to_run(frame):
    with pytest.raises(InputError, match="run `ceiling audit` first"):
        gate(frame.clear())
    with pytest.raises(InputError, match="no column 'kept_id'"):
        gate(frame.drop("kept_id"))


def test_lengths_count_what_was_truncated(frame):
    cut = planted(
        frame.with_columns(truncated=False), {"truncated": True}, press="full", task="vt", instance=0
    )
    lengths = length_table(cut).filter(arm="agnostic", task="vt").row(0, named=True)
    assert (lengths["records"], lengths["truncated"]) == (30, 1)
    assert lengths["anchor_truncated"] == pytest.approx(1 / 3)
    assert (lengths["prompt_min"], lengths["prompt_max"], lengths["room_max"]) == (960, 960, 20)
