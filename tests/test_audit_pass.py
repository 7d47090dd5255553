"""The shared pass keeps what kvpress keeps, and names mean its presses; in processes of their own."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = {"audit_pass_check": 4 * 13 - 2 + 15, "audit_names_check": 5}
"""Two models under two backends with 13 presses, less H2O's under sdpa, and 15 of other kinds; 5 of names."""


@pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")
@pytest.mark.parametrize("module", CHECKS)
def test_audit_is_what_kvpress_does(module):
    done = subprocess.run(
        [sys.executable, "-m", f"tests.{module}"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.endswith(": as it should be")] == [], done.stderr
    assert len(lines) == CHECKS[module], done.stdout + done.stderr
    assert done.returncode == 0
