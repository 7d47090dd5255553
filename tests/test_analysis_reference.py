"""Every row of the paper has ours beside it or a reason; where ours differ is said from the data."""

from pathlib import Path

import polars as pl
import pytest

from ceiling.analysis import (
    beside_rows,
    content_table,
    differences,
    native_table,
    panel_table,
    ranges,
)
from ceiling.analysis.content import content_beside
from ceiling.analysis.native import NATIVE, native_beside, native_paper, native_ranges
from ceiling.analysis.panel import PANEL
from ceiling.analysis.reference import DIFFERS, here, same_model
from tests.toy_store import toy_instances, toy_scores

REFERENCE = Path(__file__).parents[1] / "figures" / "reference"
FRAME = toy_instances("Qwen/Qwen2.5-1.5B", documents=1, layers=8)


def reference(name):
    return pl.read_csv(REFERENCE / f"forced_weights_{name}.csv", infer_schema=False)


@pytest.mark.parametrize(
    ("family", "model"),
    [
        ("OLMo-2-1B", "allenai/OLMo-2-0425-1B"),
        ("Qwen2.5-7B", None),
        ("gemma-3-1b-pt", None),
        ("Llama-3.2-1B", "meta-llama/Llama-3.2-1B"),
    ],
)
def test_a_family_of_the_paper_is_known_by_the_words_of_its_name(family, model):
    models = ["gemma3-270m", "allenai/OLMo-2-0425-1B", "Qwen/Qwen2.5-1.5B", "meta-llama/Llama-3.2-1B"]
    assert same_model(family, models) == model


def test_a_tuned_model_is_another():
    assert same_model("Qwen2.5-1.5B", ["Qwen/Qwen2.5-1.5B-Instruct"]) is None
    assert same_model("gemma-2-2b", ["google/gemma-2-2b-it", "google/gemma-2-2b"]) == "google/gemma-2-2b"


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("Qwen2.5-1.5B", "beside Qwen/Qwen2.5-1.5B"),
        ("Qwen3-1.7B", "--panel jobs/panel.toml --group four`"),
        ("Qwen3-14B", "--panel jobs/panel.toml --group more`"),
        ("pooled", "beside all families: Qwen/Qwen2.5-1.5B"),
    ],
)
def test_what_stands_beside_a_row_or_why_nothing_does(family, reason):
    assert here(family, ["Qwen/Qwen2.5-1.5B"]).endswith(reason)


def test_every_family_of_the_panel_is_there_with_the_papers_digits():
    paper = reference("table6_panel")
    table = beside_rows(panel_table(FRAME, draws=0), paper, PANEL)
    theirs = table.filter(pl.col("whose").str.starts_with("paper, "))
    assert theirs["whose"].str.strip_prefix("paper, ").to_list() == paper["family"].to_list()
    assert theirs["median_kappa_bal"].to_list() == paper["median_kappa_bal"].to_list()
    assert theirs["edge_interior"][0] == "1.89 [1.51, 2.29]"
    assert theirs["here"][0] == "beside Qwen/Qwen2.5-1.5B"
    assert theirs["here"][1:].str.starts_with("not captured").all()
    assert table["n"][0] == f"{panel_table(FRAME, draws=0)['n'][0]:,}"


def test_every_row_of_table_1_is_there():
    paper = reference("table1_native_budgets")
    ours = native_table(FRAME, toy_scores(FRAME).head(0), draws=0)
    table = native_beside(ours, paper)
    theirs = table.filter(pl.col("whose").str.starts_with("paper, "))
    found = set(theirs.select("quantity", pl.col("whose").str.strip_prefix("paper, ")).rows())
    assert found == set(paper.select("quantity", "family").rows())
    assert [f"s = {s}" for s in (4, 8, 16, 32, 64, 128, 256)] == table.columns[2:-1]
    assert table.filter(pl.col("whose") == "paper, pooled")["s = 256"].to_list() == ["0.061", "0.02"]
    assert set(table["quantity"]) == set(NATIVE)
    assert (table["here"] != "–").sum() == paper.height


