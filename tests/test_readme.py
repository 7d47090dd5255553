"""The README is true: its commands exist with their options, its Python runs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from ceiling.cli import main
from tests.tiny_models import build, tokens

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("ceiling ")
]


def test_the_first_screen_says_what_and_how():
    head = "\n".join(README.splitlines()[:25])
    for words in ("make demo", "make test", "pip install", "ceiling capture"):
        assert words in head
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_their_options_exist(command: str, capsys: pytest.CaptureFixture[str]):
    verb, *words = shlex.split(command)[1:]
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    for option in (word for word in words if word.startswith("--")):
        assert option in shown, f"{verb} has no {option}"


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    rng = np.random.default_rng(0)
    names = {
        "masses": rng.dirichlet(np.ones(30)),
        "values": rng.standard_normal((30, 4)),
        "model": build("llama", max_position_embeddings=1024),
        "input_ids": tokens(1024),
    }
    (tmp_path / "store").mkdir()
    monkeypatch.chdir(tmp_path)
    with torch.inference_mode():
        exec(compile(code, "README.md", "exec"), names)
    recording, best = names["recording"], names["best"]
    assert recording.layers[0].masses.shape == (4, 2, 1024)
    assert best.status == "exact"


def test_named_files_exist():
    for name in re.findall(r"`([\w./-]+/|[A-Za-z.]+\.(?:md|cff|lock))`", README):
        assert (ROOT / name).exists() or name == "figures-out/", name
