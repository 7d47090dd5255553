"""The checker of certificates: accepts what a plain solver proves, and no claim that brute force denies."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ceiling.certify.check import check_proof
from ceiling.certify.proof import OVERHEAD, decode, encode, skeleton
from tests import oracle
from tests.prover import BRANCH, FIX, LAST, NONE, SHUT, Prover

BELOW = 1 - 1e-7
"""A claim this far below the best error is one that the prover, and 16 bits a direction, can show."""

RESOLVED = 1e-12
"""Margins that all who compute in float64 see (`Case.margin`); the checker alone sees a hundredth of it."""

FLOORS = [0.0, 0.0, 0.5, 0.9, 1.0]

REAL = (
    [0.06118, 1.025e-05, 0.0003394, 2.557e-05, 2.778e-06, 1.733e-06, 1.213e-05, 0.01301, 4.411e-07,
     3.086e-08, 3.405e-05, 0.02244, 7.834e-05, 0.9029],
    [[-0.0033, -0.0401, 0.1885, 0.0641], [-0.2543, -0.2188, 0.2502, 0.3097],
     [0.2072, -0.024, -0.1311, -0.0549], [-0.0739, 0.1462, 0.1171, 0.1764],
     [0.3047, -0.3439, 0.6647, 0.0925], [-0.1603, -0.7505, 0.9699, -0.0969],
     [0.353, -1.067, 0.7161, -0.5198], [0.0122, -0.0282, 0.1859, 0.0433],
     [0.1811, -0.2948, 0.2218, -0.0844], [-0.1652, -0.0902, 0.1349, 0.4],
     [0.3547, 0.1329, -0.4687, 0.0833], [0.0107, -0.0305, 0.1837, 0.0609],
     [-0.0236, 0.0351, -0.2567, -0.1634], [0.2133, -0.7243, 0.3832, 0.3238]],
)  # fmt: skip
"""Fourteen keys of a row of SmolLM2-135M, four components of each value, a few digits."""


@dataclass(frozen=True, eq=False)
class Case:
    """A row, a budget and a floor, and by brute force the best set."""

    masses: np.ndarray
    values: np.ndarray
    s: int
    rho: float
    best: np.ndarray
    error: float
    sets: list[tuple[float, float]]  # all admissible ones: error, and sum of |z_j| over mass

    def margin(self, lower: float) -> float:
        """By how much the claim is true: of all sets the least, relative to what is summed up."""
        return min((error - lower) / length if length else 0.0 for error, length in self.sets)

    def prove(self, lower: float, **how) -> np.ndarray:
        """Events; of a false claim, too."""
        return Prover(self.masses, self.values, self.s, lower, self.rho, **how).stream()

    def store(self, stream: np.ndarray, lower: float, upper: float | None = None, **how) -> bytes:
        n, d = int(np.count_nonzero(self.masses)), self.values.shape[1]
        upper = self.error if upper is None else upper
        stored = encode(stream, self.s, d, n, lower, self.rho, self.best, upper, **how)
        assert stored is not None
        return stored

    def check(self, proof: bytes, lower: float, upper: float | None = None, kept=None, **how) -> str | None:
        upper = self.error if upper is None else upper
        kept = self.best if kept is None else kept
        return check_proof(
            self.masses, self.values, self.s, lower, upper, kept, self.rho or None, proof, **how
        )

    def says(self, stream: np.ndarray, lower: float) -> str | None:
        """What the checker says of events in a proof that is sealed as it should be."""
        upper = max(lower, self.error)  # a claim above it is to fail by its events, not by its interval
        wrong = self.check(self.store(stream, lower, upper), lower, upper)
        if wrong is not None and wrong.startswith("the kept set has error"):
            return self.replayed(stream, lower)
        return wrong

    def replayed(self, stream: np.ndarray, lower: float) -> str | None:
        """The verdict on events alone."""
        from ceiling.certify import check

        inside = self.masses > 0
        keys = check._exact(self.masses[inside], self.values[inside])
        claim = check._claim(keys, self.masses[inside], self.s, lower, self.rho)
        verdict, _, _ = check.replay.replay(stream, claim)
        return check.WORDS[verdict] if verdict else None


def case(masses, values, s: int, rho: float = 0.0) -> Case:
    masses, values = np.array(masses, dtype=float), np.array(values, dtype=float)
    row = oracle.exact(masses, values)
    least = Fraction(rho) * oracle.mass(row, oracle.top_mass(row, s))
    sets = [kept for kept in combinations(row.keys, s) if oracle.mass(row, kept) >= least]
    squared, best = min((oracle.forced(row, kept), kept) for kept in sets)
    norms = {j: row.masses[j] * root(oracle.dot(row.centred[j], row.centred[j])) for j in row.keys}
    found = [
        (float(root(oracle.forced(row, kept))), float(sum(norms[j] for j in kept) / oracle.mass(row, kept)))
        for kept in sets
    ]
    return Case(masses, values, s, rho, np.array(best), float(root(squared)), found)


def root(square: Fraction) -> Fraction:
    """Its square root, to a thousand bits after the point."""
    return Fraction(math.isqrt(int(square * 2**2000)), 2**1000)


@st.composite
def cases(draw: st.DrawFn, most: int = 8, dimensions: int = 4) -> Case:
    """Masses over many decades or on a grid, with ties and zeros; values generic or small whole numbers."""
    n, d = draw(st.integers(3, most)), draw(st.integers(1, dimensions))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    masses = 10.0 ** rng.uniform(-draw(st.sampled_from([1, 4, 30])), 0, n)
    values = rng.standard_normal((n, d)) * 10.0 ** draw(st.sampled_from([-20, 0, 0, 20]))
    if draw(st.booleans()):
        masses, values = rng.integers(0, 5, n).astype(float), rng.integers(-2, 3, (n, d)).astype(float)
        masses[rng.choice(n, 2, replace=False)] = 3
    masses = (masses / masses.sum()).astype(np.float32).astype(float)
    s = draw(st.integers(1, int(np.count_nonzero(masses)) - 1))
    return case(masses, values, s, draw(st.sampled_from(FLOORS)))


def events(stream: np.ndarray, d: int) -> list[np.ndarray]:
    """A stream, event by event."""
    lengths, found, i = {FIX: d + 3, SHUT: d + 3, BRANCH: 3, LAST: 1, NONE: 1}, [], 0
    while i < len(stream):
        found.append(stream[i : i + lengths[stream[i]]])
        i += lengths[stream[i]]
    return found


@given(cases(), st.integers(0, 9), st.integers(0, 8), st.booleans(), st.sampled_from([BELOW, 0.7, 0.1]))
def test_what_the_prover_proves_is_accepted(found, seed, rounds, useless, share):
    lower = found.error * share
    assume(found.margin(lower) > RESOLVED)
    stream = found.prove(lower, seed=seed, rounds=rounds, useless=useless)
    assert found.check(found.store(stream, lower), lower) is None


@given(cases(), st.integers(0, 9), st.integers(0, 8), st.sampled_from([1 + 1e-9, 1.001, 1.3]))
def test_a_bound_above_the_best_error_is_never_accepted(found, seed, rounds, share):
    lower = max(found.error * share, 1e-300)
    assert found.replayed(found.prove(lower, seed=seed, rounds=rounds), lower) is not None


@given(cases(dimensions=1), st.integers(0, 3))
def test_on_a_line_the_last_digit_decides(found, rounds):
    """There directions are exact, so that the checker's own rounding is all that is left."""
    above = math.nextafter(math.nextafter(found.error, math.inf), math.inf)
    assert found.replayed(found.prove(above, rounds=rounds), above) is not None
    below = found.error * (1 - 1e-13)
    assume(found.margin(below) > 1e-15)
    assert found.replayed(found.prove(below, rounds=0), below) is None


