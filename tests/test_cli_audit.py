"""``ceiling audit``: what it says, records, leaves out and refuses."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ceiling import open_store
from ceiling.cli.audit import budgets_of, names
from ceiling.problem import InputError
from tests.test_cli import Run, refused, run  # noqa: F401
from tests.tiny_models import save

pytestmark = pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")

SMALL = ("--tasks", "niah_single_2,vt:hops=1", "--tokens", 480, "--instances", 2, "--device", "cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "tiny", max_position_embeddings=1024)


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: it imports kvpress."""
    command = [sys.executable, "-m", "ceiling.cli", *map(str, arguments)]
    root = Path(__file__).parents[1]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)


def test_a_dry_run_says_what_a_run_would_do(run: Run, model: Path, tmp_path: Path):  # noqa: F811
    command = ("audit", "--model", model, "--store", tmp_path, *SMALL, "--dry-run")
    code, out, err = run(*command)
    assert code == 0
    assert all(" keeps 29 keys, fewer than its window" in line for line in err.splitlines())
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["presses"].startswith("full, snapkv, h2o, tova, expected_attention, adakv, keydiff, random")
    assert lines["presses"].endswith("adakv:storage=ragged, snapkv:window=16")
    assert lines["budgets"] == "ratio=0.25, ratio=0.5, ratio=0.75, ratio=0.9"
    assert lines["arms"] == "agnostic, aware-kvpress, aware-scores"
    assert lines["tasks"] == "niah_single_2, vt:hops=1"
    assert lines["units"] == "4 of 4 instances to do, 480 tokens each"
    assert lines["records"].startswith(f"{4 * 3 * (11 * 4 + 1)}, about ")
    assert lines["time"].endswith(" on one core")
    assert not list(tmp_path.iterdir())
    code, _, err = run(*command, "--backend", "sdpa")
    assert code == 0
    why = "it sums attention weights, which sdpa does not give; use eager (arm agnostic)"
    assert err.splitlines()[0] == f"refused: h2o: {why}"
    assert all(line.startswith("note: ") for line in err.splitlines()[1:])


def test_a_run_is_kept_continued_and_queried(run: Run, model: Path, tmp_path: Path):  # noqa: F811
    options = ("--presses", "snapkv:window=16,kernel=3,random", "--ratios", "0.5", "--slots", "40")
    command = ("audit", "--model", model, "--store", tmp_path, *options, *SMALL)
    done = alone(*command, "--instances", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 instances, 30 records in ")
    done = alone(*command)
    assert done.returncode == 0, done.stderr
    assert "2 of 4 instances exist and are kept" in done.stderr
    assert run(*command)[1] == f"nothing to do: all 4 instances exist in {tmp_path}\n"
    assert run("store", "check", "--store", tmp_path)[1].startswith("clean: ")
    audit = open_store(tmp_path).audit.collect()
    assert audit.height == 60
    assert set(audit.select("press", "parameters", "budget").rows()) == {
        ("full", "", "none"),
        *((*press, b) for press in (("snapkv", "kernel=3,window=16"), ("random", "")) for b in BUDGETS),
    }
    assert audit.select(pl.col("host", "versions", "kept_id").null_count()).row(0) == (0, 0, 0)
    assert open_store(tmp_path).audit_ceilings.select("layer").unique().collect().height == 3
    sql = "SELECT arm, count(*) AS n FROM audit GROUP BY arm ORDER BY arm"
    out = run("query", "--store", tmp_path, sql, "--format", "csv")[1]
    assert out == "arm,n\nagnostic,20\naware-kvpress,20\naware-scores,20\n"
    for shard in tmp_path.glob("audit/**/vt*.00000.agnostic.parquet"):
        shard.unlink()
    code, out, _ = run("store", "check", "--store", tmp_path)
    assert code == 1
    assert "task vt:hops=1, arm agnostic, instances 0: 1 missing" in out
    assert "run the command that made it again" in out
    again = ("audit", "--model", model, "--store", tmp_path, *SMALL, "--seed", 1, "--dry-run")
    assert run(*again)[0] == 0


BUDGETS = ("ratio=0.5", "slots=40")


def test_bad_options_end_in_one_line(run: Run, model: Path, tmp_path: Path):  # noqa: F811
    command = ("audit", "--model", model, "--store", tmp_path / "store", *SMALL)
    refused(run(*command, "--presses", "h2o", "--backend", "sdpa"), "presses: refused: h2o: ", "use eager")
    refused(run(*command, "--presses", "snapkv:windw=3"), "'windw=3' of snapkv", "window")
    refused(run(*command, "--ratios", "1.5"), "ratio=1.5")
    refused(run(*command, "--ratios", "none"), "name a budget")
    refused(run(*command, "--slots", "few"), "slots=few")
    refused(run(*command, "--arms", "blind"), "arms: 'blind' is unknown")
    refused(run(*command, "--tasks", "niah"), "task: 'niah' is unknown")
    refused(run(*command, "--tokens", 4000), "4000")
    refused(run("audit", "--model", model, "--store", tmp_path / "store"), "tasks: none have been chosen")
    refused(run("audit", "--model", "smollm2-135", "--store", tmp_path / "store"), "no built-in")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], None),
        (["snapkv,tova"], ["snapkv", "tova"]),
        (["snapkv", "tova"], ["snapkv", "tova"]),
        (["snapkv:window=16,kernel=7,tova"], ["snapkv:window=16,kernel=7", "tova"]),
        (["vt:hops=2,chains=2, cwe:top=3"], ["vt:hops=2,chains=2", "cwe:top=3"]),
        (["mine:Press:alpha=1,beta=2,tova"], ["mine:Press:alpha=1,beta=2", "tova"]),
        (["tova,window=3"], ["tova", "window=3"]),
    ],
)
def test_names_take_their_parameters_along(given: list[str], found: list[str] | None):
    assert names(given) == found


def test_budgets_are_of_three_kinds():
    assert budgets_of("0.5, 0.9", "64", "0.25") == ["ratio=0.5", "ratio=0.9", "slots=64", "held=0.25"]
    assert budgets_of("none", None, "0.5") == ["held=0.5"]
    with pytest.raises(InputError, match="name a budget"):
        budgets_of("none", None, None)
