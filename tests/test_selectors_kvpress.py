"""Our rules keep what kvpress keeps, where it has the method; in a process of its own (`kvpress_check`)."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

METHODS = ["SnapKV", "SnapKV, window 8, kernel 7", "StreamingLLM", "TOVA", "ObservedAttention", "PyramidKV"]


@pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")
def test_rules_keep_what_kvpress_keeps():
    done = subprocess.run(
        [sys.executable, "-m", "tests.kvpress_check"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [f"{method}: equal" for method in METHODS], done.stdout + done.stderr
    assert done.returncode == 0
