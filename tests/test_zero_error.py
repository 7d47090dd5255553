"""The zero-error question: every engine against brute force, the known cases, refusals, disagreement."""

import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceiling
from ceiling.certify import Disagreement, exact
from ceiling.certify.balance import Balance, balance_of, read_keys
from ceiling.certify.engines.verdict import Verdict
from ceiling.certify.exact import ENGINES, TABLES
from ceiling.problem import InputError, Status

CASES = json.loads((Path(__file__).parent / "cases" / "zero_error.json").read_text())["instances"]

DECIDING = (*TABLES, "cp-sat")
"""Engines that prove a no; `restriction` only finds a yes."""


def squared_error(points: list[list[Any]], masses: list[Any], kept: tuple[int, ...]) -> Fraction:
    """Squared forced error, from its definition in rational numbers."""

    def mean(which: Any) -> list[Fraction]:
        which = list(which)
        total = sum(Fraction(masses[j]) for j in which)
        columns = range(len(points[0]))
        moments = [sum(Fraction(masses[j]) * Fraction(points[j][c]) for j in which) for c in columns]
        return [Fraction(moment) / total for moment in moments]

    keys = [j for j, mass in enumerate(masses) if mass]
    return sum(((a - b) ** 2 for a, b in zip(mean(kept), mean(keys), strict=True)), Fraction(0))


def reached(points: list[list[Any]], masses: list[Any], s: int) -> bool:
    """Whether some set of s keys of positive mass has error zero."""
    keys = [j for j, mass in enumerate(masses) if mass]
    return any(squared_error(points, masses, kept) == 0 for kept in combinations(keys, s))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['points'])}-{case['zero_error']}")
def test_known_cases(case: dict[str, Any]):
    answer = ceiling.zero_error(case["points"], None, case["budget"], seconds=30)
    assert answer.status == ("yes" if case["zero_error"] else "no")
    assert answer.seconds < 30
    assert answer.stopped_by == "none"
    if answer.kept is not None:
        kept = tuple(answer.kept.tolist())
        assert len(kept) == case["budget"]
        points = [[x] for x in case["points"]]
        assert squared_error(points, [1] * len(points), kept) == 0


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[list[Any]], list[Any], int]:
    """Few small numbers, so that both answers, equal keys and keys of no mass abound."""
    m, d = draw(st.integers(1, 8)), draw(st.integers(1, 2))
    number = st.one_of(
        st.integers(-4, 4), st.fractions(-2, 2, max_denominator=3), st.sampled_from([0.5, -1.5])
    )
    points = draw(st.lists(st.lists(number, min_size=d, max_size=d), min_size=m, max_size=m))
    mass = draw(st.sampled_from([st.just(1), st.integers(0, 3), st.sampled_from([Fraction(1, 3), 0.25, 1])]))
    masses = draw(st.lists(mass, min_size=m, max_size=m).filter(any))
    return points, masses, draw(st.integers(1, sum(map(bool, masses))))


@given(questions())
def test_every_engine_agrees_with_brute_force(question):
    points, masses, s = question
    wanted = "yes" if reached(points, masses, s) else "no"
    for engine in ("auto", *DECIDING):
        answer = ceiling.zero_error(points, masses, s, engine)
        assert answer.status == wanted
        if wanted == "yes":
            kept = tuple(answer.kept.tolist())
            assert kept == tuple(sorted(set(kept)))
            assert len(kept) == s
            assert all(masses[j] for j in kept)
            assert squared_error(points, masses, kept) == 0
        else:
            assert answer.kept is None
            assert answer.engine in (*DECIDING, "divisibility")


@given(questions(), st.randoms(use_true_random=False))
def test_order_scale_and_origin_change_nothing(question, random):
    points, masses, s = question
    status = ceiling.zero_error(points, masses, s).status
    order = random.sample(range(len(points)), len(points))
    moved = [[Fraction(x) * 7 / 3 - 10**30 for x in points[j]] for j in order]
    heavier = [Fraction(masses[j]) / 9 for j in order]
    assert ceiling.zero_error(moved, heavier, s).status == status


