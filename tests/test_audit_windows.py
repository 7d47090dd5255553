"""Windowed layers are never compressed and their bytes are counted; in a process of its own."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FACTS = 1 + 3 * 5 + 2
"""Refusals; five in each arm; full answers under two backends."""


@pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")
def test_windowed_layers_keep_their_window():
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit_windows_check"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.endswith(": as it should be")] == [], done.stderr
    assert len(lines) == FACTS, done.stdout + done.stderr
    assert done.returncode == 0
