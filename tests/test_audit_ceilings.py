"""Kept sets on attention rows: against slow sums written down here, the objective, and a proof."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.ceilings import ANSWER, BALANCE, CERTIFY, ENGINES, QUESTION, TOP, Judge
from ceiling.audit.press import FULL, resolve
from ceiling.audit.shared_pass import Request
from ceiling.certify import certify
from ceiling.objective import forced_error
from ceiling.problem import InputError, Row
from ceiling.search import DEGENERATE

CLOSE = 1e-9
"""Relative, and absolute in units of sigma: both sides sum at most 40 terms in float64."""

SNAPKV, KNORM = resolve("snapkv"), resolve("knorm")
GROUP, KV, D = 2, 2, 3


def layer(rng: np.random.Generator, n: int, window: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal softmax rows of `GROUP` x `KV` heads, float32, and values."""
    logits = torch.tensor(rng.normal(scale=2, size=(GROUP * KV, n, n)))
    seen = torch.ones(n, n).tril().bool()
    if window is not None:
        seen &= ~torch.ones(n, n).tril(-window).bool()
    weights = logits.masked_fill(~seen, -torch.inf).softmax(-1).float()
    return weights, torch.tensor(rng.normal(size=(KV, n, D)), dtype=torch.float32)


def chosen(rng: np.random.Generator, among: int, count: int) -> list[torch.Tensor]:
    return [torch.tensor(np.sort(rng.choice(among, count, replace=False))) for _ in range(KV)]


def swapped(start: set[int], keys: list[int], error: Any) -> float:
    """The error after the best of all swaps, again and again, until none lowers it by more than rounding."""
    kept, now = start, error(start)
    while len(kept) < len(keys):
        sets = [kept - {i} | {j} for i in kept for j in set(keys) - kept]
        lowest = min(sets, key=error)
        if not error(lowest) < now * (1 - 1e-12):
            break
        kept, now = lowest, error(lowest)
    return now


def slow(
    weights: torch.Tensor,
    values: torch.Tensor,
    kept: list[torch.Tensor],
    span: int,
    positions: list[int],
    swaps_at: int | None = None,
) -> list[dict[str, float]]:
    """Every row by the definitions: one key after another, no arrays of sets; swaps at one position."""
    told = []
    for kv in range(KV):
        for p in positions:
            for h in range(kv * GROUP, (kv + 1) * GROUP):
                masses = weights[h, p, : p + 1].double().numpy()
                masses = masses / masses.sum()
                v = values[kv, : p + 1].double().numpy()
                mu = sum(m * x for m, x in zip(masses, v, strict=True))
                far = [float(np.linalg.norm(x - mu)) for x in v]
                sigma = sum(m * f**2 for m, f in zip(masses, far, strict=True)) ** 0.5
                own = {int(j) for j in kept[kv] if j <= p} | {j for j in range(span, p + 1)} | {p}
                own = {j for j in own if masses[j] > 0}
                by_mass = sorted((j for j in range(p + 1) if masses[j] > 0), key=lambda j: (-masses[j], j))
                top = set(by_mass[: len(own)])

                def error(keys: set[int], masses: Any = masses, v: Any = v, mu: Any = mu) -> float:
                    mass = sum(masses[j] for j in sorted(keys))
                    mean = sum(masses[j] * v[j] for j in sorted(keys)) / mass
                    return float(np.linalg.norm(mean - mu))

                everything = len(own) == len(by_mass)
                balance = swapped(top, by_mass, error) / sigma if p == swaps_at else np.nan
                told.append(
                    {
                        "count": len(own),
                        "kept_mass": float(sum(masses[j] for j in own)),
                        "top_mass": float(sum(masses[j] for j in top)),
                        "error": 0.0 if everything else error(own) / sigma,
                        "e_top": 0.0 if everything else error(top) / sigma,
                        "e_balance": 0.0 if everything else balance,
                        "bound": 0.0
                        if everything
                        else 2
                        * max(far[j] for j in by_mass)
                        * sum(masses[j] for j in by_mass[len(own) :])
                        / sigma,
                    }
                )
    return told