def test_floats_are_read_as_the_numbers_they_are():
    """0.1 + 0.2 is not 0.3: the middle of these three is off by 2^-54 or so."""
    near = [0.0, 0.1, 0.2, 0.3, 0.6, 0.6]
    assert ceiling.zero_error(np.array(near), None, 3).status == "no"
    assert ceiling.zero_error([Fraction(str(x)) for x in near], None, 3).status == "yes"
    assert ceiling.zero_error(np.float32([1e-40, 2e-40, 3e-40]), None, 1).status == "no"
    assert ceiling.zero_error(np.float32([1, 2, 3]) * np.float32(2) ** -140, None, 1).kept.tolist() == [1]


def test_keys_without_mass_are_no_keys():
    assert ceiling.zero_error([1, 2, 3], [1, 0, 1], 1).status == "no"
    answer = ceiling.zero_error([1, 2, 3, 9], [1, 1, 1, 0], 1)
    assert (answer.status, answer.kept.tolist()) == ("yes", [1])


def test_at_most_s_keys_are_all_kept():
    answer = ceiling.zero_error([[1, 2], [3, 5]], [1, 2], 2)
    assert (answer.status, answer.kept.tolist(), answer.engine) == ("yes", [0, 1], "trivial")
    assert ceiling.zero_error([1, 2, 3], [1, 0, 1], 5).kept.tolist() == [0, 2]


