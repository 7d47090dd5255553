"""Certificates against brute force: an interval that holds the minimum, closed where it can be, proved."""

import importlib
from collections.abc import Iterator
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import ceiling
from ceiling.certify.certificate import WAYS, _Limits, _prove_less, stream_of
from ceiling.certify.check import check_proof
from ceiling.certify.proof import decode, encode, skeleton
from ceiling.certify.refutation import Refutation
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


@pytest.mark.parametrize("way", WAYS[:3])  # the fourth is the first, for longer
def test_every_way_to_meet_a_floor_is_a_proof(way, monkeypatch):
    certificate = importlib.import_module("ceiling.certify.certificate")
    monkeypatch.setattr(certificate, "WAYS", (way,))
    for seed in range(2000, 2030):
        agrees(*random_row(seed, most=16), FLOORS[1 + seed % 3])


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


@pytest.mark.parametrize("seed", range(12))
def test_equal_masses_whose_sums_differ_in_the_last_bit_meet_the_floor(seed):
    """Sets of one mass, summed in another order, missed a floor of 1: the bound was above the minimum."""
    rng = np.random.default_rng(seed)
    masses = np.concatenate([rng.random(3)] * 3)[rng.permutation(9)]
    row = ceiling.Row(masses / masses.sum(), rng.normal(size=(9, 2)))
    s = int(rng.integers(2, 8))
    found = ceiling.certify(row, s, mass_floor=1.0)
    assert found.lower <= minimum(row, s, 1.0)[0] * (1 + AGREE)
    assert checked(row.masses, row, s, found) is None


@pytest.mark.parametrize("light", [1e-12, 1e-11, 1e-10, 1e-9])
@pytest.mark.parametrize("seed", range(6))
def test_errors_near_their_rounding_are_left_open(seed, light):
    """One light key is dropped: the error is near its rounding, and the bound was above the true one."""
    rng = np.random.default_rng(seed)
    masses = rng.random(6)
    masses[3] = light
    row = ceiling.Row(masses / masses.sum(), rng.normal(size=(6, 4)))
    exact = oracle.exact(row.masses, row.values)
    found = ceiling.certify(row, 5)
    assert found.lower**2 <= oracle.best(exact, exact.keys, 5).squared
    assert found.proof is None or checked(row.masses, row, 5, found) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_mean_that_cancels_has_its_own_rounding(seed):
    """The heaviest key is where the dense output is, and all others are far: its error is rounding."""
    rng = np.random.default_rng(seed)
    far = rng.normal(size=5) * 1e3
    values = np.array([0.0, *far, -far.sum() + 1e-7 * rng.normal()])[:, None]
    row = ceiling.Row(np.array([1.0] + [0.3] * 6) / 2.8, values)
    exact = oracle.exact(row.masses, row.values)
    found = ceiling.certify(row, 1)
    assert found.lower**2 <= oracle.best(exact, exact.keys, 1).squared
    assert found.proof is None or checked(row.masses, row, 1, found) is None


