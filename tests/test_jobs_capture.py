"""The capture job: the dumps of the command line, weights loaded once, one bad model among good ones."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ceiling import models
from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import capture as stage
from jobs import capture as job
from tests.tiny_models import save

ROOT = Path(__file__).parents[1]
PANEL = ROOT / "jobs" / "panel.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, one of which is refused, a text and a panel of three dumps."""
    folder = tmp_path_factory.mktemp("capture")
    save(folder / "tiny-llama")
    save(folder / "tiny-gpt_oss", "gpt_oss", attention="eager")
    (folder / "prose.txt").write_text(
        "The cache keeps a few keys and drops the rest, whatever is asked. " * 9
    )
    (folder / "panel.toml").write_text(
        f"""
        defaults = {{ documents = 2, rows = 3, dtype = "float32" }}
        [[good]]
        model = "{folder / "tiny-llama"}"
        tokens = 48
        [[bad]]
        model = "{folder / "tiny-gpt_oss"}"
        tokens = 48
        [[good]]
        model = "{folder / "tiny-llama"}"
        tokens = 64
        """
    )
    return folder


def run_job(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "jobs" / "capture.py"), *map(str, arguments)]
    alone = os.environ | {"RAY_ADDRESS": "local"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=alone)


def test_a_panel_is_captured_and_a_refused_model_named(folder: Path, tmp_path: Path):
    out, log = tmp_path / "dumps", tmp_path / "log"
    arguments = ("--panel", folder / "panel.toml", "--text", folder / "prose.txt", "--out", out, "--log", log)
    done = run_job(*arguments)
    assert done.returncode == 1
    assert "tiny-gpt_oss-prose-48: " in done.stderr
    assert "attention sinks" in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {
        "tiny-llama-prose-48",
        "tiny-llama-prose-64",
    }
    events = {event["dump"]: event for event in map(json.loads, log.read_text().splitlines())}
    assert {name: event["outcome"] for name, event in events.items()} == {
        "tiny-llama-prose-48": "done",
        "tiny-llama-prose-64": "done",
        "tiny-gpt_oss-prose-48": "failed",
    }
    serial = open_dump(
        stage.run(
            stage.plan(
                str(folder / "tiny-llama"),
                str(folder / "prose.txt"),
                out=tmp_path / "serial",
                tokens=64,
                documents=2,
                rows=3,
                dtype="float32",
            )
        )
    )
    dump = open_dump(out / "tiny-llama-prose-64", verify=True)
    assert dump.id == serial.id == events["tiny-llama-prose-64"]["id"]
    assert dump.layers == serial.layers
    log.unlink()
    again = run_job(*arguments, "--group", "good")
    assert again.returncode == 0, again.stderr
    assert [json.loads(line)["outcome"] for line in log.read_text().splitlines()] == ["kept", "kept"]


def test_weights_are_loaded_once_for_all_dumps_of_a_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loads, load = [], models.load

    def counted(*given: Any) -> models.LoadedModel:
        loads.append(given)
        return load(*given)

    monkeypatch.setattr(models, "load", counted)
    specs = job.read_panel(folder / "panel.toml", ["good"], {"text": str(folder / "prose.txt")})
    assert [done["outcome"] for done in job._task(tmp_path, specs)] == ["done", "done"]
    assert len(loads) == 1
    assert [done["outcome"] for done in job._task(tmp_path, specs)] == ["kept", "kept"]
    assert len(loads) == 1


def test_the_panel_of_the_project_is_the_papers():
    specs = job.read_panel(PANEL, ["four", "more"], {})
    assert len({spec.model for spec in specs}) == len(specs) == 10
    assert {(spec.documents, spec.rows, spec.dtype) for spec in specs} == {(3, 6, "bfloat16")}
    assert {spec.tokens for spec in specs} == {4096, 16384}
    for group in tomllib.loads(PANEL.read_text()).keys() - {"defaults"}:
        for spec in job.read_panel(PANEL, [group], {}):
            models.resolve(spec.model)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("model = 3", "model: 3 is no str"),
        ("model = 'a/b'\ntokens = '9'", "tokens: '9' is no int"),
        ("model = 'a/b'\nqueries = 1", "queries: 1 is no bool"),
        ("model = 'a/b'\nlength = 9", "'length' is none of model, text"),
        ("tokens = 9", "no model"),
        ("model = ", "cannot read"),
        ("model = 'a/b'\nlayers = [1.5]", r"layers: \[1.5\] are no whole numbers"),
        ("[four]\nmodel = 'a/b'", r"four is no list of dumps; write \[\[four\]\]"),
        ("[[defaults]]\ntokens = 9", r"defaults is no table; write \[defaults\]"),
    ],
)
def test_a_bad_panel_is_refused(entry: str, why: str, tmp_path: Path):
    (tmp_path / "panel.toml").write_text(f"[[group]]\n{entry}\n")
    with pytest.raises(InputError, match=why):
        job.read_panel(tmp_path / "panel.toml", None, {})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--model", "smollm2-135", "--out", "x"], "no built-in"),
        (["--model", "a/b", "--model", "a/b", "--out", "x"], "b-python-docs-1024 would be written twice"),
        (["--model", "a/b", "--group", "four", "--out", "x"], "--panel"),
        (["--panel", str(PANEL), "--group", "five", "--out", "x"], "'five' is none of four, more"),
        (["--model", "a/b", "--text", "nowhere.txt", "--out", "x"], "nowhere.txt"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]):
    assert job.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("capture: ")
    assert why in said


def test_a_relative_path_in_a_submitted_job_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert job.main(["--model", "a/b", "--out", "dumps"]) == 2
    assert "out: dumps is relative" in capsys.readouterr().err
