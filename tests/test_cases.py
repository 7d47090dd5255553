"""Real rows and hand-made ones with known answers (tests/cases)."""

import json
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import isclose, sqrt
from pathlib import Path

import numpy as np
import pytest

import ceiling
from ceiling import objective
from tests import oracle
from tests.strategies import AGREE

CASES = Path(__file__).parent / "cases"
ANSWERS = json.loads((CASES / "rows" / "answers.json").read_text(encoding="utf-8"))
EXACT = json.loads((CASES / "exact.json").read_text(encoding="utf-8"))
BUDGETS = ("4", "8", "16", "32")

names = pytest.mark.parametrize("name", ANSWERS)
budgets = pytest.mark.parametrize("budget", BUDGETS)
examples = pytest.mark.parametrize("case", EXACT, ids=[case["name"].replace(" ", "-") for case in EXACT])


@cache
def read(name: str) -> ceiling.Row:
    with np.load(CASES / "rows" / name) as arrays:
        return ceiling.Row(arrays["masses"], arrays["values"])


def near(error: float, wanted: float) -> bool:
    return isclose(error, wanted, rel_tol=AGREE)


@names
def test_the_row(name):
    row, wanted = read(name), ANSWERS[name]
    centred = objective.centre(row)
    assert row.values.shape == (wanted["N"], wanted["d"])
    assert near(centred.radius, wanted["D"])
    assert near(centred.sigma, wanted["sigma"])


@names
@budgets
def test_top_mass_and_pool(name, budget):
    row, wanted, s = read(name), ANSWERS[name][budget], int(budget)
    top = ceiling.top_mass(row, s)
    assert top.tolist() == wanted["top"]
    assert ceiling.pool(row, s).tolist() == wanted["pool"]
    assert near(ceiling.forced_error(row, top), wanted["e_top"])
    assert near(ceiling.dropped_mass(row, top), wanted["dropped_mass"])
    phi = ceiling.forced_error(row, top) * (1 - ceiling.dropped_mass(row, top))
    assert near(phi, wanted["phi"])


@names
@budgets
def test_best_in_pool(name, budget):
    row, wanted = read(name), ANSWERS[name][budget]
    answer = ceiling.best_in_pool(row, int(budget))
    assert near(answer.error, wanted["es_pool"])
    assert answer.kept.tolist() == wanted["argmin"] or near(
        ceiling.forced_error(row, wanted["argmin"]), answer.error
    )
    assert (answer.subsets, answer.ties, answer.status) == (wanted["subsets"], 1, "exact")


@names
@budgets
def test_balance(name, budget):
    row, wanted = read(name), ANSWERS[name][budget]
    answer = ceiling.balance(row, int(budget))
    assert near(answer.error, wanted["e_balance"])
    assert answer.kept.tolist() == wanted["balance"] or near(
        ceiling.forced_error(row, wanted["balance"]), answer.error
    )
    assert answer.swaps == wanted["swaps"]


@names
@budgets
def test_free_error(name, budget):
    row, wanted = read(name), ANSWERS[name][budget]
    assert near(ceiling.free_error(row, wanted["top"]), wanted["free_top"])
    assert near(ceiling.free_error(row, wanted["argmin"]), wanted["free_argmin"])


@pytest.mark.parametrize("name", list(ANSWERS)[::3])
@pytest.mark.parametrize(("s", "extra"), [(4, 8), (8, 5), (32, 2), (3, 9), (150, 1)])
def test_small_pools_of_real_rows_against_brute_force(name, s, extra):
    row = read(name)
    pool = ceiling.pool(row, s, extra).tolist()
    answer = ceiling.best_in_pool(row, s, extra)
    error, *found = oracle.brute_force(row.masses.tolist(), row.values.tolist(), pool, s)
    assert near(answer.error, error)
    assert [tuple(answer.kept), answer.subsets, answer.ties] == found


@examples
def test_the_oracle_on_hand_made_rows(case):
    row, s = oracle.exact(case["masses"], case["values"]), case["budget"]
    best = oracle.best(row, row.keys, s)
    top = oracle.top_mass(row, s)
    assert (best.squared, list(best.kept)) == (Fraction(case["es"]) ** 2, case["argmin"])
    assert (oracle.forced(row, top), list(top)) == (Fraction(case["e_top"]) ** 2, case["top"])
    if "ef" in case:
        every = combinations(row.keys, s)
        assert min(oracle.free(row, kept) for kept in every) == Fraction(case["ef"]) ** 2


@examples
def test_the_product_on_hand_made_rows(case):
    masses = np.array([float(Fraction(p)) for p in case["masses"]])
    row, s = ceiling.Row(masses, np.array(case["values"], dtype=float)), case["budget"]
    scale = sqrt(float(oracle.exact(case["masses"], case["values"]).variance))
    answer, top = ceiling.best_in_pool(row, s, len(masses)), ceiling.top_mass(row, s)
    e_top = ceiling.forced_error(row, top)
    assert isclose(answer.error, Fraction(case["es"]), rel_tol=AGREE, abs_tol=1e-14 * scale)
    assert answer.kept.tolist() == case["argmin"]
    assert top.tolist() == case["top"]
    assert isclose(e_top, Fraction(case["e_top"]), rel_tol=AGREE, abs_tol=1e-14 * scale)
    if "ef" in case:
        assert isclose(ceiling.free_error(row, answer.kept), Fraction(case["ef"]), abs_tol=1e-10 * scale)
