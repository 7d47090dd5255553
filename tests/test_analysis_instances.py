"""Which rows a statistic may use, which it leaves out and counts, and what input is refused."""

import polars as pl
import pytest

from ceiling.analysis.instances import checked, groups
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances


def labels(*rows):
    (group,) = groups(hand_made(*rows))
    return group.rows["label"].to_list()


def test_label_is_a_kappa_above_1_11():
    assert labels({"e_pool": 1 / 1.12}, {"e_pool": 1 / 1.10}, {"e_pool": 1.0}) == [True, False, False]


def test_label_is_true_where_only_the_pool_optimum_is_too_small():
    assert labels({"e_pool": 1e-9}, {"e_top": 1.05e-6, "e_pool": 0.99e-6}) == [True, True]


def test_trivial_and_degenerate_rows_are_left_out_and_counted():
    rows = hand_made(
        {"e_pool": 0.5},
        {"status": "trivial", "e_top": 0.0, "e_pool": 0.0},
        {"status": "degenerate", "degenerate": True, "e_top": 1e-9, "e_pool": 1e-9},
        {"status": "exact", "degenerate": True, "e_top": 1e-9, "e_pool": 1e-9},
    )
    (group,) = groups(rows)
    assert (group.rows.height, group.trivial, group.degenerate) == (1, 1, 2)
    identity = group.identity()
    assert (identity["n"], identity["trivial"], identity["degenerate"]) == (1, 1, 2)


def test_documents_of_two_dumps_are_different_documents():
    rows = [{"dump": dump, "document": d, "s": s} for dump in "ab" for d in range(3) for s in (4, 8)]
    four, eight = groups(hand_made(*rows))
    assert (four.documents, len(four.weights)) == (6, 1001)
    assert sorted(four.cluster) == list(range(6))
    assert four.weights is eight.weights  # budgets share their resamplings


def test_a_document_without_a_measured_row_still_counts_as_a_document():
    rows = [{"document": d} for d in range(5)] + [{"document": 5, "status": "trivial"}]
    (group,) = groups(hand_made(*rows))
    assert group.documents == 6


def test_groups_come_by_model_then_budget_or_pooled():
    frame = pl.concat([toy_instances("b", documents=1), toy_instances("a", documents=1, budgets=(8, 4))])
    assert [(g.model, g.s) for g in groups(frame)] == [("a", 4), ("a", 8)] + [
        ("b", s) for s in (4, 8, 16, 32)
    ]
    assert [(g.model, g.s) for g in groups(frame.lazy(), pooled=True)] == [("a", None), ("b", None)]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (hand_made(), "holds none; run `ceiling enumerate`"),
        (hand_made({}).drop("kappa"), "no column 'kappa'"),
        (hand_made({}, {"phi": float("nan")}), "phi holds a number that is not finite"),
        (hand_made({}, {"e_top": float("inf")}), "e_top holds a number that is not finite"),
    ],
)
def test_bad_frames_are_refused(frame, message):
    with pytest.raises(InputError, match=message):
        list(groups(frame))


def test_a_row_that_two_dumps_hold_counts_once():
    """A pilot capture once weighed double beside the whole one."""
    row = {"text_id": "t", "document": 0, "position": 70}
    frame = hand_made(row, row | {"dump": "e"}, row | {"dump": "e", "position": 71}, {}, {})
    assert checked(frame).height == 4  # rows of unknown text stay
    (group,) = groups(frame, draws=0)
    assert group.documents == 2


def test_a_model_under_two_configurations_is_refused():
    """Pools of 28 and of 5 keys once were one median."""
    with pytest.raises(InputError, match=r"toy was enumerated under configurations c, d, .* --config"):
        checked(hand_made({}, {"config": "d", "dump": "e"}))
