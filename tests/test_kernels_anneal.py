"""Threshold accepting: its sets and errors are what it says, and mostly the best."""

from itertools import combinations

import numpy as np
import pytest

from ceiling.certify import certificate, certify
from ceiling.certify.check import check_proof
from ceiling.certify.improve import cool
from ceiling.kernels.anneal import anneal
from ceiling.kernels.vectors import padded
from ceiling.objective import forced_error
from ceiling.problem import Row


def diffuse(n: int, d: int, seed: int) -> Row:
    """A row whose best sets may lie at any scale of mass."""
    rng = np.random.default_rng(seed)
    masses = np.exp(rng.normal(0, 2, n))
    return Row(masses / masses.sum(), rng.standard_normal((n, d)))


def test_most_small_rows_are_searched_out():
    found = 0
    for seed in range(20):
        row, s = diffuse(12, 2, seed), 4
        least = min(forced_error(row, np.array(kept)) for kept in combinations(range(12), s))
        start = np.arange(s)
        error, kept = cool(row, s, forced_error(row, start), start, np.arange(12), 0, np.inf)
        assert forced_error(row, kept) == pytest.approx(error, rel=1e-12)
        assert error >= least * (1 - 1e-12)
        assert (np.diff(kept) > 0).all()
        found += error <= least * (1 + 1e-12)
    assert found >= 17


def test_a_walk_repeats_and_never_loses_its_start():
    row = diffuse(200, 8, 1)
    mean = row.masses @ row.values
    residuals = padded(row.masses[:, None] * (row.values - mean))
    start = np.arange(100, 116)
    before = forced_error(row, start)
    error, kept = anneal(residuals, row.masses.copy(), start, 3, 40_000)
    again, same = anneal(residuals, row.masses.copy(), start, 3, 40_000)
    assert error == again < before
    assert (kept == same).all()
    assert anneal(residuals, row.masses.copy(), start, 3, 0)[0] == pytest.approx(before, rel=1e-12)
    assert row.masses[kept].max() <= row.masses[start].max()  # no heavier key is tried


def test_a_guard_that_has_passed_leaves_the_set():
    row, start = diffuse(60, 4, 2), np.arange(16)
    error, kept = cool(row, 16, forced_error(row, start), start, np.arange(60), 0, 0.0)
    assert (error, kept.tolist()) == (forced_error(row, start), start.tolist())


@pytest.mark.parametrize("nodes", [60, 150, 400, 1000, 20_000])
def test_certificates_that_need_all_of_it_are_true(nodes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certificate, "LARGE", 4)
    monkeypatch.setattr(certificate, "LOOK", -20)
    for seed in range(4):
        row, s = diffuse(24, 6, seed), 4
        least = min(forced_error(row, np.array(kept)) for kept in combinations(range(24), s))
        proved = certify(row, s, nodes=nodes)
        assert proved.lower <= least <= proved.upper * (1 + 1e-12)
        assert proved.nodes <= nodes
        assert proved.status == "optimal" or nodes < 20_000
        if proved.proof:
            found = proved.lower, proved.upper, proved.kept
            assert check_proof(row.masses, row.values, s, *found, None, proved.proof) is None
