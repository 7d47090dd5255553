"""Findings of instances: every sentence goes where the numbers go, and its numbers are the tables'."""

from pathlib import Path

import polars as pl
import pytest

from ceiling.analysis import findings
from ceiling.analysis.cells import map_table
from ceiling.analysis.closable import ceiling_table
from ceiling.analysis.content import content_table
from ceiling.analysis.native import native_paper, native_table
from ceiling.analysis.panel import panel_table
from ceiling.analysis.prediction import prediction_table
from ceiling.analysis.predictors import predictor_table
from ceiling.analysis.profile import budget_profile
from tests.toy_findings import frame, holes
from tests.toy_store import toy_instances, toy_scores

FOLDER = Path(__file__).parents[1] / "figures" / "reference"
DRAWS = 20
NONE = pl.DataFrame(schema={"first": pl.String, "second": pl.String, "same_label": pl.Float64})
"""No pair of texts."""


def reference(name, **options):
    return pl.read_csv(FOLDER / f"forced_weights_{name}.csv", **options)


TEXT, TABLE8 = reference("text"), reference("table8_budget_profile")
CONTENT = reference("table2_content", infer_schema=False)
PANEL = reference("table6_panel").with_columns(pl.col("^edge.*$").cast(pl.Float64))
NATIVE = native_paper(reference("table1_native_budgets", infer_schema=False))
TASKS = reference("tasks", schema_overrides={"paper": pl.String})


@pytest.mark.parametrize(
    ("closable", "where"), [((0.05, 0.09), "2 of 2"), ((0.05, 0.2), "1 of 2"), ((0.3, 0.2), "0 of 2")]
)
def test_figure1(closable, where):
    found = findings.figure1(frame(closable=closable, attained=[0.1, 0.3]), TEXT)
    least, most = sorted(closable)
    assert (
        f"closes a median {least:.1%} to {most:.1%} (a) of top-mass's error, in {where} cases"
        in found.sentence
    )
    assert "top-mass is that set on 10.0% to 30.0% of instances." in found.sentence
    assert found.n == "2,400 instances of 6 documents (a)"
    assert found.interval.startswith(f"{most:.4g} [{0.99 * most:.4g}, {1.01 * most:.4g}] (a, s = ")
    assert found.paper == "closes 0.021 to 0.047; is that set on 0.39 at s = 4; 0.21 at s = 8"


def test_figure1_without_intervals_says_so():
    found = findings.figure1(frame(interval=False, closable=[0.05], attained=[None]), TEXT)
    assert "(by values, there being no interval)" in found.sentence
    assert "on undefined of instances" in found.sentence
    assert found.interval == "0.05 (a, s = 4): none: 2 documents"


@pytest.mark.parametrize(("auc", "better"), [(0.9, "1 of 1"), (0.4, "0 of 1"), (None, "0 of 0")])
def test_figure2(auc, better):
    ours = frame(s=[8], cells=[10], flat_cells=[4], cell_auc=[auc])
    rows = frame(s=[None], auc=[0.75])
    found = findings.figure2(ours, rows, NONE, TEXT)
    assert f"better than chance in {better} families; 40.0% (a) of cells are flat" in found.sentence
    assert "one text has no second map" in found.sentence
    assert "0.75 [0.7425, 0.7575] (a)" in found.interval
    assert found.paper == "AUC of cells 0.82 to 0.94, of rows 0.76 to 0.89"
    texts = pl.DataFrame({"first": ["x"], "second": ["y"], "same_label": [0.87]})
    said = findings.figure2(ours, rows, texts, TEXT).sentence
    assert said.endswith("87.0% of cells are flat on both of two texts or on neither.")


@pytest.mark.parametrize(("rival", "ahead"), [(0.6, "1 of 1"), (0.1, "0 of 1")])
def test_prediction(rival, ahead):
    ours = frame(
        model=["a", "a"],
        s=pl.Series([None, None], dtype=pl.Int64),
        predictor=["dropped_mass", "phi"],
        auc=[0.8, rival],
    )
    found = findings.prediction(ours, TEXT.drop("s"))
    assert (
        f"AUC 0.80 (a), farther from chance than every other statistic in {ahead} families" in found.sentence
    )
    assert f"Φ has {rival:.2f} in a" in found.sentence
    assert found.interval.startswith("0.8 [0.792, 0.808] (a)")
    nothing = findings.prediction(ours.with_columns(auc=pl.lit(None, pl.Float64)), TEXT)
    assert "AUC undefined (a), farther from chance than every other statistic in 0 of 0" in nothing.sentence


@pytest.mark.parametrize(("later", "more"), [(0.2, "1 of 1"), (0.01, "0 of 1")])
def test_table1(later, more):
    ours = frame(median_balancing_closure=[0.05, later], gap_share_of_s8=[1.5, 1.0])
    both = pl.concat([ours, ours.with_columns(model=pl.lit("all families"))])
    found = findings.table1(both, NATIVE)
    assert (
        f"5.0% (a) of top-mass's error at s = 4 and {later:.1%} (a) at s = 8, no less there in {more} fam"
        in found.sentence
    )
    assert found.n == "2,400 instances of 6 documents (a)"
    assert found.paper == "3.2% to 7.7% of four families pooled, s = 4 to 256"