def aggregated(rows: list[dict[str, float]]) -> dict[str, float | None]:
    fair = [row for row in rows if row["e_top"] > DEGENERATE]
    if not fair:
        return dict.fromkeys(rows[0]) | {"rows": 0, "error_over_top": None, "balance_over_top": None}

    def told(average: Any, numbers: list[float]) -> float | None:
        known = [x for x in numbers if not np.isnan(x)]
        return float(average(known)) if known else None

    means = {name: told(np.mean, [row[name] for row in fair]) for name in fair[0]}
    ratios = {
        f"{short}_over_top": told(np.median, [row[name] / row["e_top"] for row in fair])
        for short, name in (("error", "error"), ("balance", "e_balance"))
    }
    return means | ratios | {"rows": len(fair)}


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    context=st.integers(4, 20),
    question=st.integers(1, 5),
    prefix=st.integers(0, 3),
    answer=st.integers(0, 6),
    window=st.none() | st.integers(1, 12),
    arms=st.lists(st.sampled_from(list(Arm)), min_size=1, max_size=3, unique=True),
    mode=st.sampled_from([TOP, BALANCE]),
    data=st.data(),
)
def test_columns_are_those_of_slow_sums(seed, context, question, prefix, answer, window, arms, mode, data):
    rng = np.random.default_rng(seed)
    weights, values = layer(rng, context + question + prefix + answer, window)
    kept = {}
    for arm in arms:
        for press in (SNAPKV, KNORM):
            among = arm.compressed(context, question)
            kept[Request(arm, press, Budget("slots", 3))] = [  # ragged: each KV head its own count
                chosen(rng, among, data.draw(st.integers(1, among)))[0] for _ in range(KV)
            ]
    judge = Judge(context, question, prefix, answer, mode)
    judge.on_layer(7, weights, values, values, kept)
    end = context + question
    where = {QUESTION: list(range(max(context, end - 2), end))}
    if answer:
        where[ANSWER] = [end + prefix - 1 + k for k in range(min(answer, 4))]
    found = {(request, told["rows_of"]): told for request, told in judge.records()}
    assert set(found) == {(request, kind) for request in kept for kind in where}
    for (request, kind), told in found.items():
        span = request.arm.compressed(context, question)
        at = where[kind][-1 if kind == QUESTION else 0] if mode == BALANCE else None
        expected = aggregated(slow(weights, values, kept[request], span, where[kind], at))
        assert (told["layer"], told["engine"], told["e_lower"]) == (7, ENGINES[mode], None)
        for name, value in expected.items():
            close = value if value is None else pytest.approx(value, rel=CLOSE, abs=CLOSE)
            assert told[name] == close, name


def judged(kept: list[torch.Tensor], weights: torch.Tensor, values: torch.Tensor, n: int) -> dict[str, Any]:
    """The answer row of a text of `n` tokens, one of them the question and one the answer."""
    judge = Judge(n - 2, 1, 0, 1)
    judge.on_layer(0, weights, values, values, {Request(Arm.AGNOSTIC, SNAPKV, Budget("slots", 3)): kept})
    return next(told for _, told in judge.records() if told["rows_of"] == ANSWER)


def test_the_heaviest_keys_have_ratio_one():
    rng = np.random.default_rng(0)
    n = 30
    _, values = layer(rng, n)
    masses = np.r_[rng.permutation(np.geomspace(1, 1e-3, n - 2)), 2.0]  # the row's own key is the heaviest
    weights = torch.zeros(GROUP * KV, n, n, dtype=torch.float32)
    weights[:, n - 2, : n - 1] = torch.tensor(masses / masses.sum()).float()
    top = torch.tensor(np.sort(np.argsort(-masses[:-1])[:5]))
    told = judged([top] * KV, weights, values, n)
    assert told["count"] == 6
    assert told["error_over_top"] == pytest.approx(1, rel=CLOSE)
    assert told["kept_mass"] == pytest.approx(told["top_mass"], rel=CLOSE)
    other = torch.tensor(np.sort(np.argsort(-masses[:-1])[3:8]))
    assert judged([other] * KV, weights, values, n)["error_over_top"] > 1.2


def test_keeping_everything_leaves_no_row_to_judge():
    weights, values = layer(np.random.default_rng(1), 20)
    told = judged([torch.arange(18)] * KV, weights, values, 20)
    assert told["rows"] == 0
    assert told["error_over_top"] is None
    almost = judged([torch.arange(1, 18)] * KV, weights, values, 20)
    assert almost["rows"] == GROUP * KV
    assert almost["error"] > 0


def test_rows_that_are_not_finite_are_no_rows_to_judge():
    weights, values = layer(np.random.default_rng(1), 20)
    told = judged([torch.arange(1, 18)] * KV, torch.full_like(weights, torch.nan), values, 20)
    assert told["rows"] == 0
    assert told["error"] is None


