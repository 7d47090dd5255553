"""Tasks: each quantity by hand, each verdict and its reason, the bounds only from what was registered."""

import json

import polars as pl
import pytest

from ceiling.analysis.tasks import task_table, verdicts_readable
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_documents, toy_instances, toy_rows

BOUNDS = {
    "closable_median_max": 0.09,
    "headroom_ratio_max": 2,
    "value_aware_share_max": 0.05,
    "auc_min": 0.7,
    "map_agreement_min": 0.8,
}


def made(*rows):
    """Instances of the dump "t"; unless said otherwise the pool keeps what top-mass keeps."""
    plain = {"dump": "t", "kept_top": [1, 2], "kept_pool": [1, 2]}
    return hand_made(*({**plain, "head": h, **row} for h, row in enumerate(rows)))


def documents(instances, text="task:needle", bounds=BOUNDS):
    registered = None if bounds is None else json.dumps(bounds)
    frame = toy_documents(instances, text)
    needles = pl.Series([[5, 6]] * frame.height, dtype=pl.List(pl.Int64))
    return frame.with_columns(needles=needles, registered=pl.lit(registered, pl.String))


def table(instances, *, bounds=BOUNDS, retrieval=(200,), main=None, **options):
    rows = toy_rows(instances, retrieval)
    found = task_table(instances, documents(instances, bounds=bounds), rows, main, **options)
    return {row["quantity"]: row for row in found.to_dicts()}


def values(instances, **options):
    return {name: row["value"] for name, row in table(instances, **options).items()}


def test_by_hand():
    aware = {"position": 200, "e_pool": 0.5, "kept_pool": [1, 5], "dropped_mass": 0.9}
    found = values(
        made(
            aware,
            {**aware, "kept_top": [1, 5]},  # top-mass keeps that needle too
            {**aware, "e_pool": 0.95, "dropped_mass": 0.1},  # not labelled
            {**aware, "kept_pool": [1, 7]},  # no needle
            {"e_pool": 0.8, "dropped_mass": 0.5},
            {"e_pool": 1.0, "dropped_mass": 0.2},
        )
    )
    assert found["closable_median"] == pytest.approx((0.5 + 0.2) / 2)
    assert found["value_aware_share"] == pytest.approx(1 / 4)
    assert found["headroom_ratio"] == pytest.approx(2 / (1 + 0.9 * 0.25))
    assert found["auc"] == 1.0
    assert found["retrieval_share"] == 0.5
    assert found["map_agreement"] is None


def test_map_agreement_is_over_the_cells_of_both_texts():
    ours = made(*({"layer": i, "head": 0, "dropped_mass": m} for i, m in enumerate((0.1, 0.2, 0.9, 0.9))))
    theirs = hand_made(*({"layer": i, "dropped_mass": m} for i, m in enumerate((0.1, 0.9, 0.9))))
    row = table(ours, main=theirs)["map_agreement"]
    assert (row["value"], row["n"], row["verdict"]) == (pytest.approx(2 / 3), 3, "not held")
    elsewhere = theirs.with_columns(model=pl.lit("other"))
    assert table(ours, main=elsewhere)["map_agreement"]["verdict"].startswith("no verdict: no cell")


def test_a_map_is_not_compared_with_itself():
    ours = made({"dropped_mass": 0.1}, {"dropped_mass": 0.1})
    assert table(ours, main=ours)["map_agreement"]["verdict"].startswith("no verdict: no cell")
    both = pl.concat([ours, ours.with_columns(dump=pl.lit("main"), dropped_mass=0.9)])
    assert table(ours, main=both)["map_agreement"]["value"] == 0.0


@pytest.mark.parametrize(("bound", "verdict"), [(0.2, "held"), (0.25, "held"), (0.3, "not held")])
def test_a_least_value_holds_from_its_bound_on(bound, verdict):
    rows = made(
        {"e_pool": 0.5, "dropped_mass": 0.3},
        *({"e_pool": 0.99, "dropped_mass": m} for m in (0.1, 0.4, 0.5, 0.6)),
    )
    row = table(rows, bounds={"auc_min": bound})["auc"]
    assert (row["value"], row["bound"], row["verdict"]) == (0.25, bound, verdict)


@pytest.mark.parametrize(("e_pool", "verdict"), [(0.92, "held"), (0.90, "not held")])
def test_a_greatest_value_holds_up_to_its_bound(e_pool, verdict):
    assert table(made({"e_pool": e_pool}))["closable_median"]["verdict"] == verdict


