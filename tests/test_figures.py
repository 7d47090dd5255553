"""The figure scripts, run as a user runs them, on a toy store; and the command that runs them all."""

import runpy
from pathlib import Path

import polars as pl
import pytest

from ceiling.cli.figures import figures, scripts_folder
from ceiling.problem import InputError
from tests.toy_store import toy_certificates, toy_instances, toy_zero_errors, write_toy_store

SCRIPTS = sorted(p.stem for p in scripts_folder().glob("*.py") if not p.stem.startswith("_"))
SUFFIXES = (".csv", ".md", ".pdf", ".png")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    instances = toy_instances("toy-1", documents=5)
    folder = write_toy_store(tmp_path_factory.mktemp("store"), instances)
    write_toy_store(folder, toy_certificates(instances, every=3), table="certificates")
    return write_toy_store(folder, toy_zero_errors("toy-1"), table="zero_errors")


@pytest.fixture(scope="module")
def drawn(store, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    figures(store, out)
    return out


def test_the_command_draws_every_figure(drawn):
    assert SCRIPTS == ["figure1", "figure2", "intervals", "looseness", "table7", "table8", "zero_error"]
    assert sorted(p.name for p in drawn.iterdir()) == [n + s for n in SCRIPTS for s in SUFFIXES]


@pytest.mark.parametrize("name", SCRIPTS)
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
    store = write_toy_store(tmp_path / "store", toy_instances(documents=1))
    figures(store, tmp_path / "out")
    assert {p.stem for p in (tmp_path / "out").iterdir()} == {"figure1", "figure2", "table8"}
    err = capsys.readouterr().err.splitlines()
    assert [line.split(" is not drawn: ")[0] for line in err] == [
        "intervals",
        "looseness",
        "table7",
        "zero_error",
    ]
    assert all("run `ceiling " in line for line in err)


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


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_alone_and_is_short(name, store, tmp_path, capsys):
    path = scripts_folder() / f"{name}.py"
    runpy.run_path(str(path))["main"](["--store", str(store), "--out", str(tmp_path)])
    assert [Path(line).suffix for line in capsys.readouterr().out.split()] == [".png", ".pdf", ".csv", ".md"]
    assert len(path.read_text().splitlines()) <= 60
