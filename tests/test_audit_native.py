"""Presses that kvpress runs by itself are those of the shared pass, and its traps catch nobody here."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = {
    "kept sets and answers equal": 2 * 11,  # the roster without AdaKV enforced, in two arms
    "draws are its own": 3,
    "the anchor's answer": 2 * 12 + 11,  # the roster at two budgets, and natively
    "moves the logits": 9,
    "bytes as counted": 24,  # the roster, and twelve others
}
"""How many lines of each kind there are."""

SINGLE = 12
"""Lines of no kind: what leaks, positions, unequal layers, float16."""


@pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")
def test_native_is_shared_and_its_traps_are_closed():
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit_check"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("WRONG")] == [], done.stderr
    assert {kind: sum(line.endswith(kind) for line in lines) for kind in CHECKS} == CHECKS, done.stderr
    assert len(lines) == sum(CHECKS.values()) + SINGLE
    assert done.returncode == 0, done.stderr
