"""Held caches answer as kvpress's own do, and hold what is counted; in a process of its own."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PRESSES = 12
"""Nine, the anchor, AdaKV enforced, and SnapKV at a second window."""


@pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")
def test_answers_and_bytes_are_those_of_kvpress():
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit_tokens_check"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("WRONG")] == []
    assert sum(line.endswith("answers equal") for line in lines) == 2 * PRESSES, done.stderr
    assert sum("measured" in line for line in lines) == PRESSES, done.stderr
    assert done.returncode == 0