def test_reasons_why_there_is_no_verdict():
    found = table(made({}, {}), retrieval=())
    assert {name: row["verdict"] for name, row in found.items()} == {
        "closable_median": "not held",
        "headroom_ratio": "no verdict: no measured row on one side, or a 90th percentile beyond every number",
        "value_aware_share": "no verdict: no measured retrieval row of a document whose needles are recorded",
        "auc": "no verdict: every instance bears the same label",
        "map_agreement": "no verdict: no cell with instances at s = 8 of both texts",
        "retrieval_share": "no bound was registered",
    }
    assert {row["verdict"] for row in table(made({}), bounds=None).values()} == {"no bound was registered"}


def test_without_recorded_needles_no_row_is_value_aware_or_not():
    frame = made({"position": 200, "e_pool": 0.5, "kept_pool": [1, 5]})
    named = documents(frame).with_columns(needles=pl.lit(None, pl.List(pl.Int64)))
    (row,) = task_table(frame, named, toy_rows(frame, (200,))).filter(quantity="value_aware_share").to_dicts()
    assert (row["value"], row["n"]) == (None, 0)


@pytest.mark.parametrize("text", ["task:mixed", "task:mixed:books/one.txt"])
def test_documents_of_a_mixed_text_are_of_each_task_in_turn(text):
    frame = toy_instances("a", documents=5, rows=1)
    found = task_table(frame, documents(frame, text), toy_rows(frame, (256,)), draws=0)
    n = {row["task"]: row["n"] for row in found.filter(quantity="retrieval_share").iter_rows(named=True)}
    one = {f"task:{name}": 1 for name in ("multi-needle", "variable-chain", "qa")}
    assert n == {"all tasks": 5, "task:needle": 2} | one


def test_dumps_of_different_bounds_have_none_together():
    first, second = made({"dump": "t"}), made({"dump": "u", "head": 0})
    both = pl.concat([first, second])
    named = pl.concat([documents(first), documents(second, bounds=BOUNDS | {"closable_median_max": 0.2})])
    (row,) = task_table(both, named, toy_rows(both)).filter(quantity="closable_median").to_dicts()
    assert (row["bound"], row["verdict"]) == (None, "no verdict: 2 bounds were registered")


def test_each_task_and_family_has_its_rows_and_only_tasks_count():
    frames, named = [], []
    for i, (model, text) in enumerate(
        [("a", "task:needle"), ("a", "task:qa"), ("a", "python-docs"), ("b", "task:qa")]
    ):
        frame = toy_instances(model, documents=2, seed=i).with_columns(dump=pl.lit(f"dump{i}"))
        frames.append(frame)
        named.append(documents(frame, text, bounds=None if text == "python-docs" else BOUNDS))
    everything = pl.concat(frames)
    found = task_table(everything, pl.concat(named), toy_rows(everything, (256,)), frames[2], draws=0)
    assert found.select("model", "task").unique(maintain_order=True).rows() == [
        ("a", "all tasks"),
        ("a", "task:needle"),
        ("a", "task:qa"),
        ("b", "task:qa"),
        ("all families", "all tasks"),
        ("all families", "task:needle"),
        ("all families", "task:qa"),
    ]
    n = {(row["model"], row["task"]): row["n"] for row in found.filter(quantity="auc").iter_rows(named=True)}
    assert n["a", "all tasks"] == n["a", "task:needle"] + n["a", "task:qa"]
    assert n["all families", "all tasks"] == n["a", "all tasks"] + n["b", "task:qa"]
    readable = verdicts_readable(found)
    assert readable["registered"][:3].to_list() == ["≤ 0.09", "≤ 2", "≤ 0.05"]
    assert found["verdict"].is_in(["held", "not held"]).sum() > 20


def test_intervals_need_five_documents():
    frame = toy_instances("a", documents=5)
    found = table(frame, main=frame.with_columns(dump=pl.lit("main")))
    assert found["auc"]["value_low"] < found["auc"]["value"] < found["auc"]["value_high"]
    assert found["map_agreement"]["value_low"] is None
    assert found["map_agreement"]["value"] == 1.0


def test_without_a_task_it_says_what_to_run():
    frame = made({})
    with pytest.raises(InputError, match=r"run `ceiling capture --text task:NAME` and `ceiling enumerate`"):
        task_table(frame, documents(frame, "python-docs"), toy_rows(frame))


@pytest.mark.parametrize("text", ["{", "[1]", "0.09"])
def test_bounds_that_are_no_mapping_are_refused(text):
    frame = made({})
    named = documents(frame).with_columns(registered=pl.lit(text))
    with pytest.raises(InputError, match=r"documents: registered is .* no bounds in JSON"):
        task_table(frame, named, toy_rows(frame))
