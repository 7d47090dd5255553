"""The Ray job scores the units of the command line, to the same shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.stages import score as stage
from ceiling.store.schema import IDENTITY
from tests.toy_dump import write_toy_dump

ROOT = Path(__file__).parents[1]
RULE = "def last(sight, count):\n    return sight.candidates[-count:]\n\n\nlast.reading = 'both'\n"


def run_job(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run in a folder of the user's: modules are found there."""
    command = [sys.executable, str(ROOT / "jobs" / "score.py"), *map(str, arguments)]
    alone = os.environ | {
        "RAY_ADDRESS": "local",
        "PYTHONPATH": str(ROOT),
    }  # not a cluster that happens to run
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=alone, cwd=folder
    )


def test_the_job_on_a_local_ray_writes_what_the_command_line_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dump = write_toy_dump(tmp_path / "toy", documents=3)
    (tmp_path / "job_rules.py").write_text(RULE)
    names = ["top-mass", "balancing", "job_rules:last"]
    options = (
        *(
            "--dump",
            dump,
            "--store",
            tmp_path / "ray",
            "--log",
            tmp_path / "events.jsonl",
            "--budgets",
            "2,4",
        ),
        *("--native", 6, "--allocation", "mass-greedy,map", *(w for n in names for w in ("--selector", n))),
    )
    job = run_job(tmp_path, *options)
    assert job.returncode == 0, job.stderr
    monkeypatch.chdir(tmp_path)
    plan = stage.plan(
        dump, tmp_path / "serial", names, budgets=(2, 4), native=(6,), allocations=("mass-greedy", "map")
    )
    list(stage.run(plan))
    sys.modules.pop("job_rules")
    key = list(IDENTITY["scores"])
    ray, serial = (
        open_store(tmp_path / name).scores.sort(key).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    assert f"6 shards, {len(serial):,} kept sets -> " in job.stdout
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {(event["document"], event["layer"]) for event in events} == set(plan.units)
    assert sum(event["sets"] for event in events) == len(serial)
    again = run_job(tmp_path, *options)
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to do: all 6 shards exist")


def test_a_bad_row_is_named_and_the_rest_completes(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", spoil="nan")
    job = run_job(tmp_path, "--dump", dump, "--store", tmp_path / "store", "--budgets", "2")
    assert job.returncode == 1
    assert "left out, as dump" in job.stderr
    assert "document 0, layer 1, head 1, row 2" in job.stderr
    assert "2 failed" in job.stderr, "an allocation looks at all layers of its document"
    assert "Traceback" not in job.stderr
    assert len(list((tmp_path / "store").glob("scores/**/*.parquet"))) == 2


def test_bad_input_ends_in_one_line_and_code_2(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump")
    job = run_job(tmp_path, "--dump", dump, "--store", tmp_path / "store", "--selector", "quest")
    assert job.returncode == 2
    assert job.stderr.count("\n") == 1
    assert "quest needs query vectors" in job.stderr
    assert not (tmp_path / "store").exists()
