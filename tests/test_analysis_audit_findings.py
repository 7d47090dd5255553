"""Findings of the audit: every sentence says one thing of these records and the opposite of those."""

import polars as pl
import pytest

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_bytes import bytes_table
from ceiling.analysis.audit_cells import anchor_table, natural_table
from ceiling.analysis.audit_contrasts import backend_table
from ceiling.analysis.audit_flips import arm_flips, sharp_cell
from ceiling.analysis.audit_join import agreement
from ceiling.analysis.audit_reference import (
    paper_anchors,
    paper_axes,
    paper_backends,
    paper_deltas,
    paper_verdicts,
)
from ceiling.analysis.audit_sight import sight_table
from ceiling.analysis.audit_verdicts import verdict_table
from ceiling.cli.figures import scripts_folder
from tests.toy_audit import EFFECTS, TRIVIAL, toy_audit

DRAWS = 100
SMALL = {"tasks": ("niah_single_1", "cwe", "vt"), "budgets": ("ratio=0.5", "ratio=0.9")}
REAL = [label for label in EFFECTS if label not in TRIVIAL]


def stated(name):
    return pl.read_csv(scripts_folder() / "reference" / f"audit_{name}.csv", infer_schema=False)


def planted(instances=6, **effects):
    flat = {label: (-0.3, -0.3) for label in REAL}
    return toy_audit(instances=instances, **SMALL, **{**flat, **effects})


def one(frame):
    return frame.filter(model=frame["model"][-1])


def figure1(audit):
    ours = one(verdict_table(audit, draws=DRAWS))
    return audit_findings.audit_figure1(ours, paper_verdicts(stated("table2_verdict")), audit)


def test_figure1_names_who_beats_the_best_trivial_press_and_whose_verdict_sight_turns():
    found = figure1(planted(keydiff=(0.3, 0.3), snapkv=(-0.3, 0.3)))
    assert "loses to 1 of 6 real presses in the agnostic arm (keydiff by 0." in found.sentence
    assert ", 2 of 6 in aware-scores (keydiff by 0." in found.sentence
    assert found.sentence.endswith("sight of the question (aware-scores) turns that on snapkv.")
    assert found.interval.startswith("keydiff, agnostic: 0.")
    assert "], 95%; " in found.interval
    assert found.n == "1,026 answers to 18 instances of 3 tasks, toy-1; 6 forms of 6 real presses"
    assert found.paper.startswith(
        "it loses to 2 of 6 real presses in the agnostic arm (keydiff by 0.171 and tova by 0.095) and 4 of 6"
    )


def test_figure1_says_so_where_no_real_press_beats_it():
    found = figure1(planted(snapkv=(-0.1, -0.2)))
    assert "loses to 0 of 6 real presses in the agnostic arm, 0 of 6 in aware-scores and" in found.sentence
    assert found.sentence.endswith("turns none.")
    assert "snapkv, agnostic: -0." in found.interval


def test_intervals_of_few_instances_are_missed_in_words():
    found = figure1(planted(instances=3))
    assert "without one: a task has fewer than 5 instances" in found.interval
    assert "[" not in found.interval


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ((-0.3, 0.4), ", across zero ("),
        ((-0.35, -0.15), ", not across zero, nor that of any real press in any"),
    ],
)
def test_figure2_says_whether_the_chosen_gap_crosses_zero(effect, said):
    audit = planted(keydiff=effect)
    flips = arm_flips(audit, draws=DRAWS)
    found = audit_findings.audit_figure2(sharp_cell(audit, draws=DRAWS), flips, audit)
    assert said in found.sentence
    assert "sight of the question moves the gap of keydiff to" in found.sentence
    disagree = sum(flips["disagree"])
    assert f"disagree about the best press in {disagree} of {flips.height} comparisons" in found.sentence
    assert found.n.startswith("6 instances of the cell; ")
    assert found.interval.startswith("agnostic: ")
    assert "; aware-scores: " in found.interval


