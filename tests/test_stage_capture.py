"""The capture stage and its command: planned, run, stopped, resumed, refused."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from ceiling import models
from ceiling.capture import CaptureError, capture
from ceiling.cli import capture as command
from ceiling.dump import open_dump
from ceiling.models.cache import CACHE_VARIABLE
from ceiling.problem import InputError
from ceiling.stages import capture as stage
from tests.tiny_models import save

OPTIONS: dict[str, Any] = {"tokens": 48, "documents": 3, "rows": 4, "device": "cpu"}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> str:
    return str(save(tmp_path_factory.mktemp("models") / "tiny-llama"))


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("texts") / "prose.txt"
    file.write_text("The cache keeps a few keys and drops the rest, whatever the question will be. " * 4)
    return str(file)


@pytest.fixture(scope="module")
def whole(llama, text, tmp_path_factory) -> Path:
    """A dump captured in one go."""
    return stage.run(stage.plan(llama, text, out=tmp_path_factory.mktemp("dumps") / "whole", **OPTIONS))


def test_a_dump_holds_what_the_model_computes(llama, text, whole):
    dump = open_dump(whole, verify=True)
    assert (dump.n_documents, dump.layers, dump.heads, dump.kv_heads, dump.head_dim) == (
        3,
        (0, 1, 2),
        4,
        2,
        8,
    )
    loaded = models.load(models.resolve(llama), "cpu", "float32")
    stream = models.encoder(loaded.tokenizer)(Path(text).read_text())
    for index in range(3):
        document = dump.document(index)
        assert document.tokens.tolist() == stream[48 * index : 48 * (index + 1)]
        positions = document.query_positions
        assert len(set(positions.tolist())) == 4
        assert positions.min() >= 12
        ids = torch.tensor(document.tokens)[None]
        with torch.inference_mode(), capture(loaded.model, positions) as recording:
            loaded.model(ids)
        for layer in dump.layers:
            for name in ("masses", "keys", "values"):
                expected = getattr(recording.layers[layer], name).numpy()
                np.testing.assert_array_equal(getattr(document, name)(layer), expected)
            for head in range(4):
                assert document.row(layer, head, 0).n_keys == positions[0] + 1


def test_the_manifest_says_where_it_came_from(llama, whole):
    manifest = open_dump(whole).manifest
    assert re.fullmatch("tiny-llama@[0-9a-f]{6}", manifest["model"]["id"])
    assert manifest["text"]["source"] == "prose.txt"
    assert manifest["architecture"] == {
        "type": "llama",
        "layers": 3,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 8,
        "windows": [None] * 3,
        "soft_cap": None,
        "qk_norm": False,
        "scaling": [8**-0.5] * 3,
    }
    assert [layer["layer"] for layer in manifest["fidelity"]] == [0, 1, 2]
    assert all(0 <= layer["mean"] <= layer["max"] < 1e-5 for layer in manifest["fidelity"])
    assert manifest["command"].startswith(f"ceiling capture --model {llama} --text ")
    assert "--tokens 48 --documents 3 --rows 4" in manifest["command"]
    assert "--seed 0" in manifest["command"]
    assert manifest["software"]["torch"] == torch.__version__


def test_the_same_weights_under_another_configuration_are_another_dump(llama, text, whole, tmp_path):
    """Two rotary bases once had one dump id, and the second's results were taken for done."""
    shutil.copytree(llama, tmp_path / "tiny-llama")
    config = json.loads((tmp_path / "tiny-llama" / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 500.0
    (tmp_path / "tiny-llama" / "config.json").write_text(json.dumps(config))
    other = open_dump(
        stage.run(stage.plan(str(tmp_path / "tiny-llama"), text, out=tmp_path / "d", **OPTIONS))
    )
    first = open_dump(whole)
    assert other.manifest["model"]["weights_sha256"] == first.manifest["model"]["weights_sha256"]
    assert other.id != first.id
    assert other.model != first.model


def test_the_example_manifest_is_one(whole):
    example = json.loads((Path(__file__).parents[1] / "dumps" / "manifest.example.json").read_text())
    manifest = open_dump(whole).manifest
    assert example.keys() == manifest.keys()
    for section in ("model", "architecture", "text", "tokens"):
        assert example[section].keys() == manifest[section].keys()


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_other_architectures_dtypes_layers_and_queries(kind, text, tmp_path):
    folder = save(tmp_path / kind, kind)
    plan = stage.plan(
        str(folder),
        text,
        out=tmp_path / "new" / "dump",
        layers=[2, 0],
        queries=True,
        dtype="bfloat16",
        **OPTIONS | {"documents": 1},
    )
    dump = open_dump(stage.run(plan), verify=True)
    assert dump.layers == (0, 2)
    assert dump.manifest["architecture"]["qk_norm"]
    assert dump.windows == ((16, None, 16) if kind == "gemma3_text" else (None,) * 3)
    document = dump.document(0)
    assert document.queries(2).shape == (4, 48, 8)
    with pytest.raises(InputError, match=r"no values.1; captured layers: 0, 2"):
        document.values(1)
    size = sum(file.stat().st_size for file in dump.path.glob("*.safetensors"))
    assert 0 < size - plan.bytes < 2000  # the estimate leaves out tokens and header only


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


def same(a: Path, b: Path) -> None:
    assert files(a) == files(b)
    manifests = [open_dump(path).manifest for path in (a, b)]
    for manifest in manifests:
        manifest["command"] = manifest["command"].replace(str(a), "OUT").replace(str(b), "OUT")
        del manifest["created"]
    assert manifests[0] == manifests[1]


def test_an_interrupted_run_resumes_where_it_stopped(llama, text, whole, tmp_path):
    plan = stage.plan(llama, text, out=tmp_path / "dump", **OPTIONS)
    ran = []

    def interrupt() -> None:
        ran.append(1)
        if len(ran) == 5:  # in the second document
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.run(plan, interrupt)
    (partial,) = tmp_path.iterdir()
    with pytest.raises(InputError, match="unfinished"):
        open_dump(partial)
    finished = (partial / "doc-00000.safetensors").stat().st_mtime_ns
    ran.clear()
    stage.run(stage.plan(llama, text, out=tmp_path / "dump", **OPTIONS), lambda: ran.append(1))
    assert len(ran) == plan.units == 9
    assert (plan.out / "doc-00000.safetensors").stat().st_mtime_ns == finished
    same(whole, plan.out)
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_a_killed_run_resumes_to_the_same_dump(llama, text, whole, tmp_path):
    code = (
        "import os, sys; from ceiling.stages import capture as stage\n"
        "options = dict(tokens=48, documents=3, rows=4, device='cpu')\n"
        "plan = stage.plan(sys.argv[1], sys.argv[2], out=sys.argv[3], **options)\n"
        "left = iter(range(7, -1, -1))\n"
        "stage.run(plan, lambda: next(left) or os._exit(9))"
    )
    out = tmp_path / "dump"
    killed = subprocess.run([sys.executable, "-c", code, llama, text, str(out)], check=False)
    assert killed.returncode == 9
    assert not out.exists()
    stage.run(stage.plan(llama, text, out=out, **OPTIONS))
    same(whole, out)


def test_running_again_does_nothing(llama, text, whole):
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir()}
    plan = stage.plan(llama, text, out=whole, **OPTIONS)
    assert plan.complete
    assert stage.run(plan) == whole
    assert {path: path.stat().st_mtime_ns for path in whole.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "smollm"}, "model: 'smollm' is no built-in"),
        ({"text": "python"}, "text: 'python' is no built-in"),
        ({"tokens": 257}, "tokens: 257 is beyond the model's 256 positions"),
        ({"tokens": 256}, "documents of 256 need 768"),
        ({"tokens": 0}, "tokens: 0"),
        ({"documents": 0}, "documents: 0 is not positive"),
        ({"rows": 0}, "rows: 0"),
        ({"rows": 37}, "rows: 37 do not fit"),
        ({"layers": [3]}, "has 0..2"),
        ({"layers": []}, "has 0..2"),
        ({"seed": -1}, "seed: -1"),
        ({"device": "cuda:77"}, "device: 'cuda:77' is not here"),
        ({"dtype": "float8"}, "dtype: 'float8' is unknown"),
        ({"out": "/dev/null/dump"}, "out: /dev/null is no folder"),
    ],
)
def test_bad_input_is_named_before_any_weight_is_loaded(llama, text, tmp_path, monkeypatch, changes, words):
    monkeypatch.setattr(models, "load", lambda *_: pytest.fail("weights were loaded"))
    options = {"model": llama, "text": text, "out": tmp_path / "dump", **OPTIONS, **changes}
    with pytest.raises(InputError, match=words):
        stage.plan(**options)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_model_is_named_before_any_weight_is_loaded(text, tmp_path, monkeypatch):
    folder = save(tmp_path / "gpt_oss", "gpt_oss", attention="eager")
    monkeypatch.setattr(models, "load", lambda *_: pytest.fail("weights were loaded"))
    with pytest.raises(InputError, match="gpt_oss is refused, attention sinks"):
        stage.plan(str(folder), text, out=tmp_path / "dump", **OPTIONS)


