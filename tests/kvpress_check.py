"""What kvpress keeps after a prefill, beside what our rules keep in reading ``cache``.

Run by hand or by its test, ``python -m tests.kvpress_check``; in a process of its own, since importing
kvpress replaces transformers' attention functions. A random Llama reads a text and one token more; kvpress
sees the text, our rules a capture of both that may not look at the last token. Prints one line a method.

Compared with kvpress's own parameters: SnapKV (average pooling), StreamingLLM, TOVA on one KV head (kvpress
averages over all heads of the layer) with the last key held, which kvpress adds; the attention that H2O
accumulates, divided by the number of queries as ObservedAttention does; PyramidKV's budgets, which it rounds
layer by layer where ours keep the total. Not compared: LeverageScore scores a random sketch of keys before
rotation; H2O's recent keys and Quest, which kvpress does not have.
"""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

import ceiling
from ceiling.selectors import KVHead, Sight
from ceiling.selectors.allocation import pyramid
from ceiling.selectors.mass import tova
from ceiling.selectors.ranking import best
from ceiling.selectors.recency import streaming_llm
from ceiling.selectors.window import snapkv
from tests import tiny_models

TOKENS = 150
SEEDS = range(2)
RATIOS = (0.2, 0.5)
"""Shares that are evicted: 120 and 75 keys stay, more than SnapKV's window of 64."""

Rule = Callable[[Sight, int], np.ndarray]


def tova_with_last(sight: Sight, count: int) -> np.ndarray:
    """TOVA's set with the last key held, as kvpress does; ours differs by that key at most."""
    earlier = best(sight.masses, sight.candidates[:-1], count - 1)
    held = np.append(earlier, sight.position)
    assert len(np.setdiff1d(tova(sight, count), held)) <= 1
    return held


def observed(sight: Sight, count: int) -> np.ndarray:
    """The largest attention received from a query that can see the key, on average."""
    mean = sight.received() / np.arange(sight.n, 0, -1)
    return best(mean.mean(axis=0), sight.candidates, count)


def sights(model: Any, ids: torch.Tensor) -> list[list[Sight]]:
    """By layer and KV head, what a rule sees before the last token."""
    last = ids.shape[1] - 1
    with torch.inference_mode(), ceiling.capture(model, [last], queries=True) as recording:
        model(ids, use_cache=False)
    found = []
    for layer in (recording.layers[index] for index in sorted(recording.layers)):
        assert layer.queries is not None
        arrays = (layer.keys, layer.values, layer.queries, layer.masses)
        keys, values, queries, masses = (array.float().numpy() for array in arrays)
        group = len(masses) // len(keys)
        heads = [
            KVHead(keys[k], values[k], queries[own], masses[own], [last], layer.window, layer.scaling)
            for k, own in ((k, slice(k * group, (k + 1) * group)) for k in range(len(keys)))
        ]
        found.append([head.sight(0, 0, "cache") for head in heads])
    return found


def kept(model: Any, ids: torch.Tensor, press: Any) -> list[list[np.ndarray]]:
    """By layer and KV head, the ascending positions whose keys are left in the cache after the prefill."""
    caches = []
    for context in (None, press):
        cache = DynamicCache()
        with torch.inference_mode():
            if context is None:
                model(ids, past_key_values=cache)
            else:
                with context(model):
                    model(ids, past_key_values=cache)
        caches.append([layer.keys[0].numpy() for layer in cache.layers])
    return [
        [positions(keys, left) for keys, left in zip(*layer, strict=True)]
        for layer in zip(*caches, strict=True)
    ]


def positions(keys: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Where the keys that are left, (k, d), stand among all, (n, d)."""
    return np.flatnonzero((keys[:, None] == left).all(axis=-1).any(axis=1))


def disagreements(rule: Rule, press: Callable[[float], Any], **changes: Any) -> Iterator[str]:
    """Every layer, KV head, text and ratio at which the two sets differ."""
    model = tiny_models.build("llama", **changes)
    for seed in SEEDS:
        ids = tiny_models.tokens(TOKENS + 1, seed)
        seen = sights(model, ids)
        for ratio in RATIOS:
            for layer, theirs in enumerate(kept(model, ids[:, :-1], press(ratio))):
                for k, wanted in enumerate(theirs):
                    ours = rule(seen[layer][k], len(wanted))
                    if len(wanted) != int(TOKENS * (1 - ratio)) or not np.array_equal(ours, wanted):
                        only = f"ours {np.setdiff1d(ours, wanted)}, theirs {np.setdiff1d(wanted, ours)}"
                        yield f"seed {seed}, ratio {ratio}, layer {layer}, KV head {k}: {only}"


def pyramid_disagreements(press: Callable[..., Any]) -> Iterator[str]:
    """Layers whose budgets differ by more than a rounding."""
    layers, tokens = 12, 4000
    for s in (40, 100, 333):
        theirs = [
            press(compression_ratio=1 - s / tokens, window_size=1).get_layer_budget(
                SimpleNamespace(config=SimpleNamespace(num_hidden_layers=layers), layer_idx=layer), tokens
            )
            for layer in range(layers)
        ]
        ours = pyramid(np.full(layers, tokens), s, np.arange(layers))
        if np.abs(ours - theirs).max() > 1 or ours.sum() != s * layers:
            yield f"s={s}: ours {ours.tolist()}, theirs {theirs}"


def main() -> int:
    """Print what was compared; 1 where anything differs."""
    import kvpress

    def snapkv_press(ratio: float) -> Any:
        return kvpress.SnapKVPress(ratio, window_size=64, kernel_size=5)

    cases: dict[str, Iterator[str]] = {
        "SnapKV": disagreements(
            lambda sight, count: snapkv(sight, count, window=64, kernel=5, pooling="avg"),
            snapkv_press,
        ),
        "SnapKV, window 8, kernel 7": disagreements(
            lambda sight, count: snapkv(sight, count, window=8, kernel=7, pooling="avg"),
            lambda ratio: kvpress.SnapKVPress(ratio, window_size=8, kernel_size=7),
        ),
        "StreamingLLM": disagreements(streaming_llm, kvpress.StreamingLLMPress),
        "TOVA": disagreements(tova_with_last, kvpress.TOVAPress, num_key_value_heads=1),
        "ObservedAttention": disagreements(observed, kvpress.ObservedAttentionPress, attention="eager"),
        "PyramidKV": pyramid_disagreements(kvpress.PyramidKVPress),
    }
    control = disagreements(lambda sight, count: snapkv(sight, count, window=64, kernel=5), snapkv_press)
    failed = False
    for name, found in cases.items():
        wrong = list(found)
        failed |= bool(wrong)
        print(f"{name}: {len(wrong)} differ" if wrong else f"{name}: equal", *wrong, sep="\n  ")
    if next(control, None) is None:  # maximum for average pooling must show
        failed = True
        print("control: equal, so nothing is compared")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
