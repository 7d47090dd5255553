"""The Ray job certifies the units of the command line, to the same shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.certify.manifest import read_manifest
from ceiling.dump import open_dump
from ceiling.stages import certify as stage
from ceiling.store.schema import IDENTITY
from tests.toy_dump import write_toy_dump

ROOT = Path(__file__).parents[1]
NODES = 50
"""Few, and deterministic: a rerun ends at the same node."""


def run_job(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "jobs" / "certify.py"), *map(str, arguments)]
    alone = os.environ | {"RAY_ADDRESS": "local"}  # not the cluster that happens to run on this machine
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=alone)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy", documents=3)


def test_the_job_on_a_local_ray_writes_what_the_command_line_writes(dump: Path, tmp_path: Path):
    options = (
        *("--dump", dump, "--store", tmp_path / "ray", "--nodes", NODES, "--mass-floor", "none,0.9"),
        *("--instances", 20, "--budgets", "2,4", "--log", tmp_path / "events.jsonl"),
    )
    job = run_job(*options)
    assert job.returncode == 0, job.stderr
    opened = open_dump(dump)
    manifest = read_manifest(tmp_path / f"ray-certify-20-seed-0-{opened.id}.csv", [opened])
    limits = stage.Limits(NODES, floors=(0.0, 0.9))
    plan = stage.plan(dump, tmp_path / "serial", limits=limits, manifest=manifest)
    assert f"{len(plan.units)} shards, 20 instances x 2 mass floors = 40 intervals" in job.stdout
    list(stage.run(plan))
    key = list(IDENTITY["certificates"])
    ray, serial = (
        open_store(tmp_path / name).certificates.sort(key).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {(event["document"], event["layer"]) for event in events} == set(plan.units)
    assert sum(event["intervals"] for event in events) == 40
    again = run_job(*options)
    assert again.returncode == 0
    assert again.stdout.startswith(f"nothing to do: all {len(plan.units)} shards exist")


def test_bad_input_ends_in_one_line_and_code_2(dump: Path, tmp_path: Path):
    job = run_job("--dump", dump, "--store", tmp_path / "store", "--manifest", tmp_path / "absent.csv")
    assert job.returncode == 2
    assert job.stderr.count("\n") == 1
    assert "absent.csv" in job.stderr
    assert not (tmp_path / "store").exists()


def test_a_bad_row_is_named_and_the_rest_completes(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", spoil="nan")
    job = run_job("--dump", dump, "--store", tmp_path / "store", "--budgets", "2", "--nodes", NODES)
    assert job.returncode == 1
    assert "document 0, layer 1, head 1, row 2" in job.stderr
    assert "1 failed" in job.stderr
    assert "Traceback" not in job.stderr
    assert len(list((tmp_path / "store").glob("certificates/**/*.parquet"))) == 3