def test_what_lies_at_the_target_is_kept(llama, text, whole, tmp_path):
    with pytest.raises(InputError, match="holds another dump"):
        stage.plan(llama, text, out=whole, **OPTIONS | {"seed": 1})
    (tmp_path / "notes").mkdir()
    with pytest.raises(InputError, match="exists and is no complete dump"):
        stage.plan(llama, text, out=tmp_path / "notes", **OPTIONS)


def test_a_full_disk_is_one_line(llama, text, tmp_path, monkeypatch):
    class Full:
        free = 1000

    monkeypatch.setattr(stage.shutil, "disk_usage", lambda path: Full)
    with pytest.raises(InputError, match=r"its disk has 0\.0 MB free"):
        stage.plan(llama, text, out=tmp_path / "dump", **OPTIONS)


def test_a_wrong_row_stops_the_stage_and_leaves_no_dump(llama, text, tmp_path, monkeypatch):
    from ceiling.capture import recording

    plan = stage.plan(llama, text, out=tmp_path / "dump", **OPTIONS)
    monkeypatch.setitem(recording.FIDELITY_TOLERANCE, torch.float32, 1e-12)
    with pytest.raises(CaptureError, match=r"layer 0, head \d, position \d+"):
        stage.run(plan)
    assert not plan.out.exists()