@pytest.mark.parametrize("seed", range(6))
def test_masses_over_thirty_decades(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    masses = 10.0 ** rng.uniform(-30, 0, n)
    row, s = ceiling.Row(masses / masses.sum(), rng.normal(size=(n, 3))), int(rng.integers(1, n))
    exact = oracle.exact(row.masses, row.values)
    for floor in (None, 1e-6, 0.5):
        found = ceiling.certify(row, s, mass_floor=floor)
        assert floor or found.lower**2 <= oracle.best(exact, exact.keys, s).squared
        assert found.proof is None or checked(row.masses, row, s, found) is None


def test_a_light_key_is_no_lighter_than_its_floor():
    """A floor far below the heaviest key: what is left of it, a difference of large sums, dropped a key."""
    x = 1.37e-5
    masses = np.array([0.5, x, 0.25, 0.125, 0.125 - x])
    values = np.array([[3.0], [0.0], [-5.0], [4.0], [-7.0]])
    values[1] = masses @ values + 0.01
    row = ceiling.Row(masses, values)
    search = Refutation(row, 1, float(row.masses[1] / row.masses[0]), 1e-6, 0.5, WAYS[0][0])
    met = [error for error, _ in search.refute(None)]
    assert met
    assert min(met) == pytest.approx(minimum(row, 1, None)[0], rel=1e-6)


def hard_row(n: int = 400, d: int = 24) -> ceiling.Row:
    """Many keys of about one mass, whose best subset takes a large tree to prove."""
    rng = np.random.default_rng(3)
    masses = np.exp(rng.normal(0, 0.3, n))
    return ceiling.Row((masses / masses.sum()).astype(np.float32), rng.standard_normal((n, d)))


def test_nodes_decide_and_a_weaker_bound_is_proved():
    row = hard_row()
    first, again = (ceiling.certify(row, 6, nodes=8000, seconds=1e6, mass_floor=0.7) for _ in range(2))
    assert (first.status, first.stopped_by) == ("gap", "nodes")
    assert 0 < first.lower < first.upper
    assert first.nodes <= 8000
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


class Scripted:
    """A search whose best set has error `best`, met by the first attempt above it; all below is refuted."""

    gap, nodes = 1e-6, 0

    def __init__(self, best: float) -> None:
        self.best, self.tau, self.refuted = best, 1.0, False

    def mark(self) -> tuple:
        return None, self.tau, self.refuted

    def back(self, mark: tuple, tau: float | None = None) -> None:
        _, self.tau, self.refuted = mark
        self.tau = self.tau if tau is None else tau

    def refute(self, _: object) -> Iterator[tuple[float, np.ndarray]]:
        if self.tau > self.best:
            self.tau = self.best * (1 - self.gap / 4)
            yield self.best, np.arange(3)
        self.refuted = True


@pytest.mark.parametrize("best", [0.5, 0.85, 0.9, 0.96])
def test_an_optimum_met_and_proved_on_the_way_to_a_weaker_bound_is_kept(best):
    search: Any = Scripted(best)
    upper, kept = _prove_less(search, _Limits(1000, 60.0), 1.0, np.arange(2), 1.0, None)
    assert (upper, len(kept)) == (best, 3)
    assert search.refuted
    assert search.tau == best * (1 - search.gap / 4)


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


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_an_interrupted_search_is_found_again(floor: float):
    """Interrupted in a subtree, asked what survives, set back, aimed anew: its recipe tells all of it."""
    row = hard_row(30, 6)
    error = ceiling.improve(row, 4, mass_floor=floor or None).error

    class Few:
        quota = 0

        def reached(self, nodes: int) -> bool:
            return nodes >= self.quota

    search, few = Refutation(row, 4, floor, 1e-6, error * 1.2, WAYS[0][0], directions=True), Few()
    for quota, share in ((40, 1.1), (150, 1.0), (300, 0.999)):
        few.quota = quota
        list(search.refute(few))
        search.survivors()
        mark = search.mark()
        search.aim(error * 0.7)
        few.quota = search.nodes + 50
        list(search.refute(few))
        search.back(mark, error * share)
    list(search.refute(None))
    assert search.refuted
    assert np.array_equal(stream_of(row, 4, floor, search.recipe), search.stream)


def recipe_of(found: ceiling.Certificate, row: ceiling.Row, floor: float | None) -> bytes:
    """The recipe of a search that met its limits nowhere and no better set."""
    return Refutation(row, 4, floor or 0.0, 1e-6, found.upper * (1 - 1e-6 / 4), WAYS[0][0]).recipe


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"s": 0}, "s: 0 is not positive"),
        ({"nodes": 0}, "nodes: 0 is not positive"),
        ({"seconds": 0.0}, "seconds: 0.0"),
        ({"seconds": float("inf")}, "seconds: inf"),
        ({"seconds": "10"}, "seconds: '10'"),
        ({"gap": "1e-3"}, "gap: '1e-3'"),
        ({"gap": 0.0}, "gap: 0.0"),
        ({"gap": 1e-9}, "gap: 1e-09"),
        ({"gap": 1.0}, "gap: 1.0"),
        ({"mass_floor": 1.5}, "mass_floor: 1.5"),
        ({"mass_floor": 1e-9}, "mass_floor: 1e-09"),
        ({"s": 2000}, "s: 2000"),
    ],
)
def test_refusals(arguments, says):
    with pytest.raises(InputError, match=says):
        ceiling.certify(hard_row(20), **({"s": 4} | arguments))
