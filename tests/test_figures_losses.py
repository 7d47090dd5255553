"""The scripts of held-out loss and of the residual, run on toy stores as a user runs them."""

import json
import re

import polars as pl
import pytest

from ceiling.cli.figures import figures
from ceiling.problem import InputError
from tests.toy_losses import toy_losses, write_toy_losses
from tests.toy_store import toy_documents, toy_instances, toy_scores, write_toy_documents, write_toy_store

SUFFIXES = (".csv", ".json", ".md", ".pdf", ".png")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Losses of prose and of code, instances and scores of the prose."""
    store, out = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("out")
    for dump, text in (("d0c5d0c5d0c5", "python-docs"), ("c0dec0dec0de", "python-code")):
        losses = toy_losses(noise=0.001).with_columns(dump=pl.lit(dump))
        write_toy_losses(store, losses if text == "python-docs" else losses.with_columns(loss=pl.lit(9.0)))
        write_toy_documents(store, toy_documents(losses, text))
    instances = toy_instances("toy-1", documents=5).with_columns(dump=pl.lit("d0c5d0c5d0c5"))
    write_toy_store(store, instances)
    write_toy_store(store, toy_scores(instances), table="scores")
    figures(str(store), out, "figure4,residual")
    return out


def test_each_is_drawn_in_every_form(drawn):
    names = [f"{name}{suffix}" for name in ("figure4", "residual") for suffix in SUFFIXES]
    assert sorted(path.name for path in drawn.iterdir()) == names


def test_figure4_counts_the_main_text_and_says_whether_flat_cells_beat_random_ones(drawn):
    text = (drawn / "figure4.md").read_text()
    assert "n = 3,066 predictions of 6 documents" in text
    assert "Left out: python-code" in text
    assert "1000 resamplings of 6 documents, fewer than 20: it covers less" in text
    assert "flat better: less loss in 6 of 6 documents" in text
    assert pl.read_csv(drawn / "figure4.csv").height == 12
    finding = json.loads((drawn / "figure4.json").read_text())
    assert "on toy-1 the flat cells beat as many random ones (random − flat = 0.0" in finding["sentence"]
    assert finding["paper"] == "the paper's figure gives no numbers here"


def test_the_residual_has_layers_and_the_split_in_one_table(drawn):
    table = pl.read_csv(drawn / "residual.csv")
    assert table.height == 4 * (1 + 6)
    assert table.filter(pl.col("n").is_null() | pl.col("changed").is_null()).is_empty()
    finding = json.loads((drawn / "residual.json").read_text())
    assert "toy-1 at s = 8: 0." in finding["sentence"]
    assert "balancing changes the set" in finding["sentence"]


@pytest.mark.parametrize("name", ["figure4", "residual"])
def test_a_caption_has_no_stray_blank_and_no_null(drawn, name):
    text = (drawn / f"{name}.md").read_text()
    assert re.findall(r"^ .*|.*  .*", text.partition("\n## ")[0], re.MULTILINE) == []
    assert "python-docs, 1,024 tokens a document" in text
    assert "nan" not in text
    assert "null" not in text


def test_a_store_without_scores_says_so_and_one_without_losses_what_to_run(tmp_path):
    store = write_toy_store(tmp_path / "store", toy_instances(documents=2, budgets=(8,), layers=2))
    figures(str(store), tmp_path / "out", "residual")
    assert "run `ceiling score`" in (tmp_path / "out" / "residual.md").read_text()
    with pytest.raises(InputError, match="losses: the store holds none; run `ceiling loss`"):
        figures(str(store), tmp_path / "out", "figure4")
