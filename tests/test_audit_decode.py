"""Answers from held caches: transformers' own where nothing is evicted, true masking where something is."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from ceiling.audit.decode import decode
from ceiling.audit.held import HeldCache, HeldLayer, hold, hold_full, hold_masked
from ceiling.audit.ragged import RaggedBatch, attending
from ceiling.audit.refusals import windows
from tests import tiny_models

N, ROOM = 60, 8
LOGITS = 1e-4
"""Absolute: logits are near 1 in size, and float32 sums run in another order."""


def prefilled(model: Any, ids: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    cache = DynamicCache()
    with torch.inference_mode():
        model(ids[None], past_key_values=cache)
    return [layer.keys[0] for layer in cache.layers], [layer.values[0] for layer in cache.layers]


def greedy(model: Any, ids: torch.Tensor) -> list[int]:
    told: list[int] = []
    with torch.inference_mode():
        for _ in range(ROOM):
            told.append(int(model(ids[None]).logits[0, -1].argmax()))
            ids = torch.cat([ids, torch.tensor(told[-1:])])
    return told


def some(model: Any, keys: list[torch.Tensor], seed: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        [(torch.rand(N, generator=generator) < 0.3 + 0.2 * h).nonzero()[:, 0] for h in range(len(k))]
        for k in keys
    ]


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3_text", "mistral"])
def test_a_full_cache_answers_as_the_model_does(kind, backend):
    model = tiny_models.build(kind)
    ids = tiny_models.tokens(N + 9)[0]
    keys, values = prefilled(model, ids[:N])
    full = hold_full(keys, values, N, windows(model))
    before = model.config._attn_implementation
    (answer,) = decode(model, [full], ids[N:].tolist(), ROOM, frozenset(), backend=backend)
    assert list(answer.tokens) == greedy(model, ids)
    assert answer.finite
    assert not answer.ended
    assert model.config._attn_implementation == before


def reference(model: Any, ids: torch.Tensor, kept: list[list[torch.Tensor]], n: int) -> torch.Tensor:
    """Logits of one eager forward that hides, head by head, what of the first `n` is not kept."""
    heads = model.config.num_attention_heads
    hidden = []
    for layer in kept:
        mask = torch.full((heads, len(ids), len(ids)), -torch.inf).triu(1)
        for kv, own in enumerate(layer):
            gone = torch.ones(n, dtype=torch.bool)
            gone[own] = False
            group = heads // len(layer)
            mask[kv * group : (kv + 1) * group, n:, :n].masked_fill_(gone, -torch.inf)
        hidden.append(mask[None])
    for layer, mask in zip(model.model.layers, hidden, strict=True):
        forward = layer.self_attn.forward

        def masked(*args: Any, forward: Any = forward, mask: Any = mask, **kwargs: Any) -> Any:
            return forward(*args, **kwargs | {"attention_mask": mask})

        layer.self_attn.forward = masked
    try:
        with torch.inference_mode():
            return model(ids[None]).logits[0, -1]
    finally:
        for layer in model.model.layers:
            del layer.self_attn.forward


def logits(model: Any, cache: HeldCache, ids: torch.Tensor, backend: str) -> torch.Tensor:
    batch = RaggedBatch([cache], backend)
    steps = torch.arange(len(ids))
    with torch.inference_mode(), attending(model, batch):
        return model(
            ids[None],
            position_ids=(cache.seen + steps)[None],
            cache_position=steps,
            past_key_values=DynamicCache(),
        ).logits[0, -1]


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("store", [hold, hold_masked])
def test_ragged_lists_are_true_masking(store, backend):
    model = tiny_models.build("llama", "eager")
    ids = tiny_models.tokens(N + 7)[0]
    keys, values = prefilled(model, ids[:N])
    kept = some(model, keys, 1)
    cache = store(keys, values, kept, N, windows(model))
    ours = logits(model, cache, ids[N:], backend)
    full = logits(model, hold_full(keys, values, N, windows(model)), ids[N:], backend)
    assert torch.allclose(ours, reference(model, ids, kept, N), atol=LOGITS, rtol=0)
    assert (ours - full).abs().max() > 100 * LOGITS  # eviction does something


def test_a_batch_answers_as_one_by_one_and_in_any_order():
    model = tiny_models.build("llama")
    ids = tiny_models.tokens(N + 5)[0]
    keys, values = prefilled(model, ids[:N])
    sizes = windows(model)
    caches = [hold(keys, values, some(model, keys, seed), N, sizes) for seed in range(4)]
    caches += [hold_masked(keys, values, some(model, keys, 0), N, sizes), hold_full(keys, values, N, sizes)]
    rest = ids[N:].tolist()
    alone = [decode(model, [c], rest, ROOM, frozenset(), backend="eager")[0] for c in caches]
    assert decode(model, caches, rest, ROOM, frozenset(), backend="eager") == alone
    assert decode(model, caches[::-1], rest, ROOM, frozenset(), backend="eager") == alone[::-1]
    assert alone[4] == alone[0]
    assert decode(model, [], rest, ROOM, frozenset(), backend="eager") == []


def test_an_answer_that_ends_leaves_the_others_alone():
    model = tiny_models.build("llama")
    ids = tiny_models.tokens(N + 5)[0]
    keys, values = prefilled(model, ids[:N])
    caches = [hold(keys, values, some(model, keys, seed), N, windows(model)) for seed in range(6)]
    rest = ids[N:].tolist()
    free = [a.tokens for a in decode(model, caches, rest, ROOM, frozenset(), backend="eager")]
    stop = frozenset(tokens[k] for k, tokens in enumerate(free[:5]))
    for tokens, answer in zip(free, decode(model, caches, rest, ROOM, stop, backend="eager"), strict=True):
        cut = next((k for k, token in enumerate(tokens) if token in stop), None)
        assert answer.tokens == (tokens if cut is None else tokens[:cut])
        assert answer.ended is (cut is not None)


def test_what_is_not_finite_is_said_of_its_row_only():
    model = tiny_models.build("llama")
    ids = tiny_models.tokens(N + 5)[0]
    keys, values = prefilled(model, ids[:N])
    good = hold_full(keys, values, N, windows(model))
    spoiled = [
        HeldLayer(layer.keys * torch.nan, layer.values, layer.positions, layer.lengths)
        for layer in good.layers
    ]
    rest = ids[N:].tolist()
    alone = decode(model, [good], rest, ROOM, frozenset(), backend="eager")[0]
    both = decode(model, [HeldCache(spoiled, N), good], rest, ROOM, frozenset(), backend="eager")
    assert both == [type(alone)((), False, False), alone]


def test_the_model_is_left_as_found_when_a_forward_fails():
    model = tiny_models.build("llama")
    before = model.config._attn_implementation
    keys, values = prefilled(model, tiny_models.tokens(N)[0])
    cache = hold_full(keys, values, N, windows(model))
    with pytest.raises(ZeroDivisionError), attending(model, RaggedBatch([cache], "eager")):
        1 / 0  # noqa: B018
    assert model.config._attn_implementation == before