def test_the_range_of_table_1_is_over_its_families():
    stated = native_ranges(native_paper(reference("table1_native_budgets")))
    assert stated.filter(quantity="median_balancing_closure", s=4).select("low", "high").rows() == [
        ("0.001", "0.134")
    ]


def test_every_content_of_the_paper_is_there_after_ours():
    table = content_beside(
        content_table({"python-docs": FRAME, "mine": FRAME}, draws=0), reference("table2_content")
    )
    assert table.select("content", "whose").rows() == [
        ("English prose", "Qwen/Qwen2.5-1.5B, python-docs"),
        ("English prose", "paper, Qwen2.5-1.5B"),
        ("mine", "Qwen/Qwen2.5-1.5B, mine"),
        ("source code", "paper, Qwen2.5-1.5B"),
        ("French text", "paper, Qwen2.5-1.5B"),
    ]
    assert table["auc_dropped_mass_high"][3] == "–"  # the paper gives one number
    assert table["here"][1] == "beside Qwen/Qwen2.5-1.5B"
    assert table["here"][3] == "not captured: `ceiling capture --text python-code`"
    assert table["here"][4] == "not captured; a French file of yours stands under its own name"


def stated(*bounds, **columns):
    low, high = zip(*bounds, strict=True)
    return pl.DataFrame({"quantity": "x", "low": low, "high": high, **columns})


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.8, "in agreement"),
        (0.744, "below"),
        (0.746, "in agreement"),
        (0.854, "in agreement"),
        (0.9, "above"),
    ],
)
def test_a_value_agrees_within_the_papers_rounding(value, verdict):
    ours = pl.DataFrame({"model": "m", "s": [None], "x": value}, schema_overrides={"s": pl.Int64})
    assert differences(ours, stated(("0.75", "0.85"))) == (
        f"m against the paper's numbers: {verdict} – x ({value:.3g} against 0.75 to 0.85). {DIFFERS}"
    )


def test_an_interval_that_reaches_the_range_agrees():
    ours = pl.DataFrame({"model": "m", "s": 8, "x": 0.9, "x_low": 0.8, "x_high": 1.0})
    assert "in agreement – x" in differences(ours, stated(("0.7", "0.8")))


def test_budgets_are_compared_each_with_its_own_range_or_the_one_for_all():
    ours = pl.DataFrame({"model": "m", "s": [4, 8, 16], "x": [0.1, 0.9, 0.5]})
    each = stated(("0.50", "0.50"), ("0.50", "0.50"), s=[4, 8])
    assert differences(ours, each) == (
        f"m against the paper's numbers: above – x at s = 8; below – x at s = 4. {DIFFERS}"
    )
    everywhere = stated(("0.4", "0.6"), s=pl.Series([None], dtype=pl.Int64))
    assert "in agreement – x at s = 16" in differences(ours, everywhere)


def test_what_either_side_lacks_is_no_difference():
    ours = pl.DataFrame({"model": "m", "s": [4, 4], "x": [None, None]}, schema_overrides={"x": pl.Float64})
    assert differences(ours, stated(("1", "2"))) == "The paper states nothing to compare these rows with."


def test_ranges_keep_the_papers_text_and_skip_empty_fields():
    found = ranges(reference("table2_content"), ["auc_dropped_mass_low", "auc_dropped_mass_high"], "content")
    assert found.filter(content="source code").rows() == [
        ("auc_dropped_mass_low", "source code", "0.71", "0.71")
    ]
    panel = ranges(reference("table6_panel"), PANEL)
    assert panel.filter(quantity="median_kappa_bal").select("low", "high").rows() == [("1.00", "1.00")]
    assert panel["quantity"].to_list() == list(PANEL)
