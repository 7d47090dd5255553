"""The Ray job does the units of the command line, to the same shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.stages import enumerate as stage
from tests.toy_dump import write_toy_dump

ROOT = Path(__file__).parents[1]


def run_job(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "jobs" / "enumerate.py"), *map(str, arguments)]
    alone = os.environ | {"RAY_ADDRESS": "local"}  # not the cluster that happens to run on this machine
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=alone)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy", documents=6)


def test_the_job_on_a_local_ray_writes_what_the_command_line_writes(dump: Path, tmp_path: Path):
    job = run_job("--dump", dump, "--store", tmp_path / "ray", "--budgets", "4,8")
    assert job.returncode == 0, job.stderr
    assert "12 shards" in job.stdout
    list(stage.run(stage.plan(dump, tmp_path / "serial", (4, 8))))
    key = ["document", "layer", "head", "position", "s"]
    ray, serial = (
        open_store(tmp_path / name).instances.sort(key).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    again = run_job("--dump", dump, "--store", tmp_path / "ray", "--budgets", "4,8")
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to do: all 12 shards exist")


def test_bad_input_ends_in_one_line_and_code_2(dump: Path, tmp_path: Path):
    job = run_job("--dump", tmp_path / "nowhere", "--store", tmp_path / "store")
    assert job.returncode == 2
    assert job.stderr.count("\n") == 1
    assert "nowhere" in job.stderr
    assert not (tmp_path / "store").exists()


def test_a_bad_row_is_named_and_the_rest_completes(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", spoil="nan")
    job = run_job(
        "--dump", dump, "--store", tmp_path / "store", "--budgets", "4", "--log", tmp_path / "events.jsonl"
    )
    assert job.returncode == 1
    assert "document 0, layer 1: " in job.stderr
    assert "document 0, layer 1, head 1, row 2" in job.stderr
    assert "1 failed" in job.stderr
    assert "Traceback" not in job.stderr
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    ends = {(event["document"], event["layer"]): event["outcome"] for event in events}
    assert ends == {(0, 0): "done", (0, 1): "failed", (1, 0): "done", (1, 1): "done"}
    assert len(events) == 4
    for event in events:
        assert event["pid"] > 0
        assert event["node"]
        assert event["retries"] == 0
        assert (event["subsets"] > 0) == (event["outcome"] == "done")
        assert event["trace"] is None  # the reason says it


@pytest.mark.parametrize("field", ["dump", "store"])
def test_a_relative_path_in_a_submitted_job_is_refused(
    field: str, dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Uploads honour .gitignore, so a dump never travels, and what is written there is lost."""
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    paths = {"dump": dump, "store": tmp_path / "store"} | {field: Path("somewhere")}
    job = run_job("--dump", paths["dump"], "--store", paths["store"])
    assert job.returncode == 2
    assert job.stderr.startswith(f"enumerate: {field}: somewhere is relative")
    assert "absolute path that every node sees" in job.stderr
    assert job.stderr.count("\n") == 1
