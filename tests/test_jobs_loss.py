"""The Ray job continues the documents of the command line, to the same shards."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.stages import capture
from ceiling.stages import loss as stage
from ceiling.store.schema import IDENTITY
from tests.tiny_models import save

ROOT = Path(__file__).parents[1]
RULE = "def last(sight, count):\n    return sight.candidates[-count:]\n"


def test_the_job_on_a_local_ray_writes_what_the_stage_writes(tmp_path: Path, monkeypatch: Any):
    model = str(save(tmp_path / "llama", initializer_range=0.2))
    (tmp_path / "prose.txt").write_text("The cache keeps a few keys and drops the rest, come what may. " * 3)
    (tmp_path / "job_losing.py").write_text(RULE)
    options: dict[str, Any] = {"tokens": 40, "documents": 3, "rows": 4, "device": "cpu"}
    dump = capture.run(capture.plan(model, str(tmp_path / "prose.txt"), out=tmp_path / "dump", **options))
    names, arguments = ["top-mass", "job_losing:last"], ["--dump", dump, "--model", model, "--budgets", "4"]
    arguments += ["--store", tmp_path / "ray", "--log", tmp_path / "events.jsonl", "--draws", "1"]
    arguments += [word for name in names for word in ("--selector", name)]
    command = [sys.executable, str(ROOT / "jobs" / "loss.py"), *map(str, arguments)]
    alone = os.environ | {"RAY_ADDRESS": "local", "PYTHONPATH": str(ROOT)}
    job, again = (
        subprocess.run(command, capture_output=True, text=True, check=False, env=alone, cwd=tmp_path)
        for _ in range(2)
    )
    assert job.returncode == 0, job.stderr
    monkeypatch.chdir(tmp_path)
    plan = stage.plan(dump, tmp_path / "serial", names, model=model, budgets=(4,), draws=1)
    list(stage.run(plan))
    sys.modules.pop("job_losing")
    ray, serial = (
        open_store(tmp_path / name).losses.sort(IDENTITY["losses"]).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    assert "3 shards, 18 records -> " in job.stdout
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {(event["document"], event["arms"], event["outcome"]) for event in events} == {
        (document, 6, "done") for document in range(3)
    }
    assert again.stdout.startswith("nothing to do: all 3 shards exist")