@pytest.fixture
def run(llama, text, tmp_path):
    app = typer.Typer()
    app.command()(command.capture)

    def invoke(*arguments: str):
        options = (
            f"--tokens 48 --documents 1 --rows 4 --device cpu --layers 0,1 --out {tmp_path}/dump".split()
        )
        return CliRunner().invoke(app, ["--model", llama, "--text", text, *options, *arguments])

    return invoke


def test_the_command(run, tmp_path):
    planned = run("--dry-run")
    assert planned.exit_code == 0
    for line in ("float32 on cpu", "1 documents of 48 tokens", "2 layers of documents to do"):
        assert line in planned.output
    assert list(tmp_path.iterdir()) == []
    assert "largest deviation from the model's own output" in run().output
    dump = open_dump(tmp_path / "dump", verify=True)
    again = run()
    assert again.output == f"nothing to do: {tmp_path}/dump is this dump already ({dump.id})\n"
    assert isinstance(run("--layers", "0,x").exception, InputError)
    assert isinstance(run("--seed", "1").exception, InputError)


def test_the_models_command():
    from ceiling.cli import models as listing

    app = typer.Typer()
    app.command()(listing.models)
    output = CliRunner().invoke(app, []).output
    assert "smollm2-135m" in output
    assert "Apache-2.0" in output
