"""The figure scripts, run as a user runs them, on a toy store; and the command that runs them all."""

import json
import re
import runpy
from pathlib import Path

import polars as pl
import pytest

from ceiling.cli.figures import figures, scripts_folder
from ceiling.problem import InputError
from tests.toy_store import (
    toy_certificates,
    toy_documents,
    toy_instances,
    toy_rows,
    toy_scores,
    toy_zero_errors,
    write_toy_documents,
    write_toy_store,
)

SCRIPTS = sorted(p.stem for p in scripts_folder().glob("*.py") if not p.stem.startswith("_"))
OF_ROWS = [name for name in SCRIPTS if name != "figure4" and not name.startswith("audit_")]
"""What is drawn of attention rows; the figures of losses and of the audit have tests of their own."""

SUFFIXES = (".csv", ".json", ".md", ".pdf", ".png")


TEXTS = {"python-docs": "d0c5d0c5d0c5", "python-code": "c0dec0dec0de", "task:needle": "7a5c7a5c7a5c"}
"""The texts of the toy store, and their dumps."""

REGISTERED = (
    '{"closable_median_max": 0.09, "headroom_ratio_max": 2, "value_aware_share_max": 0.05, "auc_min": 0.7, '
    '"map_agreement_min": 0.8}'
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One model on prose, code and a task, with everything measured of the prose."""
    folder = tmp_path_factory.mktemp("store")
    for seed, (text, dump) in enumerate(TEXTS.items()):
        frame = toy_instances("toy-1", documents=5, seed=seed).with_columns(dump=pl.lit(dump))
        documents = toy_documents(frame, text)
        if text.startswith("task:"):
            needles = pl.Series([[1, 2]] * documents.height, dtype=pl.List(pl.Int64))
            documents = documents.with_columns(needles=needles, registered=pl.lit(REGISTERED))
        write_toy_documents(write_toy_store(folder, frame), documents)
        write_toy_documents(folder, toy_rows(frame, [256, 356]), table="rows")
    prose = toy_instances("toy-1", documents=5).with_columns(dump=pl.lit(TEXTS["python-docs"]))
    write_toy_store(folder, toy_scores(prose), table="scores")
    write_toy_store(folder, toy_certificates(prose, every=3), table="certificates")
    zero_errors = toy_zero_errors("toy-1").with_columns(dump=pl.lit(TEXTS["python-docs"]))
    return write_toy_store(folder, zero_errors, table="zero_errors")


@pytest.fixture(scope="module")
def drawn(store, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    figures(store, out)
    return out


def test_the_command_draws_every_figure(drawn):
    wanted = {
        "prediction",
        "zero_error",
        *(f"figure{i}" for i in (1, 2)),
        *(f"table{i}" for i in (1, 2, 6, 7, 8)),
    }
    assert wanted <= set(OF_ROWS)
    assert sorted(p.name for p in drawn.iterdir()) == [n + s for n in OF_ROWS for s in SUFFIXES]


@pytest.mark.parametrize("name", OF_ROWS)
def test_markdown_says_n_documents_intervals_and_the_paper(drawn, name):
    text = (drawn / f"{name}.md").read_text()
    assert "toy-1: n = " in text
    assert "instances of 5 documents" in text
    assert ("95% percentile, 1000 resamplings" in text) == (name != "zero_error")  # has no intervals
    assert "paper" in text.lower()
    assert "nan" not in text
    assert "null" not in text


def test_table8_holds_ours_and_the_papers_rows(drawn):
    table = pl.read_csv(drawn / "table8.csv")
    paper = pl.read_csv(scripts_folder() / "reference" / "forced_weights_table8_budget_profile.csv")
    theirs = table.filter(model="paper, Qwen2.5-1.5B")
    assert theirs["median_pi"].to_list() == paper["median_pi"].to_list()
    assert table.filter(model="toy-1")["s"].to_list() == [4, 8, 16, 32]


def test_table7_holds_ours_and_the_papers_rows(drawn):
    table = pl.read_csv(drawn / "table7.csv")
    paper = pl.read_csv(scripts_folder() / "reference" / "forced_weights_table7_certification.csv")
    theirs = table.filter(model="paper")
    for column in ("s", "improved", "solved", "wilson95_high", "cap_at_wilson", "cap_unsolved_improved"):
        assert theirs[column].to_list() == paper[column].to_list()
    assert table.filter(model="toy-1").select("mass_floor", "s").rows() == [
        (floor, s) for floor in (0.0, 0.5, 0.9) for s in (4, 8, 16, 32)
    ]


@pytest.mark.parametrize("name", ["intervals", "looseness", "table7"])
def test_captions_of_certificates_say_what_no_floor_means_and_what_is_proved(drawn, name):
    text = " ".join((drawn / f"{name}.md").read_text().split())
    assert "tail keys of next to no mass, which no cache would keep" in text
    assert "no set that meets the floor closes more" in text
    assert "Not proved: " in text


def test_a_store_of_instances_draws_what_it_can_and_says_what_to_run(tmp_path, capsys):
    store = write_toy_store(tmp_path / "store", toy_instances(documents=1, layers=2, heads=2))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "figure3.json").write_text("what an earlier run found")
    figures(store, tmp_path / "out")
    drawn = {p.stem for p in (tmp_path / "out").iterdir()}
    assert drawn == {"figure1", "figure2", "prediction", "table1", "table2", "table6", "table8"}
    err = capsys.readouterr().err.splitlines()
    without = [name for line in err for name in re.split(" (is|are) not drawn: ", line)[0].split(", ")]
    assert sorted(without) == sorted(set(SCRIPTS) - drawn)
    assert len(err) < len(without), "one line a reason"
    assert all("run `ceiling " in line for line in err)
    (tmp_path / "out" / "figure3.json").write_text("what an earlier run found")
    with pytest.raises(InputError):
        figures(store, tmp_path / "out", "figure3")
    assert not (tmp_path / "out" / "figure3.json").exists()


def test_every_models_roc_is_given_at_the_same_rates(tmp_path):
    for i, model in enumerate(("toy-1", "toy-2")):
        frame = toy_instances(model, documents=1, seed=i).with_columns(dump=pl.lit(f"{i}" * 12))
        write_toy_store(tmp_path / "store", frame)
    figures(tmp_path / "store", tmp_path, "prediction")
    table = (tmp_path / "prediction.md").read_text().partition("## ROC of the dropped mass")[2]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| toy")]
    rates = [f"{i / 10:g}" for i in range(11)]
    assert [(m.strip(), x.strip()) for m, x in rows] == [(m, x) for m in ("toy-1", "toy-2") for x in rates]


def test_figure2_csv_has_every_cell(drawn):
    assert pl.read_csv(drawn / "figure2.csv").height == 6 * 4


def test_only_runs_what_was_named(store, tmp_path):
    figures(store, tmp_path, "table8, figure1,table8")
    assert {p.stem for p in tmp_path.iterdir()} == {"table8", "figure1"}


@pytest.mark.parametrize(("only", "named"), [("figure9", "figure9"), ("", ""), ("figure1,", "")])
def test_an_unknown_figure_is_refused_before_any_is_drawn(store, tmp_path, only, named):
    with pytest.raises(InputError, match=f"only: no figure '{named}'; there are {', '.join(SCRIPTS)}$"):
        figures(store, tmp_path / "out", only)
    assert not (tmp_path / "out").exists()


def test_an_empty_store_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="run `ceiling enumerate`"):
        figures(tmp_path, tmp_path / "out")


def test_a_store_of_two_configurations_needs_one_named(tmp_path):
    frame = toy_instances(documents=1)
    store = write_toy_store(tmp_path / "store", frame, frame.with_columns(config=pl.lit("1" * 8)))
    with pytest.raises(InputError, match="name one with --config"):
        figures(store, tmp_path / "out", "figure1")
    figures(store, tmp_path / "out", "figure1", config="1" * 8)
    assert pl.read_csv(tmp_path / "out" / "figure1.csv")["n"].sum() < frame.height


def test_figure2_without_budget_eight_says_what_to_enumerate(tmp_path):
    store = write_toy_store(tmp_path / "store", toy_instances(documents=1, budgets=(4,)))
    figures(store, tmp_path / "out", "figure1,table8")
    with pytest.raises(InputError, match="--budgets 4,8"):
        figures(store, tmp_path / "out", "figure2")


def test_a_script_runs_alone(store, tmp_path, capsys):
    """The command runs each the same way."""
    script = runpy.run_path(str(scripts_folder() / "table8.py"))
    script["main"](["--store", str(store), "--out", str(tmp_path)])
    written = [Path(line).suffix for line in capsys.readouterr().out.split()]
    assert written == [".png", ".pdf", ".csv", ".md", ".json"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short(name):
    assert len((scripts_folder() / f"{name}.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize(("text", "n"), [(None, "python-docs"), ("python-code", "python-code")])
def test_a_text_is_counted_alone_and_named(store, tmp_path, text, n):
    figures(store, tmp_path, "table6", text=text)
    note = (tmp_path / "table6.md").read_text()
    assert f"Text: {n}, 1,024 tokens a document (the paper's: 4,096 and more: " in note
    assert "of ours). Left out: " in note


@pytest.mark.parametrize("name", OF_ROWS)
def test_every_figure_says_its_finding(drawn, name):
    card = json.loads((drawn / f"{name}.json").read_text())
    assert set(card) == {"title", "sentence", "n", "interval", "paper", "command"}
    assert all(card.values())
    assert card["command"].endswith(f" --only {name}")


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_caption_names_the_context_length_and_has_no_stray_blank(drawn, name):
    caption = (drawn / f"{name}.md").read_text().partition("\n## ")[0]
    assert "python-docs, 1,024 tokens a document" in caption
    assert re.findall(r"^ .*|.*  .*", caption, re.MULTILINE) == []


def test_no_rule_of_agreement_where_there_is_nothing_to_agree_with(tmp_path):
    frame = toy_instances(documents=1, layers=2, budgets=(128,))
    figures(write_toy_store(tmp_path / "store", frame), tmp_path / "out", "table8")
    text = (tmp_path / "out" / "table8.md").read_text()
    assert "nothing to compare these rows with." in text
    assert "Ours agree" not in text


def test_an_unknown_text_is_refused(store, tmp_path):
    with pytest.raises(InputError, match="text: no dump of this store is of 'python-doc'"):
        figures(store, tmp_path, "table6", text="python-doc")


def test_the_prediction_has_every_text_budget_and_predictor(drawn):
    table = pl.read_csv(drawn / "prediction.csv")
    assert table["text"].unique(maintain_order=True).to_list() == list(TEXTS)
    assert table.height == len(TEXTS) * 5 * 6
    assert table.filter(predictor="dropped_mass")["fit"].unique().to_list() == ["fitted"]


@pytest.mark.parametrize("name", ["table1", "table2", "table6", "table8"])
def test_every_row_of_the_reference_is_there_with_a_reason(drawn, name):
    (path,) = (scripts_folder() / "reference").glob(f"forced_weights_{name}_*.csv")
    lines = (drawn / f"{name}.md").read_text().splitlines()
    rows = [line for line in lines if "| paper, " in line]
    assert len(rows) == pl.read_csv(path).height
    assert all("beside " in line or "captured" in line for line in rows)
    assert "against the paper's numbers: " in "\n".join(lines)
