"""The Ray job answers the instances of the command line, to the same shards."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.store import check_store
from ceiling.store.schema import IDENTITY
from tests.tiny_models import save

ROOT = Path(__file__).parents[1]
PRESS = '''"""A press of the user's: keeps what stands last."""

from dataclasses import dataclass

import torch
from kvpress import ScorerPress


@dataclass
class LastPress(ScorerPress):
    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        return torch.arange(keys.shape[2], dtype=torch.float32).expand(keys.shape[:3])
'''

pytestmark = pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")


def run_alone(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """In a folder of the user's, where modules are found, and not on a cluster that happens to run."""
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"RAY_ADDRESS": "local", "PYTHONPATH": str(ROOT)},
        cwd=folder,
    )


def test_the_job_on_a_local_ray_writes_what_the_command_line_writes(tmp_path: Path):
    model = save(tmp_path / "tiny", max_position_embeddings=1024)
    (tmp_path / "job_presses.py").write_text(PRESS)
    job, command = (ROOT / "jobs" / "audit.py",), ("-m", "ceiling.cli", "audit")
    options = (
        *("--model", model, "--tasks", "niah_single_2,vt:hops=1", "--tokens", 480, "--instances", 2),
        *("--presses", "snapkv:window=16,random", "--presses", "job_presses:LastPress", "--ratios", "0.5"),
    )
    log = tmp_path / "events.jsonl"
    done = run_alone(tmp_path, *job, "--store", tmp_path / "ray", "--log", log, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("4 shards, 48 records -> ")
    serial = run_alone(tmp_path, *command, "--store", tmp_path / "serial", *options)
    assert serial.returncode == 0, serial.stderr
    for table in ("audit", "audit_ceilings"):
        frames = [
            open_store(tmp_path / name)
            .table(table)
            .drop("host", "seconds", strict=False)
            .collect()
            .sort(IDENTITY[table])
            for name in ("ray", "serial")
        ]
        assert_frame_equal(*frames)
    assert check_store(tmp_path / "ray").problems == []
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(event["task"], event["instance"]) for event in events} == {
        (task, number) for task in ("niah_single_2", "vt:hops=1") for number in range(2)
    }
    assert {(event["outcome"], event["records"]) for event in events} == {("done", 12)}
    again = run_alone(tmp_path, *job, "--store", tmp_path / "ray", *options)
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to do: all 4 shards exist")


def test_bad_input_ends_in_one_line_and_code_2(tmp_path: Path):
    model = save(tmp_path / "tiny", max_position_embeddings=1024)
    job = run_alone(
        tmp_path,
        ROOT / "jobs" / "audit.py",
        "--model",
        model,
        "--store",
        tmp_path / "store",
        "--tokens",
        2000,
    )
    assert job.returncode == 2
    assert job.stderr.count("\n") == 1
    assert "2000" in job.stderr
    assert not (tmp_path / "store").exists()