@pytest.mark.parametrize("seed", range(3))
def test_errors_lie_between_what_is_proved(seed):
    rng = np.random.default_rng(seed)
    n, count = 24, 4
    weights, values = layer(rng, n)
    kept = chosen(rng, n - 2, count - 1)
    told = judged(kept, weights, values, n)
    lower, errors = [], []
    for h in range(GROUP * KV):
        row = Row(weights[h, n - 2, : n - 1].numpy(), values[h // GROUP, : n - 1].numpy())
        mu = row.masses @ row.values
        sigma = np.sqrt(row.masses @ np.square(row.values - mu).sum(axis=1))
        lower.append(certify(row, count, nodes=5000).lower / sigma)
        errors.append(forced_error(row, [*kept[h // GROUP].tolist(), n - 2]) / sigma)
    assert told["rows"] == GROUP * KV
    assert min(lower) > 0
    assert told["error"] == pytest.approx(np.mean(errors), rel=1e-6)  # Row takes float32 weights its own way
    assert np.mean(lower) <= min(told["error"], told["e_top"])
    assert told["e_top"] <= told["bound"]


@pytest.mark.parametrize("window", [None, 9])
def test_what_bounds_a_row_is_ordered_on_every_row_and_judged_by_itself(window):
    rng = np.random.default_rng(11)
    n, context = 22, 16
    weights, values = layer(rng, n, window)
    weights[1:, :, :] = weights[:1]  # one row, so that means over heads are the row's own
    values[1:] = values[:1]
    requests = {
        Request(arm, SNAPKV, Budget("slots", count)): [chosen(rng, arm.compressed(context, 3), count)[0]] * KV
        for arm in Arm
        for count in range(1, 9)
    }
    judge = Judge(context, 3, 1, 1, CERTIFY)
    judge.on_layer(0, weights, values, values, requests)
    answers = [told for _, told in judge.records() if told["rows_of"] == ANSWER]
    assert len(answers) == len(requests)
    for told in answers:
        assert told["rows"] in (0, GROUP * KV)
        if told["rows"]:
            assert told["e_lower"] <= told["e_balance"] <= told["e_top"] <= told["bound"]
            assert told["e_lower"] <= told["error"]
            assert told["balance_over_top"] == pytest.approx(told["e_balance"] / told["e_top"], rel=CLOSE)
    by_count = {told["count"]: (told["e_balance"], told["e_lower"]) for told in answers if told["rows"]}
    assert len(by_count) > 3
    assert all(
        by_count[told["count"]] == (told["e_balance"], told["e_lower"]) for told in answers if told["rows"]
    )
    assert any(low > 0 for _, low in by_count.values())


def test_a_row_of_too_many_keys_is_bounded_by_nothing(monkeypatch):
    monkeypatch.setattr("ceiling.audit.bounds.MOST_CERTIFIED", 5)
    rng = np.random.default_rng(5)
    n, context = 22, 16
    weights, values = layer(rng, n)
    requests = {  # ragged, as AdaKV keeps
        Request(Arm.AWARE_KVPRESS, press, Budget("slots", 4)): [
            torch.tensor(np.sort(rng.choice(context + 3, count, replace=False))) for count in counts
        ]
        for press, counts in ((SNAPKV, (2, 3)), (KNORM, (3, 9)), (resolve("tova"), (8, 9)))
    }
    judge = Judge(context, 3, 1, 1, CERTIFY)
    judge.on_layer(0, weights, values, values, requests)
    few, mixed, many = (told for _, told in judge.records() if told["rows_of"] == ANSWER)
    assert 0 < few["e_lower"] <= few["e_balance"] <= few["e_top"]
    assert 0 < mixed["e_lower"] <= mixed["e_balance"] <= mixed["e_top"]
    judge = Judge(context, 3, 1, 1, CERTIFY)
    alone = {next(iter(requests)): [requests[r][0] for r in requests if r.press == KNORM] * KV}
    judge.on_layer(
        0, weights[:GROUP].repeat(KV, 1, 1), values[:1].repeat(KV, 1, 1), values[:1].repeat(KV, 1, 1), alone
    )
    whole = next(told for _, told in judge.records() if told["rows_of"] == ANSWER)
    assert mixed["e_lower"] == pytest.approx(whole["e_lower"] / 2, rel=CLOSE)
    assert many["e_lower"] is None
    assert many["e_balance"] > 0


def test_bounds_are_taken_once_a_row_and_count(monkeypatch):
    taken: list[tuple[int, set[int]]] = []

    def noted(row: Row, counts: set[int]) -> dict[int, float]:
        taken.append((len(row.masses), counts))
        return dict.fromkeys(counts, 0.0)

    monkeypatch.setattr("ceiling.audit.ceilings.balanced", noted)
    rng = np.random.default_rng(2)
    weights, values = layer(rng, 20)
    requests = {
        Request(Arm.AGNOSTIC, press, Budget("slots", count)): chosen(rng, 12, count)
        for press in (SNAPKV, KNORM)
        for count in (3, 4)
    }
    Judge(12, 4, 1, 3, BALANCE).on_layer(0, weights, values, values, requests)
    assert taken == ([(16, {7, 8})] * GROUP + [(17, {8, 9})] * GROUP) * KV


def test_equal_sets_are_judged_alike_and_the_anchor_is_not():
    rng = np.random.default_rng(3)
    weights, values = layer(rng, 20)
    kept = chosen(rng, 15, 4)
    first = Request(Arm.AGNOSTIC, SNAPKV, Budget("slots", 4))
    second = Request(Arm.AWARE_SCORES, KNORM, Budget("slots", 4))
    anchor = Request(Arm.AGNOSTIC, FULL, None)
    judge = Judge(15, 2, 1, 2)
    judge.on_layer(0, weights, values, values, {anchor: [torch.arange(15)] * KV, first: kept, second: kept})
    told = judge.records()
    assert {request for request, _ in told} == {first, second}
    by_request = {r: [record for request, record in told if request == r] for r in (first, second)}
    assert by_request[first] == by_request[second]


def test_without_attention_rows_there_is_nothing_to_judge():
    _, values = layer(np.random.default_rng(0), 8)
    with pytest.raises(InputError, match="eager"):
        Judge(5, 1, 1, 1).on_layer(0, None, values, values, {})
