"""Findings of kept sets: every sentence goes where the numbers go, and its numbers are the tables'."""

from pathlib import Path

import polars as pl
import pytest

from ceiling.analysis import findings_kept
from ceiling.analysis.allocation import allocation_table
from ceiling.analysis.certification import certification_table
from ceiling.analysis.group_vote import group_vote_table
from ceiling.analysis.intervals import interval_table
from ceiling.analysis.looseness import looseness
from ceiling.analysis.selection import excess_ranges, selector_table, with_pool
from ceiling.analysis.zero_errors import answer_table, solving_times
from tests.toy_findings import frame, holes
from tests.toy_store import toy_certificates, toy_instances, toy_scores, toy_zero_errors

FOLDER = Path(__file__).parents[1] / "figures" / "reference"
SELECTORS = pl.read_csv(FOLDER / "forced_weights_selectors.csv")
TABLE7 = pl.read_csv(FOLDER / "forced_weights_table7_certification.csv")
DRAWS = 20


def selectors(**medians):
    """Per-query rows of `rule=median` at s = 8, error over e_pool and over e_top alike."""
    rows = frame(
        selector=list(medians), reading=["per-query"] * len(medians), model=["a"] * len(medians),
        s=[8] * len(medians), excess=list(medians.values()), over_top=list(medians.values()),
        n_pool=[50] * len(medians),
    )  # fmt: skip
    return rows


@pytest.mark.parametrize(("h2o", "behind"), [(1.6, "1 of 1"), (1.02, "0 of 1")])
def test_figure3(h2o, behind):
    ours = with_pool(selectors(**{"top-mass": 1.05, "snapkv": 2.0, "h2o": h2o}))
    found = findings_kept.figure3(ours, excess_ranges(ours, SELECTORS), SELECTORS)
    assert (
        f"rules is {h2o:.2f} to 2.00 (a) times the pool's best, that of top-mass 1.05 (a)" in found.sentence
    )
    assert (
        f"the nearest, {h2o:.2f} (h2o, per-query), stays behind top-mass in {behind} families"
        in found.sentence
    )
    assert found.n == "50 instances of 6 documents (a)"
    assert found.interval.startswith(f"{h2o:.4g} [")
    assert found.paper == "deployed rules 1.4 to 2.1 at s = 8, top-mass 1.02 to 1.03 at s = 8"


def test_figure3_without_a_deployed_rule():
    ours = with_pool(selectors(**{"top-mass": 1.05}))
    found = findings_kept.figure3(ours, excess_ranges(ours, SELECTORS), SELECTORS)
    assert found.sentence.startswith("No rule the paper calls deployed")


@pytest.mark.parametrize(("h2o", "below"), [(1.6, "0 of 2"), (0.9, "1 of 2")])
def test_selection(h2o, below):
    found = findings_kept.selection(selectors(**{"top-mass": 1.0, "tova": 1.0, "snapkv": 2.0, "h2o": h2o}))
    assert f"below top-mass's at some budget in {below} cases" in found.sentence
    assert f"from {h2o:.2f} times (a, h2o, per-query, s = 8) to 2.00 times (a, snapkv" in found.sentence
    assert "balancing" not in found.sentence
    swapped = findings_kept.selection(selectors(**{"top-mass": 1.0, "balancing": 0.8, "h2o": h2o}))
    assert "balancing, which reads the values, comes to 0.80 times." in swapped.sentence
    assert findings_kept.selection(selectors(**{"top-mass": 1.0})).sentence.startswith("No rule but")


@pytest.mark.parametrize(("ratio", "better", "worse"), [(0.9, 1, 0), (1.2, 0, 1), (1.0, 0, 0), (None, 0, 0)])
def test_allocation(ratio, better, worse):
    ours = frame(allocation=["map"], median_scaled=pl.Series([ratio], dtype=pl.Float64), instances=[720])
    found = findings_kept.allocation(ours)
    n = int(ratio is not None)
    assert f"map is better in {better} of {n} and worse in {worse} of {n} (" in found.sentence
    assert found.n == "720 instances of 6 documents (a)"
    assert found.paper.startswith("none: ")


@pytest.mark.parametrize(("costs", "above", "more"), [((1.1, 1.2), 2, 1), ((1.1, 0.9), 1, 0)])
def test_group_vote(costs, above, more):
    ours = frame(model=["a", "b"], s=[8, 8], group=[2, 4], cost=costs)
    found = findings_kept.group_vote(ours, SELECTORS)
    assert "for 2 heads in a and 4 heads in b" in found.sentence
    assert f"above it in {above} of 2 cases of family and budget (by intervals)" in found.sentence
    assert found.sentence.endswith(f"the larger group pays more in {more} of 1 pairs of families.")
    assert "pairs" not in findings_kept.group_vote(ours[:1], SELECTORS).sentence
    assert found.paper == "1.06 to 1.22 at s = 8"


WHOLE = frame(s=[8], mass_floor=[0.0])