@given(cases(), st.data())
def test_no_change_of_the_events_makes_a_false_bound_accepted(found, data):
    lower = max(found.error * 1.0001, 1e-300)
    pieces = events(found.prove(lower, rounds=3), found.values.shape[1])
    other = events(found.prove(lower, rounds=5, useless=True, seed=1), found.values.shape[1])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(pieces)))
        match data.draw(st.sampled_from(["drop", "double", "insert", "word"])):
            case "drop":
                del pieces[at : at + 1]
            case "double":
                pieces[at:at] = pieces[at : at + 1]
            case "insert":
                pieces.insert(at, data.draw(st.sampled_from(other)))
            case "word" if at < len(pieces):
                word = data.draw(st.integers(0, len(pieces[at]) - 1))
                pieces[at] = pieces[at].copy()
                pieces[at][word] = data.draw(st.integers(-32768, 32767))
    stream = np.concatenate([np.zeros(0, np.int16), *pieces]).astype(np.int16)
    assert found.replayed(stream, lower) is not None


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("s", [1, 2, 4, 7])
def test_a_row_of_a_model(s, rho):
    found = case(*REAL, s, rho)
    for seed in range(3):
        lower = found.error * BELOW
        stream = found.prove(lower, seed=seed, useless=seed == 1)
        assert found.check(found.store(stream, lower), lower) is None
        above = found.error * (1 + 1e-9)
        assert found.replayed(found.prove(above, seed=seed), above) is not None