@pytest.mark.parametrize(
    ("effects", "said", "most"),
    [
        ({"snapkv": (-0.3, 0.2)}, "gain more from sight", "snapkv gains most, 0."),
        ({"h2o": (-0.3, 0.2)}, "gain no more from sight", "h2o gains most, 0."),
    ],
)
def test_figure3_says_whether_scores_that_read_the_question_gain_more(effects, said, most):
    audit = planted(**effects)
    paper = paper_deltas(stated("table2_verdict"))
    found = audit_findings.audit_figure3(one(sight_table(audit, draws=DRAWS)), paper, audit)
    assert said in found.sentence
    assert most in found.sentence
    assert found.interval.startswith(f"the largest gain, {most.split()[0]}: 0.")
    assert "gain more" in found.paper
    assert "0.158 against 0.019 on average; snapkv gains most, 0.198 (aware-kvpress)" in found.paper


def test_forms_of_a_press_count_once_where_presses_are_compared():
    labels = ["snapkv", "snapkv:window=16", "keydiff", "knorm", "tova"]
    cell = {"model": "m", "arm": "agnostic", "rows_of": "answer", "budget": "b", "label": labels}
    numbers = {"error_over_top": [1.0, 9.0, 2.0, 3.0, 4.0], "score": [0.9, 0.95, 0.8, 0.7, 0.6]}
    press = pl.col("label").str.split(":").list.first()
    joined = pl.DataFrame(cell | numbers).with_columns(press=press).sample(fraction=1, shuffle=True, seed=1)
    assert agreement(joined).select("presses", "rho").rows() == [(4, pytest.approx(-1))]
    audit = planted(snapkv=(-0.3, 0.2))
    other = audit.filter(press="snapkv").with_columns(parameters=pl.lit("window=16"), score=pl.lit(1.0))
    found = [
        audit_findings.audit_figure3(
            one(sight_table(frame, draws=DRAWS)), paper_deltas(stated("table2_verdict")), audit
        ).sentence.partition(";")[0]
        for frame in (audit, pl.concat([audit, other]))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(("effect", "wins"), [((0.3, 0.3), "6 of 36"), ((-0.3, -0.3), "0 of 36")])
def test_figure4_counts_wins_on_natural_text(effect, wins):
    audit = planted(keydiff=effect).filter(pl.col("task") != "vt")
    audit = audit.with_columns(axis=pl.when(task="cwe").then(pl.lit("natural")).otherwise("axis"))
    ours = natural_table(audit, draws=DRAWS)
    found = audit_findings.audit_figure4(ours, stated("table5_longbench"), audit)
    assert (
        f"beats the best trivial one in the mean in {wins} comparisons; the largest gap is" in found.sentence
    )
    assert found.n == "342 answers to 6 instances of 1 task, toy-1"
    assert found.paper.startswith("gaps from -0.017 to 0.088, of which press")


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        (0.2, "lower than sdpa on backend eager; the interval leaves out zero."),
        (0.0, "the interval holds zero."),
    ],
)
def test_figure5_says_which_backend_scores_lower_and_whether_the_interval_knows(shift, said):
    audit = toy_audit(backends=("eager", "sdpa"), shifts={"sdpa": shift}, instances=6, **SMALL)
    ours = backend_table(audit, draws=DRAWS)
    found = audit_findings.audit_figure5(ours, paper_backends(stated("fig5_backend")), audit)
    assert found.sentence.endswith(said)
    assert found.n.startswith("540 answers to 18 instances")  # both backends, three presses
    assert found.paper == "-0.221 [-0.255, -0.188], eager minus sdpa"


def test_figure5_of_equal_scores_says_the_same():
    ours = pl.DataFrame(
        {"label": "pooled", "model": "m", "dtype": "float32", "pairs": 9, "difference": -1e-17}
        | {"difference_low": None, "difference_high": None}
    )
    audit = toy_audit(instances=2, **SMALL)
    found = audit_findings.audit_figure5(ours, paper_backends(stated("fig5_backend")), audit)
    assert found.sentence.endswith("m in float32 scores the same as sdpa on backend eager.")
    assert found.interval == "eager minus sdpa: 0.000, without one: a task has fewer than 5 instances"


@pytest.mark.parametrize(
    ("anchors", "said"),
    [({}, "lie 0 of 3 axes."), ({"multihop": 0.1}, "lie 1 of 3 axes (toy-1 multihop).")],
)
def test_table1_says_which_axes_are_at_the_floor(anchors, said):
    audit = toy_audit(instances=6, anchors=anchors, **SMALL)
    paper = paper_anchors(stated("table1_anchors"))
    found = audit_findings.audit_table1(anchor_table(audit, draws=DRAWS), paper, audit)
    assert found.sentence.endswith(said)
    assert found.interval.startswith("the lowest, toy-1 multihop: 0.")
    assert found.paper.startswith(
        "0.285 (R1-Distill-Qwen-7B multihop) to 1.000 (Llama-3.1-8B retrieval); below"
    )