@pytest.mark.parametrize(
    ("last", "larger", "smaller"), [((0.3, 0.4), 1, 0), ((0.0, 0.05), 0, 1), ((0.0, 0.4), 0, 0)]
)
def test_intervals(last, larger, smaller):
    low, high = zip((0.1, 0.2), last, strict=True)
    ours = frame(
        model=["a", "a"],
        s=[8, 8],
        mass_floor=[0.0, 0.0],
        decile=[1, 10],
        closable_lower=low,
        closable_upper=high,
    )
    found = findings_kept.intervals(ours, WHOLE)
    said = (
        f"proved larger in {larger} of 1 and smaller in {smaller} of 1 cases of family and budget under mass"
    )
    assert said in found.sentence
    assert found.interval == f"proved: [{last[0]:.4g}, {last[1]:.4g}] (a, s = 8, decile 10, floor none)"
    assert findings_kept.intervals(ours[:1], WHOLE).sentence.startswith(
        "No case of family and budget has two"
    )


def test_looseness():
    rows = pl.DataFrame(
        {"model": "a", "s": 8, "dump": "d", "document": [0, 0, 1, 1], "looseness": [0.0, 0.02, 0.0, 0.3]}
    )
    rows = rows.with_columns(
        improved_known=pl.col("looseness") > 0.01, status=pl.Series(["optimal"] * 3 + ["gap"])
    )
    found = findings_kept.looseness(rows, TABLE7)
    assert "exists on 33.3% (a) of the instances that were solved (most: 33.3%, a, s = 8)" in found.sentence
    assert "best known set is 1.0% (a) better." in found.sentence
    assert (found.n, "1 of 3, at most 79.2% (a)" in found.interval) == (
        "4 instances of 2 documents (a)",
        True,
    )
    assert found.paper == "4.9% (46 of 939 solved)"
    both = pl.concat([rows, rows.with_columns(s=4, improved_known=pl.lit(True))])
    assert "exists on 66.7% (a) of" in findings_kept.looseness(both, TABLE7).sentence
    assert "(most: 100.0%, a, s = 4)" in findings_kept.looseness(both, TABLE7).sentence
    tight = findings_kept.looseness(rows.with_columns(looseness=0.0, improved_known=False), TABLE7)
    assert "exists on 0.0% (a)" in tight.sentence
    open_ = findings_kept.looseness(rows.with_columns(status=pl.lit("gap")), TABLE7)
    assert "exists on undefined (a) of the instances that were solved, and" in open_.sentence
    assert open_.interval == "none: none is solved"


@pytest.mark.parametrize(("pool", "above"), [(0.05, "1 of 1"), (0.1, "0 of 1"), (None, "0 of 0")])
def test_table7(pool, above):
    ours = frame(
        s=[8], mass_floor=[0.0], solved=[7], closable_lower=[0.1], closable_upper=[0.2],
        median_closable=pl.Series([pool], dtype=pl.Float64),
    )  # fmt: skip
    found = findings_kept.table7(ours, TABLE7)
    assert "under mass floor none 10.0% to 20.0% (a), above the pool's" in found.sentence
    assert f"in {above} cases of family and budget (7 of 1200 solved)." in found.sentence
    assert found.interval == "proved: [0.1, 0.2] (a, s = 8)"
    assert found.paper == "0.018 to 0.047 of its pools, 939 instances solved"


@pytest.mark.parametrize("yes", [0, 3])
def test_zero_error(yes):
    answers = frame(s=[None], bits=[8], yes=[yes], no=[6 - yes], unknown=[1]).with_columns(n=pl.lit(7))
    times = pl.DataFrame(
        {"seconds_max": [0.1, 2.5], "engine": ["x", "y"], "m_from": [9, 17], "m_to": [16, 32]}
    )
    found = findings_kept.zero_error(answers, times)
    assert (
        f"exists in {yes} of 7 questions about rounded rows ({yes} of 7 at 8 bits), is proved not to in "
        f"{6 - yes}, and 1 stay" in found.sentence
    )
    assert found.sentence.endswith("the longest took 2.5 s (y, 17 to 32 keys).")
    assert found.n == "7 questions of 6 documents (a)"


@pytest.mark.parametrize("documents", [5, 2], ids=["with intervals", "without"])
def test_of_what_analysis_makes_each_is_one_sentence_without_holes(documents):
    instances = toy_instances("toy-1", documents=documents, layers=3, heads=2, rows=4)
    scores, certificates = toy_scores(instances), toy_certificates(instances)
    rules = selector_table(scores, instances, certificates, draws=DRAWS)
    picked, zero = with_pool(rules), toy_zero_errors("toy-1", documents=documents)
    whole = certification_table(certificates, instances, draws=DRAWS)
    for found in (
        findings_kept.figure3(picked, excess_ranges(picked, SELECTORS), SELECTORS),
        findings_kept.table7(whole, TABLE7),
        findings_kept.allocation(allocation_table(scores, draws=DRAWS)),
        findings_kept.group_vote(group_vote_table(scores, draws=DRAWS), SELECTORS),
        findings_kept.selection(rules),
        findings_kept.intervals(interval_table(certificates, draws=DRAWS), whole),
        findings_kept.looseness(looseness(certificates, instances), TABLE7),
        findings_kept.zero_error(answer_table(zero), solving_times(zero)),
    ):
        assert found.sentence.endswith(".")
        assert ". " not in found.sentence
        assert f"of {documents} documents (toy-1)" in found.n
        assert [holes(text) for text in found] == [[]] * 4