@pytest.fixture(scope="module")
def honest() -> Case:
    rng = np.random.default_rng(5)
    masses = rng.dirichlet(np.full(12, 0.7)).astype(np.float32).astype(float)
    return case(masses, rng.standard_normal((12, 3)), 5, 0.5)


@pytest.fixture(scope="module")
def pieces(honest: Case) -> list[np.ndarray]:
    """Its events, of every kind."""
    found = events(honest.prove(honest.error * BELOW, rounds=4), 3)
    assert {event[0] for event in found} == {FIX, SHUT, BRANCH, LAST, NONE}
    return found


def swap(pieces: list[np.ndarray], a: int, b: int) -> list[np.ndarray]:
    pieces = list(pieces)
    pieces[a], pieces[b] = pieces[b], pieces[a]
    return pieces


def first(pieces: list[np.ndarray], code: int) -> int:
    return next(i for i, event in enumerate(pieces) if event[0] == code)


def turned(event: np.ndarray, word: int, by: int) -> np.ndarray:
    event = event.copy()
    event[word] = by
    return event


CHANGES = {
    "a direction": lambda e, i: [*e[: i[SHUT]], e[i[SHUT]] * [1, -1, -1, -1, 1, 1], *e[i[SHUT] + 1 :]],
    "a key": lambda e, i: [*e[: i[BRANCH]], turned(e[i[BRANCH]], 1, 12), *e[i[BRANCH] + 1 :]],
    "a far key": lambda e, i: [*e[: i[BRANCH]], turned(e[i[BRANCH]], 2, -1), *e[i[BRANCH] + 1 :]],
    "a negative multiplier": lambda e, i: [*e[: i[SHUT]], turned(e[i[SHUT]], 4, -1), *e[i[SHUT] + 1 :]],
    "a huge multiplier": lambda e, i: [
        *e[: i[SHUT]], turned(turned(e[i[SHUT]], 4, 1), 5, 32767), *e[i[SHUT] + 1 :]
    ],
    "a dropped end": lambda e, i: e[:-1],
    "a dropped branch": lambda e, i: [*e[: i[BRANCH]], *e[i[BRANCH] + 1 :]],
    "an early end": lambda e, i: [*e[: i[BRANCH]], np.array([LAST]), *e[i[BRANCH] + 1 :]],
    "an empty node": lambda e, i: [*e[: i[BRANCH]], np.array([NONE]), *e[i[BRANCH] + 1 :]],
    "events after the end": lambda e, i: [*e, np.array([NONE])],
    "an unknown event": lambda e, i: [*e[: i[BRANCH]], np.array([6]), *e[i[BRANCH] :]],
    "no events": lambda e, i: [np.zeros(0)],
    "half an event": lambda e, i: [*e[: i[SHUT]], e[i[SHUT]][:3]],
    "another order": lambda e, i: swap(e, i[BRANCH], i[SHUT]),
}  # fmt: skip
"""Changes after which the events prove nothing; `i` says where the first of a kind is."""


@pytest.mark.parametrize("change", CHANGES)
def test_changed_events_are_rejected(honest, pieces, change):
    lower = honest.error * BELOW
    where = {code: first(pieces, code) for code in (SHUT, BRANCH)}
    stream = np.concatenate(CHANGES[change](pieces, where)).astype(np.int16)
    sealed, genuine = honest.store(stream, lower), honest.store(np.concatenate(pieces), lower)
    assert honest.check(genuine, lower) is None
    said = honest.check(sealed, lower)  # with a digest of its own
    assert said is not None
    assert said.startswith("proof: event ")
    spliced = sealed[: OVERHEAD - 32] + genuine[OVERHEAD - 32 : OVERHEAD] + sealed[OVERHEAD:]
    assert "its digest differs" in str(honest.check(spliced, lower))


