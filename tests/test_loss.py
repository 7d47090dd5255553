"""The restricted operator against a slow decode, the model itself, and what it was asked to keep."""

from typing import Any

import numpy as np
import pytest
import torch

from ceiling.capture import CaptureError
from ceiling.capture import capture as captured
from ceiling.loss import Attended, Cells, compare, dense, everything, restricted
from ceiling.objective import default_extra
from ceiling.problem import InputError
from ceiling.selectors import KVHead, resolve
from ceiling.selectors.consecutive import ConsecutiveKVHead
from tests import slow_loss
from tests.tiny_models import CONFIGS, SMALL, build, tokens

N, CONTEXT, S = 40, 28, 4
LAYERS, HEADS, KV_HEADS = (
    SMALL[f"num_{what}"] for what in ("hidden_layers", "attention_heads", "key_value_heads")
)
NONE = np.zeros((LAYERS, HEADS), dtype=bool)
ROUNDING = 1e-6
"""Of the largest logit: float32 sums in another order, measured at half of this."""

CALM = 0.1
"""Standard deviation of the random weights where rounding is compared; at 0.3 layers amplify it tenfold."""


def text(seed: int = 0, n: int = N) -> np.ndarray:
    return tokens(n, seed)[0].numpy()


def predictions(model: Any, ids: np.ndarray, choose: Any) -> np.ndarray:
    own = dense(model, ids, CONTEXT)
    with torch.inference_mode(), restricted(model, own.positions, choose):
        found: np.ndarray = model(input_ids=torch.tensor(ids[None, :-1]), use_cache=False).logits[0].numpy()
    return found[CONTEXT - 1 :]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("cells", ["none", "some", "all"])
def test_one_restricted_forward_is_a_slow_decode_of_every_cell(kind: str, cells: str):
    model, ids = build(kind, initializer_range=CALM), text(1)
    share = {"none": 0.0, "some": 0.5, "all": 1.0}[cells]
    chosen = np.asarray(np.random.default_rng(0).random(NONE.shape) < share)
    plain, swapped = slow_loss.top_mass(S), slow_loss.balanced(S, default_extra(S))
    slow = slow_loss.logits(
        build(kind, "eager", initializer_range=CALM), ids, CONTEXT,
        lambda layer, head, *row: (swapped if chosen[layer, head] else plain)(layer, head, *row),
    )  # fmt: skip
    ours = predictions(model, ids, Cells(S, resolve("top-mass"), chosen))
    assert np.abs(ours - slow).max() <= ROUNDING * max(1.0, np.abs(slow).max())
    assert np.abs(ours - predictions(model, ids, everything)).max() > 1e-2, "nothing was restricted"


def test_rows_that_see_fewer_keys_than_the_budget_keep_them_all():
    model, ids = build("llama", initializer_range=CALM), text(5)
    slow = slow_loss.logits(model, ids, 3, slow_loss.top_mass(8))
    for chosen in (NONE, ~NONE):
        own = dense(model, ids, 3)
        with torch.inference_mode(), restricted(model, own.positions, Cells(8, resolve("top-mass"), chosen)):
            ours = model(input_ids=torch.tensor(ids[None, :-1]), use_cache=False).logits[0, 2:].numpy()
        early = slice(None, 6) if chosen.any() else slice(None)
        assert np.abs(ours - slow)[early].max() <= ROUNDING * max(1.0, np.abs(slow).max())


@pytest.mark.parametrize("rule", ["snapkv", "h2o", "quest"])
@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_cells_ask_rules_as_a_captured_row_does(kind: str, rule: str):
    def choose(attended: Attended) -> np.ndarray:
        kept = Cells(S, resolve(rule), NONE)(attended)
        group, own = HEADS // KV_HEADS, {"window": attended.window, "soft_cap": attended.soft_cap}
        for k in range(KV_HEADS):
            some = slice(k * group, (k + 1) * group)
            arrays = (attended.keys[k], attended.values[k], attended.queries[some], attended.masses[some])
            source = KVHead(*arrays, attended.positions, scaling=attended.scaling, **own)  # type: ignore[arg-type]
            for g, r in np.ndindex(group, len(attended.positions)):
                alone = resolve(rule).keep(source.sight(g, r, "per-query"), S)
                assert np.flatnonzero(kept[k * group + g, r]).tolist() == alone.tolist()
        told.append(float((attended.masses * kept).sum(axis=-1).mean()))
        return kept

    told: list[float] = []
    model = build(kind)
    found = compare(model, dense(model, text(6), CONTEXT), choose)
    assert found.kept_mass == pytest.approx(np.mean(told), rel=1e-6)
    assert 0.05 < found.kept_mass < 0.99


@pytest.mark.parametrize("kind", CONFIGS)
def test_nothing_restricted_is_the_model_itself(kind: str):
    model = build(kind)
    own = dense(model, text(), CONTEXT)
    found = compare(model, own, everything)
    assert found.deviation <= 1e-5
    assert found.loss == pytest.approx(own.loss, abs=1e-6)
    assert found.kl == pytest.approx(0, abs=1e-9)
    assert (found.agreement, found.kept_mass) == (1.0, pytest.approx(1.0))
    with torch.inference_mode():
        out = build(kind, attention="eager")(input_ids=torch.tensor(text()[None]))
    told = torch.nn.functional.cross_entropy(out.logits[0, CONTEXT - 1 : -1], torch.tensor(text()[CONTEXT:]))
    assert own.loss == pytest.approx(float(told), abs=1e-5)


