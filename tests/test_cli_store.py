"""``ceiling store``: reports that name the mending command, a compact copy, the schema in words."""

import csv
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from ceiling.cli import main
from ceiling.store import COLUMNS, TABLES, check_store
from tests.toy_dump import write_toy_dump

Run = Callable[..., tuple[int, str, str]]

CLEAN = "clean: 8 parquet files; 96 instances, 2 documents, 6 rows\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``ceiling store`` in this process: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["store", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "a toy")


def enumerated(dump: Path, store: Path, *options: str) -> Path:
    assert main(["enumerate", "--dump", str(dump), "--store", str(store), *options]) == 0
    return store


@pytest.fixture(scope="module")
def sound(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return enumerated(dump, tmp_path_factory.mktemp("stores") / "sound", "--budgets", "2,4")


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(sound, tmp_path / "a store")


def shards(store: Path) -> list[Path]:
    return sorted((store / "instances").rglob("*.parquet"))


def mend(commands: list[str]) -> None:
    """Do what a report ends with, as a shell would."""
    for line in commands:
        for command in line.split(" && "):
            program, *arguments = shlex.split(command)
            if program == "ceiling":
                assert main(arguments) == 0
            else:
                assert program == "rm"
                subprocess.run([program, *arguments], check=True)


def test_a_clean_store_says_so_and_exits_0(run: Run, store: Path, dump: Path):
    code, out, err = run("check", "--store", store, "--dump", dump)
    assert (code, err) == (0, "")
    assert out == CLEAN
    assert run("check", "--store", store, "--format", "csv")[:2] == (
        0,
        "kind,where,problem,dump,config,command\n",
    )
    assert run("check", "--store", store, "--format", "json")[:2] == (0, "[]\n")


@pytest.mark.parametrize(
    "options",
    [
        ["--budgets", "2,4"],
        ["--budgets", "4", "--extra", "3"],
        ["--budgets", "2,4,8", "--cap", "100"],
        [],
    ],
)
def test_a_hole_of_any_configuration_is_filled_by_the_command_named(
    run: Run, dump: Path, tmp_path: Path, options: list[str]
):
    store = enumerated(dump, tmp_path / "store", *options)
    shards(store)[1].unlink()
    code, out, err = run("check", "--store", store, "--dump", dump)
    assert code == 1
    assert err == "1 problem: 7 parquet files; " + err.split("; ")[1]
    problem, command = out.splitlines()
    assert problem.startswith("hole: instances/dump=")
    assert problem.endswith(": documents 0, layers 1: 1 shard missing")
    assert command.startswith("ceiling enumerate --dump ")
    mend([command])
    assert run("check", "--store", store, "--dump", dump)[0] == 0
    assert len(shards(store)) == 4


def test_all_damage_that_enumerating_mends_is_mended(run: Run, store: Path, dump: Path):
    """Garbled shards end as whole ones do: enumerate would take them for done."""
    garbled, missing, _, short = shards(store)
    missing.unlink()
    short.write_bytes(b"PAR")
    content = garbled.read_bytes()
    garbled.write_bytes(content[:700] + bytes(50) + content[750:])
    next((store / "rows").rglob("*.parquet")).write_bytes(b"")
    next((store / "documents").rglob("*.parquet")).unlink()
    next(store.rglob("config.json")).write_text("{}")
    code, out, _ = run("check", "--store", store, "--dump", dump)
    assert code == 1
    *problems, command = out.splitlines()
    assert [line.split(":")[0] for line in problems] == ["unreadable"] * 4 + ["hole"] * 2
    assert "not a record (ValueError('it says nothing'))" in out
    assert command.startswith("# configuration ")  # its record was lost too
    next(store.rglob("config.json")).unlink()
    assert main(["enumerate", "--dump", str(dump), "--store", str(store), "--budgets", "2,4"]) == 0
    code, out, _ = run("check", "--store", store, "--dump", dump)
    assert [line.split(":")[0] for line in out.splitlines()[:-1]] == ["unreadable"]
    mend(out.splitlines()[-1:])
    assert run("check", "--store", store, "--dump", dump)[:2] == (0, CLEAN)


def test_every_configuration_with_holes_has_its_command(run: Run, store: Path, dump: Path):
    enumerated(dump, store, "--budgets", "8")
    for folder in (store / "instances").glob("*/*"):
        next(folder.glob("*.parquet")).unlink()
    code, out, _ = run("check", "--store", store, "--dump", dump)
    commands = [line for line in out.splitlines() if line.startswith("ceiling")]
    assert sorted(command.split("--budgets ")[1] for command in commands) == ["2,4", "8"]
    mend(commands)
    code, out, _ = run("check", "--store", store, "--dump", dump)
    assert (code, out.count("\n")) == (1, 1)
    assert out.startswith("configurations: instances/dump=")
    config = next((store / "instances").glob("*/*")).name.removeprefix("config=")
    assert run("check", "--store", store, "--dump", dump, "--config", config)[0] == 0


def test_a_dump_that_the_store_never_saw(run: Run, store: Path, tmp_path: Path):
    other = write_toy_dump(tmp_path / "other", seed=5)
    code, out, _ = run("check", "--store", store, "--dump", other)
    assert code == 1
    mend(out.splitlines()[-1:])  # with the options of the configuration that is there
    assert run("check", "--store", store, "--dump", other)[0] == 0
    (tmp_path / "empty").mkdir()
    code, out, _ = run("check", "--store", tmp_path / "empty", "--dump", other)
    assert code == 1
    assert out.splitlines()[-1] == shlex.join(
        ["ceiling", "enumerate", "--dump", str(other), "--store", str(tmp_path / "empty")]
    )


def test_without_the_dump_the_command_leaves_its_folder_open(run: Run, store: Path):
    shards(store)[0].unlink()
    _, out, _ = run("check", "--store", store)
    assert "--dump FOLDER-OF-DUMP-" in out.splitlines()[-1]


def test_what_another_version_made_is_not_promised(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch):
    shards(store)[0].unlink()
    monkeypatch.setattr("ceiling.stages.enumerate.ENGINE", "newer")
    _, out, _ = run("check", "--store", store)
    assert "made by another version of this program, engine lanes" in out.splitlines()[-1]


def test_reports_for_machines(run: Run, store: Path, dump: Path):
    shards(store)[0].unlink()
    (store / "notes.txt").touch()
    code, out, _ = run("check", "--store", store, "--dump", dump, "--format", "json")
    foreign, hole = json.loads(out)
    assert code == 1
    assert foreign["command"] is None
    assert (hole["kind"], hole["problem"]) == ("hole", "documents 0, layers 0: 1 shard missing")
    table = list(
        csv.DictReader(StringIO(run("check", "--store", store, "--dump", dump, "--format", "csv")[1]))
    )
    assert table[1] == hole
    mend([hole["command"]])
    assert [p.where for p in check_store(store).problems] == ["notes.txt"]


def test_compact_says_what_became_of_what_and_is_read_only(run: Run, store: Path, dump: Path, tmp_path: Path):
    new = tmp_path / "new"
    code, out, _ = run("compact", "--store", store, "--out", new)
    assert code == 0
    assert out.startswith("8 shards, ")
    assert out.endswith(f" 104 rows in {new}\n")
    assert run("check", "--store", new, "--dump", dump)[:2] == (0, CLEAN.replace("8", "3"))
    code, _, err = run("compact", "--store", store, "--out", new)
    assert (code, err) == (2, f"ceiling: out: {new} exists; name a new folder\n")
    for dry in ([], ["--dry-run"]):
        assert main(["enumerate", "--dump", str(dump), "--store", str(new), *dry]) == 2
    assert "ceiling enumerate refuses to add to it" in " ".join(run("compact", "--help")[1].split())


def test_a_damaged_compacted_store_names_no_command(run: Run, store: Path, dump: Path, tmp_path: Path):
    shards(store)[0].unlink()
    run("compact", "--store", store, "--out", tmp_path / "new")
    code, out, err = run("check", "--store", tmp_path / "new", "--dump", dump)
    assert code == 1
    assert "mend the store it was made from, and compact again" in err
    assert out.endswith("documents 0, layers 0: 1 shard missing\n")


def test_schema_prints_every_column_once(run: Run):
    code, out, _ = run("schema")
    assert code == 0
    assert len(out.splitlines()) == sum(map(len, TABLES.values()))
    rows = list(csv.DictReader(StringIO(run("schema", "--table", "instances", "--format", "csv")[1])))
    assert [row["column"] for row in rows] == list(TABLES["instances"])
    assert [row["type"] for row in rows] == [str(dtype) for dtype in TABLES["instances"].values()]
    code, _, err = run("schema", "--table", "instance")
    assert (code, err) == (2, f"ceiling: table: 'instance' is none of {', '.join(TABLES)}\n")


def test_every_column_has_a_meaning_and_every_measure_a_unit():
    for columns in COLUMNS.values():
        for name, column in columns.items():
            assert column.meaning, name
            assert "\n" not in column.meaning
            if str(column.type) == "Float64":
                assert column.unit, name


@pytest.mark.parametrize(
    "options",
    [
        ["--selector", "streaming-llm", "--budgets", "2"],
        ["--selector", "top-mass", "--selector", "balancing", "--budgets", "2,3", "--native", "4"],
        ["--budgets", "2", "--reading", "per-query", "--allocation", "pyramid", "--native", "none"],
    ],
)
def test_a_hole_of_scores_is_filled_by_the_command_named(
    run: Run, dump: Path, tmp_path: Path, options: list[str]
):
    store = tmp_path / "store"
    assert main(["score", "--dump", str(dump), "--store", str(store), *options]) == 0
    gone = sorted((store / "scores").rglob("*.parquet"))[1]
    gone.unlink()
    code, out, _ = run("check", "--store", store, "--dump", dump)
    command = next(line for line in out.splitlines() if line.startswith("ceiling score --dump "))
    assert code == 1
    mend([command])
    assert gone.exists()
    assert len({path.parent for path in (store / "scores").rglob("*.parquet")}) == 1
