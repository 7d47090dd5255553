"""Certificates against brute force: an interval that holds the minimum, closed where it can be, proved."""

from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import ceiling
from ceiling.certify.certificate import stream_of
from ceiling.certify.check import check_proof
from ceiling.certify.proof import decode, encode, skeleton
from ceiling.problem import InputError
from tests import oracle
from tests.strategies import AGREE, NOISE, Problem, close, grid_problems, wild_problems

CASES = Path(__file__).parent / "cases" / "rows"

FLOORS = (None, 0.5, 0.9, 1.0)

MOST = 120_000
"""Subsets tried by brute force in one test."""


def random_row(seed: int, most: int = 40) -> tuple[np.ndarray, np.ndarray, int]:
    """Masses from flat to peaked, values generic or with ties, a budget that brute force can exhaust."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, most + 1)), int(rng.integers(1, 9))
    masses = rng.dirichlet(np.full(n, rng.choice([0.1, 1, 10]))) + 1e-9
    values = rng.standard_normal((n, d)) * rng.choice([1e-3, 1, 1e3])
    if rng.random() < 0.25:
        values = np.round(values * 2) / 2
    s = int(rng.choice([s for s in range(1, min(n, 9)) if comb(n, s) <= MOST]))
    return (masses / masses.sum()).astype(np.float32).astype(float), values, s


def minimum(row: ceiling.Row, s: int, floor: float | None) -> tuple[float, float]:
    """The least error of all sets that meet the floor, by trying all; and sigma."""
    p = row.masses
    centred = row.values - p @ row.values
    residuals = p[:, None] * centred
    sets = np.array(list(combinations(np.flatnonzero(p), s)))
    mass = p[sets].sum(axis=1)
    parts = np.array_split(sets, 8 + len(sets) // 4096)
    error = np.concatenate([np.linalg.norm(residuals[some].sum(axis=1), axis=1) for some in parts])
    meets = mass >= (floor or 0.0) * np.sort(p)[-s:].sum() * (1 - 1e-12)
    return float((error[meets] / mass[meets]).min()), float(np.sqrt(p @ (centred**2).sum(axis=1)))


def agrees(masses: np.ndarray, values: np.ndarray, s: int, floor: float | None) -> None:
    """A certificate holds the minimum, is closed and proved; zeros cannot be told from their rounding."""
    row = ceiling.Row(masses, values)
    found = ceiling.certify(row, s, mass_floor=floor)
    least, sigma = minimum(row, s, floor)
    assert found.lower <= least * (1 + AGREE) + NOISE * sigma
    assert abs(found.upper - least) <= 1e-6 * least + 10 * NOISE * sigma
    if found.status == "optimal":
        assert found.upper <= found.lower * (1 + 1e-6)
        assert checked(masses, row, s, found) is None
    else:
        assert (found.lower, found.stopped_by, found.proof) == (0.0, "none", None)
        assert least <= 1e-4 * sigma  # errors too small beside their rounding are left open


def checked(masses: np.ndarray, row: ceiling.Row, s: int, found: ceiling.Certificate) -> str | None:
    """What the check says of a certificate."""
    assert found.proof is not None
    return check_proof(
        masses, row.values, s, found.lower, found.upper, found.kept, found.mass_floor, found.proof
    )


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("floor", FLOORS)
def test_random_rows_against_brute_force(block, floor):
    for seed in range(100 * block, 100 * block + 13):
        agrees(*random_row(seed + 1000 * FLOORS.index(floor)), floor)


@pytest.mark.parametrize("file", sorted(CASES.glob("*.npz")), ids=lambda file: file.stem)
def test_parts_of_captured_rows_against_brute_force(file):
    with np.load(file) as case:
        masses, values = case["masses"].astype(float), case["values"]
    rng = np.random.default_rng(0)
    for s, n in ((2, 60), (4, 30), (6, 20)):
        some = np.sort(rng.choice(np.flatnonzero(masses), n, replace=False))
        part = (masses[some] / masses[some].sum()).astype(np.float32).astype(float)
        agrees(part, values[some], s, FLOORS[s % 3])


@given(wild_problems())
def test_wild_rows_against_the_oracle(problem: Problem):
    row, exact = problem.row, problem.exact
    found = ceiling.certify(row, problem.s)
    best = oracle.best(exact, exact.keys, problem.s).squared
    assert close(found.upper, best, exact)
    assert found.lower**2 <= best


@given(grid_problems())
def test_rows_with_ties_and_zeros_against_the_oracle(problem: Problem):
    row, exact = problem.row, problem.exact
    found = ceiling.certify(row, problem.s)
    best = oracle.best(exact, exact.keys, problem.s).squared
    assert close(found.upper, best, exact)
    assert found.lower**2 <= best
    if problem.s == len(exact.keys):
        assert (found.status, found.lower, found.upper) == ("trivial", 0.0, 0.0)
    else:
        assert found.status == ("optimal" if best else "gap")


def hard_row(n: int = 400, d: int = 24) -> ceiling.Row:
    """Many keys of about one mass, whose best subset takes a large tree to prove."""
    rng = np.random.default_rng(3)
    masses = np.exp(rng.normal(0, 0.3, n))
    return ceiling.Row((masses / masses.sum()).astype(np.float32), rng.standard_normal((n, d)))


def test_nodes_decide_and_a_weaker_bound_is_proved():
    row = hard_row()
    first, again = (ceiling.certify(row, 6, nodes=200, seconds=1e6, mass_floor=0.9) for _ in range(2))
    assert (first.status, first.stopped_by) == ("gap", "nodes")
    assert 0 < first.lower < first.upper
    assert first.nodes <= 200
    assert (first.lower, first.upper, first.proof) == (again.lower, again.upper, again.proof)
    assert checked(row.masses, row, 6, first) is None


def test_the_clock_guards():
    found = ceiling.certify(hard_row(), 8, nodes=10**9, seconds=0.5)
    assert (found.status, found.stopped_by) == ("gap", "seconds")
    assert found.lower < found.upper


def test_a_larger_gap_ends_sooner():
    row = hard_row(60, 8)
    exact, rough = (ceiling.certify(row, 4, gap=gap) for gap in (1e-6, 0.1))
    assert exact.status == rough.status == "optimal"
    assert rough.nodes <= exact.nodes
    assert rough.lower < exact.lower <= exact.upper <= rough.lower * 1.1


@pytest.mark.parametrize("floor", [None, 0.5])
def test_a_skeleton_is_filled_in_again(floor):
    """Proofs too long to store are told by how the search branched; its directions are found again."""
    row = hard_row(60, 8)
    found = ceiling.certify(row, 4, mass_floor=floor)
    proof = decode(found.proof)
    assert proof.complete
    whole = proof.stream
    bare = skeleton(whole, row.values.shape[1])
    recipe = recipe_of(found, row, floor)
    assert np.array_equal(stream_of(row, 4, floor or 0.0, recipe), whole)
    short = encode(bare, 4, 8, 60, found.lower, floor or 0.0, found.kept, found.upper, recipe, complete=False)
    bounds = (found.lower, found.upper, found.kept, floor)
    assert check_proof(row.masses, row.values, 4, *bounds, short) is None
    swapped = bare.copy()
    branches = np.flatnonzero(swapped == 3)
    swapped[branches[0] + 1] ^= 1
    other = encode(
        swapped, 4, 8, 60, found.lower, floor or 0.0, found.kept, found.upper, recipe, complete=False
    )
    assert "skeleton" in check_proof(row.masses, row.values, 4, *bounds, other)


def recipe_of(found: ceiling.Certificate, row: ceiling.Row, floor: float | None) -> bytes:
    """The recipe of a search that met its limits nowhere and no better set."""
    from ceiling.certify.refutation import Refutation

    return Refutation(row, 4, floor or 0.0, 1e-6, found.upper * (1 - 1e-6 / 4)).recipe


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"s": 0}, "s: 0 is not positive"),
        ({"nodes": 0}, "nodes: 0 is not positive"),
        ({"seconds": 0.0}, "seconds: 0.0"),
        ({"seconds": float("inf")}, "seconds: inf"),
        ({"gap": 0.0}, "gap: 0.0"),
        ({"gap": 1.0}, "gap: 1.0"),
        ({"mass_floor": 1.5}, "mass_floor: 1.5"),
    ],
)
def test_refusals(arguments, says):
    with pytest.raises(InputError, match=says):
        ceiling.certify(hard_row(20), **({"s": 4} | arguments))