def test_measures_are_those_of_the_two_distributions():
    model, ids = build("llama"), text(4)
    own = dense(model, ids, CONTEXT)
    found = compare(model, own, Cells(12, resolve("h2o"), NONE))
    logits = predictions(model, ids, Cells(12, resolve("h2o"), NONE)).astype(float)
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (own.logits.double().numpy(), logits))
    told = q[np.arange(N - CONTEXT), ids[CONTEXT:]]
    assert found.loss == pytest.approx(-np.log(told).mean(), rel=1e-6)
    assert found.kl == pytest.approx((p * np.log(p / q)).sum(axis=1).mean(), rel=1e-6)
    assert found.agreement == (p.argmax(axis=1) == q.argmax(axis=1)).mean()
    assert found.deviation == pytest.approx(np.abs(own.logits.numpy() - logits).max(), rel=1e-5)
    assert 0 < found.agreement < 1


@pytest.mark.parametrize(
    "rule", ["top-mass", "snapkv", "h2o", "quest", "streaming-llm", "leverage", "geometric"]
)
@pytest.mark.parametrize("kind", ["llama", "gemma3_text"])
def test_every_row_of_every_cell_keeps_the_budget_and_sees_no_later_key(kind: str, rule: str):
    seen: list[tuple[Attended, np.ndarray]] = []
    flat = np.asarray(np.random.default_rng(1).random(NONE.shape) < 0.4)

    def choose(attended: Attended) -> np.ndarray:
        seen.append((attended, Cells(6, resolve(rule), flat)(attended)))
        return seen[-1][1]

    predictions(build(kind), text(3), choose)
    assert [attended.layer for attended, _ in seen] == list(range(LAYERS))
    for attended, kept in seen:
        assert kept.shape == (HEADS, N - CONTEXT, N - 1)
        assert (kept.sum(axis=-1) == 6).all()
        assert not (kept & (attended.masses == 0)).any()


def test_rows_before_the_continuation_are_the_models_own():
    model, ids = build("qwen3"), torch.tensor(text()[None])
    with torch.inference_mode():
        whole = model(input_ids=ids).logits[0]
        with restricted(model, range(CONTEXT - 1, N), Cells(S, resolve("top-mass"), NONE)):
            cut = model(input_ids=ids).logits[0]
        after = model(input_ids=ids).logits[0]
    assert torch.equal(whole[: CONTEXT - 1], cut[: CONTEXT - 1])
    assert not torch.allclose(whole[CONTEXT - 1 :], cut[CONTEXT - 1 :], atol=1e-2)
    assert torch.equal(whole, after), "the model was not left as it was found"


@pytest.mark.parametrize("rule", ["snapkv", "snapkv:window=3", "h2o", "quest", "streaming-llm", "tova"])
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2"])
def test_rules_choose_what_they_choose_of_captured_rows(kind: str, rule: str):
    """`ConsecutiveKVHead` against `KVHead`, on the rows that a capture keeps."""
    model, positions, selector = build(kind), tuple(range(CONTEXT, N)), resolve(rule)
    with captured(model, positions, queries=True) as recording, torch.inference_mode():
        model.get_decoder()(input_ids=torch.tensor(text()[None]), use_cache=False)
    for layer in recording.layers.values():
        assert layer.queries is not None
        group = slice(0, HEADS // KV_HEADS)
        tensors = (layer.keys[0], layer.values[0], layer.queries[group], layer.masses[group])
        keys, values, queries, masses = (tensor.numpy() for tensor in tensors)
        own: dict[str, Any] = {"window": layer.window, "scaling": layer.scaling, "soft_cap": layer.soft_cap}
        slow, fast = (
            made(keys, values, queries, masses, positions, **own) for made in (KVHead, ConsecutiveKVHead)
        )
        for r in range(len(positions)):
            a, b = (selector.keep(source.sight(1, r, "per-query"), 5) for source in (slow, fast))
            assert a.tolist() == b.tolist()
        assert np.allclose(slow.received(N - 3), fast.received(N - 3), atol=1e-6)
        assert not fast.received(0).any()


def test_what_cannot_be_continued_is_refused():
    model, ids = build("llama"), torch.tensor(text()[None])
    with (
        pytest.raises(InputError, match="positions: 45 is outside the 40 tokens"),
        restricted(model, [45], everything),
    ):
        model(input_ids=ids)
    with (
        pytest.raises(CaptureError, match=r"layers \[0, 1, 2\] did not run restricted"),
        restricted(model, [3], everything),
    ):
        pass
    with (
        pytest.raises(ArithmeticError, match="layer 0: a row keeps no key"),
        restricted(model, [3], lambda attended: np.zeros_like(attended.masses, dtype=bool)),
    ):
        model(input_ids=ids)
    short = Cells(S, resolve("top-mass"), NONE)
    short.rule = type("Fewer", (), {"keep": lambda self, sight, s: sight.candidates[: s - 1]})()
    with pytest.raises(ArithmeticError, match="kept sets are not of 4 keys"), restricted(model, [30], short):
        model(input_ids=ids)
    with pytest.raises(InputError, match="ascending"), restricted(model, [4, 3], everything):
        pass
    with (
        pytest.raises(InputError, match="training mode"),
        restricted(build("llama").train(), [3], everything),
    ):
        pass
