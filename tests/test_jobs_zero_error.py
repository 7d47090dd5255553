"""The Ray job does the units of the command line, to the same shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.stages import zero_error as stage
from tests.toy_dump import write_toy_dump

ROOT = Path(__file__).parents[1]


def run_job(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "jobs" / "zero_error.py"), *map(str, arguments)]
    alone = os.environ | {"RAY_ADDRESS": "local"}  # not the cluster that happens to run on this machine
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=alone)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


def test_the_job_on_a_local_ray_writes_what_the_command_line_writes(dump: Path, tmp_path: Path):
    options = ("--dump", dump, "--store", tmp_path / "ray", "--budgets", "2,4", "--bits", "5", "--rows", "3")
    job = run_job(*options, "--log", tmp_path / "events.jsonl")
    assert job.returncode == 0, job.stderr
    assert job.stdout.startswith("4 shards, 24 instances (")
    list(stage.run(stage.plan(dump, tmp_path / "serial", (2, 4), (5,), rows=3)))
    key = ["document", "layer", "head", "position", "s"]
    ray, serial = (
        open_store(tmp_path / name).table("zero_errors").sort(key).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [sum(event["statuses"].values()) for event in events] == [6] * 4
    again = run_job(*options)
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to do: all 4 shards exist")


def test_bad_input_ends_in_one_line_and_code_2(dump: Path, tmp_path: Path):
    for options, said in ((("--bits", "99"), "bits: 99 is outside"), (("--seconds", "0"), "seconds: 0.0")):
        job = run_job("--dump", dump, "--store", tmp_path / "store", *options)
        assert job.returncode == 2
        assert job.stderr.count("\n") == 1
        assert said in job.stderr
    assert not (tmp_path / "store").exists()
