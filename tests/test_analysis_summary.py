"""The summary's sentences: numbers from the tables, the paper's from the reference, honest endings."""

from pathlib import Path

import polars as pl
import pytest

from ceiling.analysis import ceiling_table, summary
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances

REFERENCE = Path(__file__).parents[1] / "figures" / "reference" / "forced_weights_text.csv"


@pytest.fixture
def reference():
    return pl.read_csv(REFERENCE)


def test_numbers_are_the_tables_and_the_references(reference):
    frame = toy_instances(documents=6)
    lines = summary(frame, reference)
    row = ceiling_table(frame).row(0, named=True)
    assert lines[0].startswith(f"toy-1: n = {ceiling_table(frame)['n'].sum():,} instances of 6 documents")
    ours = f"{row['closable']:.1%} [{row['closable_low']:.1%}, {row['closable_high']:.1%}] at s = 4"
    assert ours in lines[1]
    assert lines[1].endswith("(paper: 2.1% to 4.7%).")
    doubled = summary(frame, reference.with_columns(pl.col("low", "high") * 2))
    assert doubled[1].endswith("(paper: 4.2% to 9.4%).")  # read, not written into the code


def test_caveats_end_it(reference):
    lines = summary(toy_instances(documents=2), reference)
    assert "lower bound" in lines[-2]
    assert "no sign" in lines[-1]
    assert "none: 2 documents, at least 5 needed" in lines[0]


def test_each_model_has_its_own_lines(reference):
    two = summary(pl.concat([toy_instances("a", documents=2), toy_instances("b", documents=2)]), reference)
    assert [line[:2] for line in two if ": n = " in line] == ["a:", "b:"]


def test_without_budget_eight_there_is_no_map(reference):
    assert not any("flat" in line for line in summary(toy_instances(documents=2, budgets=(4,)), reference))
    assert any("flat" in line for line in summary(toy_instances(documents=2, budgets=(8,)), reference))


def test_undefined_is_said_in_words(reference):
    text = "\n".join(summary(hand_made({"e_pool": 1.0}, {"e_pool": 1.0}), reference))
    assert "nothing for dropped mass to predict" in text
    assert "(undefined) at s = 8" in text
    assert "no cell AUC" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_a_reference_without_its_columns_is_refused():
    with pytest.raises(InputError, match="reference: no column 'high'"):
        summary(hand_made({}), pl.DataFrame({"quantity": ["x"], "s": [1], "low": [0.1]}))


def test_reference_numbers_are_ranges(reference):
    assert (reference["low"] <= reference["high"]).all()
    assert reference.select("quantity", "s").is_unique().all()