@pytest.mark.parametrize(("effect", "wins"), [((0.3, 0.3), "on 3 of 3"), ((-0.2, 0.3), "on 0 of 3")])
def test_table3_counts_axes_on_which_a_real_press_wins(effect, wins):
    audit = planted(keydiff=effect)
    ours = one(verdict_table(audit, by_axis=True, draws=DRAWS))
    found = audit_findings.audit_table3(ours, paper_axes(stated("table3_6_axes")), audit)
    assert (
        f"In the agnostic arm a real press beats the best trivial one in the mean {wins} axes"
        in found.sentence
    )
    assert "keydiff on aggregation (" in found.sentence
    assert found.interval.count("95%") == 3
    assert "on 3 of 3 axes, the best being keydiff on aggregation (0.201), keydiff on multi" in found.paper


def test_bytes_names_presses_that_hold_more_than_promised_and_what_is_unbeaten():
    audit = planted(keydiff=(0.3, 0.3))
    ours = bytes_table(audit, draws=DRAWS)
    found = audit_findings.audit_bytes(ours, audit)
    assert found.sentence.startswith(
        "More bytes than promised are held by adakv (up to 100% of the full cache's"
    )
    assert (
        "of 18 points in the agnostic arm, those unbeaten in bytes and score are keydiff (2)"
        in found.sentence
    )
    assert found.interval.startswith("score of keydiff on 10% of the bytes: 0.")
    honest = ours.filter(pl.col("label") != "adakv").with_columns(pareto=pl.col("label") == "full")
    other = audit_findings.audit_bytes(honest, audit)
    assert other.sentence.startswith("No press holds more bytes than its budget promises; of 16 points")
    assert other.sentence.endswith("are none.")
    assert other.interval == "none: the full cache alone is unbeaten"


@pytest.mark.parametrize(
    ("rho", "said"),
    [
        ((-0.5, -0.25), "score better: the rank"),
        ((0.5, 0.25), "score worse: the rank"),
        ((-0.5, 0.25), "score better or worse, as the arm is: the rank"),
        ((0.0, 0.0), "score neither better nor worse: the rank"),
    ],
)
def test_ceilings_says_what_closeness_does_to_scores(rho, said):
    joined = {"model": "m", "arm": ["agnostic", "aware-scores"], "presses": [9, 11]}
    agreed = pl.DataFrame(joined | {"rho": list(rho)})
    found = audit_findings.audit_ceilings(agreed, planted(instances=2))
    assert said in found.sentence
    assert f"{rho[0]:.2f} in the agnostic arm and {rho[1]:.2f} in aware-scores" in found.sentence
    assert f"is negative in {sum(r < 0 for r in rho)} of 2 comparisons" in found.sentence
    assert found.interval.startswith("none: each correlation is over 9 to 11 presses")


def test_ceilings_of_too_few_presses_says_so():
    joined = {"model": "m", "arm": "agnostic", "rows_of": "answer", "budget": "b", "label": ["a", "b"]}
    numbers = {"press": ["a", "b"], "error_over_top": [1.0, 2.0], "score": [0.5, 0.6]}
    agreed = agreement(pl.DataFrame(joined | numbers))
    found = audit_findings.audit_ceilings(agreed, planted(instances=2))
    assert found.sentence.startswith("No comparison has the presses")


def test_an_audit_without_real_presses_says_so():
    audit = planted(instances=2).filter(pl.col("role") != "real")
    ours = one(verdict_table(audit, by_axis=True, draws=DRAWS))
    found = audit_findings.audit_table3(ours, paper_axes(stated("table3_6_axes")), audit)
    assert found.sentence == "No real press was audited."
    found = audit_findings.audit_figure3(
        one(sight_table(audit, draws=DRAWS)), paper_deltas(stated("table2_verdict")), audit
    )
    assert found.interval == "none: no real press"


def test_sentences_end_and_name_several_models():
    audit = toy_audit(models=2, instances=6, **SMALL)
    found = figure1(audit)
    assert found.sentence.endswith(".")
    assert found.n.startswith("2,052 answers to 36 instances of 3 tasks, toy-1, toy-2")