@pytest.mark.parametrize(("code", "largest"), [(0.5, "code in 1 of 1"), (0.1, "prose in 1 of 1")])
def test_table2(code, largest):
    ours = frame(
        model=["a", "a"], text=["prose", "code"], auc=[0.8, 0.7],
        share_kappa_gt_1_11_low=[0.2, code], share_kappa_gt_1_11_high=[0.3, code],
    )  # fmt: skip
    found = findings.table2(ours, CONTENT)
    assert (
        f"is largest on {largest} families (over families and budgets 20.0% to 30.0% on prose"
        in found.sentence
    )
    assert "with AUC 0.80 on prose and 0.70 on code." in found.sentence
    assert found.n == "2,400 instances of 12 documents (a)"
    three = [ours.with_columns(model=pl.lit(model)) for model in "abc"]
    swapped = {"prose": "code", "code": "prose"}
    three[0] = three[0].with_columns(pl.col("text").replace(swapped))
    most, other = largest.split()[0], swapped[largest.split()[0]]
    said = findings.table2(pl.concat(three), CONTENT).sentence
    assert f"is largest on {most} in 2 of 3 families and {other} in 1 of 3 families (" in said
    assert found.interval.startswith("0.7 [0.693, 0.707] (a, code")
    assert "source code: AUC 0.71, share 0.33 to 0.37" in found.paper


@pytest.mark.parametrize(("edge", "more", "less"), [(1.5, 1, 0), (0.5, 0, 1), (1.0, 0, 0)])
def test_table6(edge, more, less):
    ours = frame(s=[None], edge_interior=[edge], auc_dropped_mass=[0.8], rho_phi_es_pool=[0.9])
    found = findings.table6(ours, PANEL)
    assert (
        f"than the inner in {more} of 1 and less often in {less} of 1 families, {edge:.2f} (a)"
        in found.sentence
    )
    assert found.paper.startswith(
        "0.74 to 1.98 times as often, more in 6 of 10 and less in 1 of 10; AUC 0.76 to 0.89"
    )
    nothing = findings.table6(ours.with_columns(edge_interior=pl.lit(None, pl.Float64)), PANEL)
    assert "in 0 of 0 and less often in 0 of 0 families, undefined (a) times" in nothing.sentence
    assert nothing.interval == "none: undefined"


@pytest.mark.parametrize(("later", "geometric", "rises", "above"), [(1.8, 1.5, 1, 2), (0.9, 0.5, 0, 0)])
def test_table8(later, geometric, rises, above):
    ours = frame(
        median_kappa=[1.01, 1.03],
        geo_over_top=[geometric] * 2,
        lev_over_top=[7.0, 9.0],
        median_pi=[1.0, later],
    )
    found = findings.table8(ours, TABLE8)
    assert (
        f"top-mass's in {above} of 2 cases of family and budget ({geometric:.2f} times it)" in found.sentence
    )
    assert f"rises from the least budget to the largest in {rises} of 1 families." in found.sentence
    assert found.interval.startswith("1.03 [")
    assert found.paper == (
        "κ̂ 1.003 to 1.034, geometric 1.4 to 2.06, leverage 6.8 to 20.3, π̂ 1.07 to 1.79, of Qwen2.5-1.5B"
    )


def judged(*verdicts):
    names = ["closable_median", "headroom_ratio", "auc"][: len(verdicts)]
    values, sides = [0.05, 3.0, 0.8][: len(verdicts)], ["max", "max", "min"][: len(verdicts)]
    return frame(
        model=["a"] * len(names), s=[None] * len(names), task=["all tasks"] * len(names), quantity=names,
        value=values, bound=[0.09, 2.0, 0.7][: len(names)], side=sides, verdict=list(verdicts),
    )  # fmt: skip


def test_tasks():
    held = findings.tasks(judged("held", "held", "held"), TASKS)
    assert "hold in 3 of 3 cases of family and quantity, all tasks together (broken: none)" in held.sentence
    assert "median closable share is 5.0% (a)." in held.sentence
    broken = findings.tasks(judged("held", "not held", "no verdict: why"), TASKS)
    assert "in 1 of 2 cases" in broken.sentence
    assert "(broken: retrieval over background headroom 3 against ≤ 2 in a)" in broken.sentence
    assert broken.paper.startswith("registered: median closable share ≤ 0.09; ")
    assert "in 0 of 0 cases" in findings.tasks(judged("no bound was registered"), TASKS).sentence


@pytest.mark.parametrize("documents", [5, 2], ids=["with intervals", "without"])
def test_of_what_analysis_makes_each_is_one_sentence_without_holes(documents):
    instances = pl.concat(
        toy_instances(f"toy-{i}", documents=documents, layers=3, heads=2, rows=4, seed=i) for i in (1, 2)
    )
    ceiling = ceiling_table(instances, draws=DRAWS)
    rows = prediction_table(instances, draws=DRAWS)
    for found in (
        findings.figure1(ceiling, TEXT),
        findings.figure2(map_table(instances, draws=DRAWS), rows, NONE, TEXT),
        findings.prediction(predictor_table(instances, draws=DRAWS), TEXT),
        findings.table1(native_table(instances, toy_scores(instances), draws=DRAWS), NATIVE),
        findings.table2(content_table({"python-docs": instances}, draws=DRAWS), CONTENT),
        findings.table6(panel_table(instances, draws=DRAWS), PANEL),
        findings.table8(budget_profile(instances, draws=DRAWS), TABLE8),
    ):
        assert found.sentence.endswith(".")
        assert ". " not in found.sentence
        assert f"of {documents} documents (toy-1)" in found.n
        assert [holes(text) for text in found] == [[]] * 4
    said, row = findings.figure1(ceiling, TEXT), ceiling.filter(model="toy-1").sort("closable").to_dicts()[-1]
    assert f"{row['closable']:.1%} (toy-1)" in said.sentence
    ends = "" if row["closable_low"] is None else f" [{row['closable_low']:.4g}, {row['closable_high']:.4g}]"
    assert f"{row['closable']:.4g}{ends} (toy-1, s = {row['s']})" in said.interval
    assert ("none: 2 documents" in said.interval) == (not ends)