def test_changed_words_are_rejected_by_the_digest_and_accepted_only_where_they_prove_it(honest, pieces):
    """A direction that still does it is a proof: then the claim is as true as it was."""
    lower, whole = honest.error * BELOW, np.concatenate(pieces)
    rng, accepted = np.random.default_rng(0), 0
    for _ in range(200):
        stream = whole.copy()
        stream[rng.integers(len(stream))] ^= 1 << rng.integers(8)
        sealed = honest.store(stream, lower)
        accepted += honest.check(sealed, lower) is None
        spliced = sealed[: OVERHEAD - 32] + decode(honest.store(whole, lower)).digest + sealed[OVERHEAD:]
        assert "its digest differs" in str(honest.check(spliced, lower))
        assert honest.replayed(stream, honest.error * (1 + 1e-9)) is not None
    assert 0 < accepted < 200


def test_another_bound_or_set_than_the_proof_is_of(honest, pieces):
    lower, stream = honest.error * BELOW, np.concatenate(pieces)
    proof = honest.store(stream, lower)
    assert "of another bound" in str(honest.check(proof, math.nextafter(lower, 1)))
    assert "its digest differs" in str(honest.check(proof, lower, math.nextafter(honest.error, 1)))
    assert "its digest differs" in str(honest.check(proof, lower, kept=np.roll(honest.best, 1)))
    for name, other in (
        ("s", replace(honest, s=4)),
        ("mass floor", replace(honest, rho=0.4)),
        ("d", replace(honest, values=honest.values[:, :2])),
        ("n", replace(honest, masses=honest.masses * (np.arange(12) < 11))),
    ):
        assert f"of another {name}: " in str(other.check(proof, lower))
    high = honest.error * 1.01
    assert "kept set has error" in str(honest.check(honest.store(stream, high, high), high, high))
    assert "interval" in str(honest.check(honest.store(stream, high), high))


def test_a_set_that_is_none_or_has_another_error(honest, pieces):
    lower, stream = honest.error * BELOW, np.concatenate(pieces)

    def said(kept, upper: float = honest.error) -> str:
        other = replace(honest, best=np.array(kept, dtype=np.int64))
        return str(other.check(other.store(stream, lower, upper), lower, upper))

    best = honest.best.tolist()
    for kept in (best[::-1], best[:-1], [*best[:-1], 12], [-1, *best[1:]], [best[1], *best[1:]]):
        assert said(kept).startswith("kept: not 5 ascending positions")
    light = sorted(sorted(range(12), key=lambda j: honest.masses[j])[:5])
    assert "misses the mass floor" in said(light)
    heavy = oracle.top_mass(oracle.exact(honest.masses, honest.values), 5)
    assert "the kept set has error" in said(heavy)
    assert "the kept set has error" in said(best, honest.error * (1 + 1e-11))


def test_the_digits_that_float64_loses_are_allowed():
    """Sums that cancel to nearly nothing: the error of a set is known to an absolute precision only."""
    found = case([0.25, 0.25, 0.3, 0.2], [[1.0], [-1.0 + 1e-9], [0.5], [-0.7]], 2)
    assert 0 < found.error < 1e-2
    lower = found.error * BELOW
    stream = found.prove(lower)
    for upper, wrong in ((found.error + 3e-15, False), (found.error + 1e-10, True)):
        assert (found.check(found.store(stream, lower, upper), lower, upper) is not None) == wrong


def test_a_budget_of_all_keys_needs_no_proof():
    found = case([0.5, 0.5], [[1.0], [2.0]], 2)
    stored = found.store(np.zeros(0, np.int16), 0.0, 0.0)
    assert found.check(stored, 0.0, 0.0) == "the row has 2 keys: a budget of 2 needs no proof"


def test_bytes_that_are_no_proof(honest):
    assert str(honest.check(b"", 0.1)).startswith("proof: not a proof of this version")


def test_what_a_skeleton_leaves_out_is_searched_again_and_checked(honest, pieces):
    lower, stream = honest.error * BELOW, np.concatenate(pieces)
    proof = honest.store(skeleton(stream, 3), lower, complete=False, recipe=b"as before")
    asked = []

    def again(row, s, rho, recipe):
        asked.append((row.n_keys, s, rho, recipe))
        return stream

    assert honest.check(proof, lower, search=again) is None
    assert asked == [(12, 5, 0.5, b"as before")]
    differs = "does not leave the stored skeleton"
    assert differs in str(honest.check(proof, lower, search=lambda *_: stream[:-1]))
    assert "proof: its events break off" in str(honest.check(proof, lower, search=lambda *_: stream[:2]))
    at = len(np.concatenate(pieces[: first(pieces, SHUT)]))
    weak = stream.copy()
    weak[at + 1 : at + 4] *= -1
    said = str(honest.check(proof, lower, search=lambda *_: weak))
    assert said.endswith("ends a node that its direction does not empty")
