"""The command line: what a stranger types, and what it says when that was wrong."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from ceiling.cli import main
from ceiling.models.built_in import converted_folder
from ceiling.models.catalogue import BUILT_INS
from ceiling.selectors import SELECTORS
from ceiling.stages.scoring import BALANCING
from tests.toy_dump import write_toy_dump

SQL = "SELECT s, count(*) AS n, median(closable) AS c FROM instances GROUP BY s ORDER BY s"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(scope="module")
def store(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stores") / "store"
    assert main(["enumerate", "--dump", str(dump), "--store", str(store), "--budgets", "4,8"]) == 0
    return store


def refused(result: tuple[int, str, str], *words: str, code: int = 2) -> None:
    """The command ended with `code` and one line on stderr that says `words`."""
    got, _, err = result
    assert got == code, err
    assert err.startswith("ceiling: ")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err


def test_help_lists_every_verb(run: Run):
    for arguments in ((), ("--help",), ("-h",)):
        code, out, err = run(*arguments)
        assert code == 0 or not arguments
        for verb in ("demo", "models", "capture", "enumerate", "query", "figures"):
            assert verb in out + err


@pytest.mark.parametrize("verb", ["demo", "models", "capture", "enumerate", "query", "figures"])
def test_every_verb_explains_itself(run: Run, verb: str):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "Usage: ceiling" in out


def test_bad_usage_is_one_line(run: Run):
    refused(run("enumerat"), "enumerat")
    refused(run("enumerate", "--dmp", "x"), "--dmp")
    refused(run("enumerate"), "--dump")
    refused(run("enumerate", "--dump", "x", "--extra", "many"), "--extra", "integer")


def test_enumerate_says_what_it_did_and_a_second_run_does_nothing(run: Run, dump: Path, tmp_path: Path):
    command = ("enumerate", "--dump", dump, "--store", tmp_path / "s", "--budgets", "4")
    code, out, _ = run(*command)
    assert code == 0
    assert "4 shards, 48 instances, " in out
    assert " CPU s -> " in out
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*.parquet")}
    code, out, _ = run(*command)
    assert code == 0
    assert out == f"nothing to do: all 4 shards exist in {tmp_path / 's'}\n"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").rglob("*.parquet")} == before


def test_a_dry_run_does_nothing(run: Run, dump: Path, tmp_path: Path):
    code, out, _ = run("enumerate", "--dump", dump, "--store", tmp_path / "s", "--dry-run")
    assert code == 0
    assert "4 of 4 shards to do" in out
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ("4,0", ("budgets", "0 is not positive")),
        ("4,-8", ("budgets", "-8 is not positive")),
        ("8,4,8", ("budgets", "8 is repeated")),
        ("4,4.5", ("budgets", "'4.5' is not a whole number")),
        ("4,,8", ("budgets", "'' is not a whole number")),
        ("four", ("budgets", "'four'")),
    ],
)
def test_budgets_that_are_none(run: Run, dump: Path, tmp_path: Path, budgets: str, words: tuple[str, ...]):
    refused(run("enumerate", "--dump", dump, "--store", tmp_path / "s", "--budgets", budgets), *words)
    assert not (tmp_path / "s").exists()


def test_dumps_that_are_none(run: Run, dump: Path, tmp_path: Path):
    refused(run("enumerate", "--dump", tmp_path / "nowhere"), "nowhere")
    truncated = write_toy_dump(tmp_path / "truncated")
    file = truncated / "doc-00001.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(run("enumerate", "--dump", truncated), "doc-00001.safetensors", "truncated")
    newer = write_toy_dump(tmp_path / "newer")
    manifest = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(manifest | {"schema": 2}))
    refused(run("enumerate", "--dump", newer), "schema", "2")


def test_unwritable_places_are_named(run: Run, dump: Path, store: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "inside"
    refused(run("enumerate", "--dump", dump, "--store", inside), "store", str(inside))
    refused(run("figures", "--store", store, "--out", inside), str(inside))
    refused(run("demo", "--out", inside), "out", str(inside.parent))


def test_query_prints_every_format(run: Run, store: Path):
    frame = pl.read_csv(run("query", SQL, "--store", store, "--format", "csv")[1].encode())
    assert frame["s"].to_list() == [4, 8]
    assert frame["n"].to_list() == [48, 48]
    rows = json.loads(run("query", SQL, "--store", store, "--format", "json")[1])
    assert [row["s"] for row in rows] == [4, 8]
    table = run("query", SQL, "--store", store)[1]
    assert "closable" not in table
    assert "│ 4" in table
    markdown = run("query", SQL, "--store", store, "--format", "markdown")[1]
    assert markdown.startswith("| s")


def test_query_writes_parquet_to_a_pipe(store: Path):
    command = [
        sys.executable,
        "-m",
        "ceiling.cli",
        "query",
        SQL,
        "--store",
        str(store),
        "--format",
        "parquet",
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    assert pl.read_parquet(BytesIO(done.stdout))["n"].to_list() == [48, 48]


def test_lists_survive_csv(run: Run, store: Path):
    code, out, _ = run("query", "SELECT kept_top FROM instances LIMIT 1", "--store", store, "--format", "csv")
    assert code == 0
    assert len(out.splitlines()[1].split()) in (4, 8)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DROP TABLE instances", ("DROP is refused",)),
        ("SELECT closble FROM instances", ("closble", "did you mean closable")),
        ("SELECT * FROM read_csv('x')", ("read_csv",)),
        ("SELECT FROM WHERE", ("sql",)),
        ("", ("empty",)),
    ],
)
def test_sql_that_is_wrong(run: Run, store: Path, sql: str, words: tuple[str, ...]):
    refused(run("query", sql, "--store", store), *words)


def test_stores_that_are_none(run: Run, tmp_path: Path):
    refused(run("query", SQL, "--store", tmp_path / "nowhere"), "nowhere")
    refused(run("figures", "--store", tmp_path / "nowhere", "--out", tmp_path / "out"), "nowhere")
    (tmp_path / "empty").mkdir()
    refused(run("figures", "--store", tmp_path / "empty", "--out", tmp_path / "out"), "enumerate")
    assert not (tmp_path / "out").exists()


def test_selectors_are_listed_with_what_they_take(run: Run):
    code, out, _ = run("selectors")
    assert code == 0
    heads = [line.split()[0] for line in out.split("\n\n")[0].splitlines() if not line.startswith(" ")]
    assert heads == [*SELECTORS, BALANCING]
    assert "snapkv\n  readings    per-query, cache\n  queries     needed in per-query, cache\n" in out
    assert "  parameters  window=0, kernel=7, pooling=max\n  source      Li et al., arXiv 2404.14469" in out
    assert "tova\n  readings    per-query, cache\n  queries     needed in cache\n" in out
    assert "quest-16 (budgets from 16 on)\n" in out
    assert "--selector module:function" in out


def test_a_second_configuration_is_announced(run: Run, dump: Path, tmp_path: Path):
    command = ("enumerate", "--dump", dump, "--store", tmp_path, "--budgets")
    assert "configurations" not in run(*command, "4")[2]
    assert "store now holds 2 configurations of instances: " in " ".join(run(*command, "2")[2].split())


def test_of_all_reasons_the_stores_own_goes_first(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reasons = ["certificates: none", "instances: none", "store: holds 2 configurations"]
    for figure, reason in enumerate(reasons, 1):
        code = f"from ceiling.problem import InputError\ndef main(_): raise InputError({reason!r})\n"
        (tmp_path / f"figure{figure}.py").write_text(code)
        monkeypatch.setattr("ceiling.cli.figures.scripts_folder", lambda: tmp_path)
        refused(run("figures", "--store", tmp_path), reason)


def test_figures_that_are_none(run: Run, store: Path, tmp_path: Path):
    refused(run("figures", "--store", store, "--out", tmp_path, "--only", "figure9"), "figure9", "figure1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "smollm3"), ("model", "smollm3", "smollm2-135m", "gemma3-270m")),
        (("--text", "python-doc"), ("text", "python-doc", "python-docs")),
        (("--documents", "0"), ("documents", "0")),
        (("--tokens", "0"), ("tokens", "0")),
        (("--rows", "0"), ("rows", "0")),
        (("--device", "tpu"), ("device", "tpu")),
        (("--device", "cuda:99"), ("device", "cuda:99", "this machine has ", "CUDA device")),
        (("--dtype", "int8"), ("dtype", "int8")),
        (("--layers", "a"), ("layers", "'a'")),
    ],
)
def test_captures_that_are_none(run: Run, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]):
    refused(run("capture", "--out", tmp_path / "dump", *options), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_one_line_and_a_traceback_only_with_debug(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("ceiling.store.run_sql", fail)
    refused(run("query", SQL, "--store", store), "RuntimeError: first line second line", "--debug", code=1)
    with pytest.raises(RuntimeError, match="first line"):
        main(["query", SQL, "--store", str(store), "--debug"])


def test_ctrl_c_keeps_finished_shards_and_says_so(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", documents=24)
    command = [sys.executable, "-m", "ceiling.cli", "enumerate"]
    command += ["--dump", str(dump), "--store", str(tmp_path / "store")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "store").glob("instances/**/*.parquet")):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == (
        "ceiling: interrupted; what was finished is kept, the same command continues"
    )
    done = len(list((tmp_path / "store").glob("instances/**/*.parquet")))
    assert 0 < done < 48
    assert list((tmp_path / "store" / ".tmp").iterdir()) == []


CACHED = converted_folder(BUILT_INS["smollm2-135m"]).exists()


@pytest.mark.skipif(not CACHED, reason="smollm2-135m is not in the cache")
def test_the_demo_goes_from_weights_to_words_and_may_change_its_budgets(run: Run, tmp_path: Path):
    """A second configuration in the demo's store once stopped it at the figures."""
    command = ("demo", "--out", tmp_path / "demo", "--documents", "1", "--tokens", "64", "--rows", "1")
    for budgets in ("4,8", "8"):
        code, out, err = run(*command, "--budgets", budgets)
        assert code == 0, err
        assert "What was found" in out
        assert "single document" in out or "1 document" in out
    for name in ("figure1", "figure2", "table8"):
        for suffix in ("png", "pdf", "csv", "md"):
            assert (tmp_path / "demo" / "figures" / f"{name}.{suffix}").stat().st_size > 0
