"""``ceiling score``: what it says, scores, leaves out and refuses."""

import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from ceiling import open_store
from tests.test_cli import Run, refused, run  # noqa: F401
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump

UNITS, ROWS_EACH = 2 * LAYERS, HEADS * ROWS
SETS = 4 * 9 + 3 * 4
"""Of a row of the toy dump, which has no queries: nine rules and readings, and three allocations."""


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A rule of the user's in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_rules.py").write_text("def last(sight, count):\n    return sight.candidates[-count:]\n")
    yield "cli_rules:last"
    sys.modules.pop("cli_rules", None)


def test_all_built_in_rules_that_the_dump_allows(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    command = ("score", "--dump", dump, "--store", tmp_path)
    code, out, err = run(*command, "--dry-run")
    assert code == 0
    assert not list(tmp_path.iterdir())
    assert "top-mass (per-query); streaming-llm (per-query, cache); tova (per-query); leverage" in out
    assert "budgets  4, 8, 16, 32; native: none\nspread   uniform, pyramid, mass-greedy, map\n" in out
    assert f"{UNITS} of {UNITS} shards to do" in out
    assert f"{ROWS_EACH} rows each, {SETS} kept sets a row, {UNITS * ROWS_EACH * SETS:,} in all" in out
    assert err.startswith(f"left out, as dump {dump} has no query vectors (`ceiling capture --queries`")
    assert err.endswith("): snapkv, h2o, quest, quest-16, tova in reading cache\n")
    code, out, _ = run(*command)
    assert code == 0
    assert out.startswith(f"{UNITS} shards, {UNITS * ROWS_EACH * SETS:,} kept sets in ")
    assert run(*command)[1] == f"nothing to do: all {UNITS} shards exist in {tmp_path}\n"
    assert run("store", "check", "--store", tmp_path)[1].startswith("clean: ")
    code, out, _ = run("query", "--store", tmp_path, "SELECT count(*) AS n FROM scores", "--format", "csv")
    assert out == f"n\n{UNITS * ROWS_EACH * SETS}\n"


def test_some_rules_at_some_budgets(run: Run, dump: Path, tmp_path: Path, rule: str):  # noqa: F811
    command = (
        *("score", "--dump", dump, "--store", tmp_path / "store", "--budgets", "3", "--native", "4,5"),
        *("--selector", "top-mass", "--selector", rule, "--selector", "streaming-llm:sinks=1"),
    )
    code, _, err = run(*command, "--allocation", "map, pyramid", "--reading", "per-query")
    assert code == 0
    assert "left out" not in err
    frame = open_store(tmp_path / "store").scores.collect()
    found = frame.select("selector", "reading", "s", "allocation").unique().sort(pl.all()).rows()
    assert found == [
        (rule, "per-query", 3, "uniform"),
        ("streaming-llm:sinks=1", "per-query", 3, "uniform"),
        ("top-mass", "per-query", 3, "map"),
        ("top-mass", "per-query", 3, "pyramid"),
        ("top-mass", "per-query", 3, "uniform"),
        ("top-mass", "per-query", 4, "uniform"),
        ("top-mass", "per-query", 5, "uniform"),
    ]
    text = " ".join(run(*command)[2].split())
    assert "store now holds 2 configurations of scores: " in text


def test_bad_options_end_in_one_line(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    command = ("score", "--dump", dump, "--store", tmp_path / "store")
    refused(run("score", "--store", tmp_path), "--dump")
    refused(run(*command, "--selector", "snapkv"), "snapkv needs query vectors", str(dump), "--queries")
    refused(run(*command, "--selector", "snapkw"), "no 'snapkw'; did you mean snapkv")
    refused(run(*command, "--selector", "no_such_module:rule"), "no_such_module")
    refused(run(*command, "--native", "4"), "native: 4 is among the budgets too")
    refused(run(*command, "--native", "x"), "native: 'x' is not a whole number")
    refused(run(*command, "--allocation", "flat"), "allocation: 'flat' is none of")
    refused(run(*command, "--reading", "late"), "late")
    assert not (tmp_path / "store").exists()


def test_none_leaves_out_the_panel_and_the_native_budgets(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    options = ("--budgets", "4", "--native", "none", "--allocation", "none", "--dry-run")
    code, out, _ = run("score", "--dump", dump, "--store", tmp_path, *options)
    assert code == 0
    assert "budgets  4; native: none\nspread   uniform\n" in out
    assert "9 kept sets a row" in out


def test_store_check_knows_the_units_of_the_dump(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    command = ("score", "--dump", dump, "--store", tmp_path, "--budgets", "4", "--selector", "leverage")
    assert run(*command)[0] == 0
    for shard in tmp_path.glob("scores/**/*.layer-01.parquet"):
        shard.unlink()
    assert run("store", "check", "--store", tmp_path)[0] == 0, "nothing here shows that there is a layer 1"
    code, out, _ = run("store", "check", "--store", tmp_path, "--dump", dump)
    assert code == 1
    assert "scores/dump=" in out
    assert "documents 0-1, layers 1: 2 shards missing" in out
    assert run(*command)[0] == 0
    assert run("store", "check", "--store", tmp_path, "--dump", dump)[0] == 0


def test_a_rule_scored_later_stands_beside_the_others(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    def score(*options: str) -> str:
        code, _, err = run("score", "--dump", dump, "--store", tmp_path, "--budgets", "4", *options)
        assert code == 0
        return err

    score("--selector", "top-mass", "--native", "none")
    assert "configurations" not in score("--selector", "leverage")
    assert run("store", "check", "--store", tmp_path)[0] == 0
    rules = open_store(tmp_path).scores.select("selector").unique().collect()["selector"]
    assert sorted(rules) == ["leverage", "top-mass"]
    again = score("--selector", "leverage", "--selector", "streaming-llm")
    assert "3 configurations of scores" in again
    refused(run("query", "--store", tmp_path, "SELECT count(*) FROM scores"), "3 configurations", "leverage")