@pytest.mark.parametrize(("d", "bits"), [(1, 400), (3, 24)])
def test_forty_keys_of_any_length_are_decided(d: int, bits: int):
    """With masses, in several dimensions; the planted set is the mean in every component."""
    rng = np.random.default_rng(bits + d)

    def draw() -> int:
        return int.from_bytes(rng.bytes(bits // 8), "little")

    masses = [1 + draw() % 1000 for _ in range(40)]
    points: list[list[Any]] = [[draw() for _ in range(d)] for _ in range(40)]
    assert ceiling.zero_error(points, masses, 20, "meet-in-the-middle").status == "no"
    kept, dropped = sum(masses[:20]), sum(masses[20:])
    for c in range(d):  # move key 0 so that the first twenty have the mean of the others
        wanted = Fraction(kept * sum(masses[j] * points[j][c] for j in range(20, 40)), dropped)
        points[0][c] = (wanted - sum(masses[j] * points[j][c] for j in range(1, 20))) / masses[0]
    answer = ceiling.zero_error(points, masses, 20, "meet-in-the-middle")
    assert (answer.status, answer.stopped_by) == ("yes", "none")


def test_cp_sat_refuses_what_overflows_and_auto_answers():
    points = [2**62 + 3 * j * j + (j == 0) for j in range(11)] + [0]  # of even sum
    with pytest.raises(InputError, match=r"engine: cp-sat cannot take .* sum to \d+ \(2\^65.* 2\^62"):
        ceiling.zero_error(points, None, 6, "cp-sat")
    answer = ceiling.zero_error(points, None, 6)
    assert (answer.status, answer.engine) == ("no", "meet-in-the-middle")


def test_tables_that_do_not_fit_are_refused_with_the_numbers():
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2**50, 60)
    points[0] += int(points.sum()) % 2
    for engine in TABLES:
        with pytest.raises(InputError, match=rf"engine: {engine} cannot take .*(2\^62|4,194,304)"):
            ceiling.zero_error(points, None, 30, engine)


def test_beyond_every_table_the_limit_is_said():
    points = np.random.default_rng(1).integers(0, 2**55, 60)
    points[0] += int(points.sum()) % 2
    answer = ceiling.zero_error(points, None, 30, work=0.2)
    assert (answer.status, answer.kept, answer.stopped_by) == ("unknown", None, "nodes")
    assert answer.engine == "cp-sat"
    huge = [int(x) << 20 | j for j, x in enumerate(points)]
    huge[0] += sum(huge) % 2
    answer = ceiling.zero_error(huge, None, 30)
    assert (answer.status, answer.engine, answer.stopped_by) == ("unknown", "auto", "memory")


def test_the_guard_is_said():
    points = np.random.default_rng(1).integers(0, 2**50, 40)
    points[0] += int(points.sum()) % 2
    for engine in ("meet-in-the-middle", "cp-sat"):
        answer = ceiling.zero_error(points, None, 20, engine, seconds=1e-9)
        assert (answer.status, answer.stopped_by) == ("unknown", "seconds")


def test_the_guard_stops_cp_sat_under_way():
    """In CPU time, which its own limit is not in."""
    points = np.random.default_rng(1).integers(0, 2**55, 60)
    points[0] += int(points.sum()) % 2
    answer = ceiling.zero_error(points, None, 30, "cp-sat", seconds=0.3)
    assert (answer.status, answer.stopped_by) == ("unknown", "seconds")
    assert 0.3 <= answer.seconds < 5


def test_the_same_question_has_the_same_answer():
    points = np.random.default_rng(2).integers(0, 2**18, 60)
    points[0] += int(points.sum()) % 2
    for engine in ("cp-sat", "restriction", "auto"):
        one, two = (ceiling.zero_error(points, None, 30, engine, work=2) for _ in range(2))
        assert one.status == "yes"
        assert (one.kept.tolist(), one.engine) == (two.kept.tolist(), two.engine)


def lying(verdict: Any) -> SimpleNamespace:
    return SimpleNamespace(
        refusal=lambda problem: None, solve=lambda problem, deadline, work: verdict(problem)
    )


def test_engines_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(ENGINES, "cp-sat", lying(lambda problem: Verdict(Status.NO)))
    with pytest.raises(Disagreement, match="subset-sum says yes, cp-sat says no"):
        ceiling.zero_error([1, 2, 3, 4], None, 2)
    assert ceiling.zero_error([1, 2, 4, 7], None, 2).status == "no"


def test_a_witness_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def chosen(problem: Balance) -> Verdict:
        first = tuple(int(g < problem.size) for g in range(len(problem.counts)))
        return Verdict(Status.YES, first)

    monkeypatch.setitem(ENGINES, "cp-sat", lying(chosen))
    for engine in ("auto", "cp-sat"):
        with pytest.raises(Disagreement, match="cp-sat says yes by a set that has none"):
            ceiling.zero_error([1, 2, 4, 7], None, 2, engine)


def test_a_wrong_reduction_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    """The witness is checked on the numbers as given, not on the balance made of them."""
    wrong = balance_of(read_keys([1, 2, 3, 4]), 2)
    monkeypatch.setattr(exact, "balance_of", lambda keys, s: wrong)
    with pytest.raises(Disagreement):
        ceiling.zero_error([1, 2, 3, 7], None, 2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (([], None, 1), "points: empty"),
        ((3, None, 1), "points: 3 is not a list"),
        (("12", None, 1), "points: '12' is not a list"),
        (([1, "2"], None, 1), r"points\[1\]: '2' is not a whole number"),
        (([1, True], None, 1), r"points\[1\]: True"),
        (([1.0, float("nan")], None, 1), r"points\[1\]: nan is not finite"),
        (([[1, 2], [3]], None, 1), r"points\[1\]: 1 components, expected 2"),
        (([[], []], None, 1), r"points\[0\]: 0 components"),
        (([[[1]], [[2]]], None, 1), r"points\[0\]\[0\]: \[1\] is not"),
        (([1, 2], [1], 1), "masses: 1 for 2 points"),
        (([1, 2], [-1, 2], 1), r"masses\[0\]: -1 is negative"),
        (([1, 2], [0, 0], 1), "masses: all are zero"),
        (([1, 2], [1, None], 1), r"masses\[1\]: None"),
        (([1, 2], None, 0), "s: 0 is not positive"),
        (([1, 2], None, 1.0), "s: 1.0 is not a whole number"),
        (([1, 2], None, 1, "scip"), "engine: 'scip' is none of auto, subset-sum"),
        (([1, 2], None, 1, "auto", 0), "seconds: 0 is not a positive number"),
        (([1, 2], None, 1, "auto", 1, float("inf")), "work: inf"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], why: str):
    with pytest.raises(InputError, match=why):
        ceiling.zero_error(*arguments)
