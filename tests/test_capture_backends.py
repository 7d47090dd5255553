"""Soft-capped models: their own attention by blocks of queries, and rows that queries and keys give back."""

import json

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ceiling.capture import CaptureError, backend, backends, capture, forward, hooks, probe
from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import capture as stage
from tests.tiny_models import CONFIGS, build, save, tokens

N = 64

LOGIT_TOLERANCE = 1e-4
"""Logits, of size about 10; float32 rounding through three layers."""

RECOMPUTED_TOLERANCE = 1e-5
"""Probability; float32 rounding of logits of size about 10, summed in another order."""


def test_the_backend_is_named_by_what_the_model_needs():
    assert {kind: backend(build(kind)) for kind in CONFIGS} == {
        "llama": "sdpa",
        "qwen3": "sdpa",
        "mistral": "sdpa",
        "gemma3_text": "sdpa",
        "gemma2": "blocked-eager",
    }
    model = build("gemma2", attn_logit_softcapping=None)
    assert backend(model) == "sdpa"
    with torch.inference_mode(), capture(model, [30]) as recording:
        model(tokens(40))
    assert [layer.soft_cap for layer in recording.layers.values()] == [None] * 3


@pytest.mark.parametrize("rows", [1, 7, 16, 64])
def test_any_block_gives_what_eager_gives(rows, monkeypatch):
    monkeypatch.setattr(backends, "BLOCK", 4 * N * rows)
    model, eager, ids, every = build("gemma2"), build("gemma2", "eager"), tokens(N), list(range(N))
    with torch.inference_mode():
        expected = eager(ids, output_attentions=True)
        with capture(model, every) as recording:
            logits = model(ids).logits
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=LOGIT_TOLERANCE)
    for index, layer in recording.layers.items():
        assert layer.soft_cap == 5.0
        reference = expected.attentions[index][0]
        torch.testing.assert_close(layer.masses, reference, rtol=0, atol=RECOMPUTED_TOLERANCE)


def test_the_cap_is_felt():
    """Or the comparisons above would show nothing of it."""
    capped, free = build("gemma2", "eager"), build("gemma2", "eager", attn_logit_softcapping=None)
    with torch.inference_mode():
        assert (capped(tokens(N)).logits - free(tokens(N)).logits).abs().max() > 1


def test_sdpa_in_its_place_stops_the_capture(monkeypatch):
    monkeypatch.setattr(hooks, "backend", lambda _: "sdpa")
    model = build("gemma2")
    with pytest.raises(CaptureError, match="deviates"), torch.inference_mode(), capture(model, [40]):
        model(tokens(N))


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that an operation made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **kwargs or {})
        for tensor in made if isinstance(made, list | tuple) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().size() // tensor.itemsize)
        return made


def test_no_matrix_of_all_pairs_is_made():
    n = 2304  # the smallest round number whose square is well above a block
    assert 0.8 * n**2 > backends.BLOCK
    found = {}
    for attention in ("eager", "sdpa"):
        model = build("gemma2", attention, num_hidden_layers=2, max_position_embeddings=n)
        with torch.inference_mode(), Largest() as largest:
            if attention == "eager":
                forward(model, tokens(n)[0].numpy())
            else:
                with capture(model, [600, n - 1]):
                    forward(model, tokens(n)[0].numpy())
        found[attention] = largest.elements
    assert found["eager"] >= 4 * n**2  # the hook sees what there is
    assert found["sdpa"] <= backends.BLOCK


def test_layers_that_differ_in_their_cap_are_refused():
    model = build("gemma2")
    model.model.layers[1].self_attn.attn_logit_softcapping = 7.0
    with pytest.raises(InputError, match=r"differ in their soft cap, \[5.0, 7.0\]"):
        probe(model, tokens(N)[0].numpy())


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "prose.txt"
    path.write_text("A cache holds what was said; what it drops is not heard again. " * 8)
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_stored_queries_and_keys_give_the_stored_masses(kind, dtype, text, tmp_path):
    """What selectors rest on: numpy, the dump and its manifest are enough for any row of attention."""
    folder = save(tmp_path / kind, kind)
    options = {"tokens": 96, "documents": 1, "rows": 5, "queries": True, "device": "cpu", "dtype": dtype}
    dump = open_dump(stage.run(stage.plan(str(folder), text, out=tmp_path / "dump", **options)))
    assert dump.soft_cap == (5.0 if kind == "gemma2" else None)
    assert dump.scaling == (8**-0.5,) * 3
    document = dump.document(0)
    group = dump.heads // dump.kv_heads
    for layer in dump.layers:
        window = dump.windows[layer]
        assert window is None or window < document.query_positions.min()
        for head in range(dump.heads):
            queries, keys = document.queries(layer)[head], document.keys(layer)[head // group]
            for r, position in enumerate(document.query_positions):
                first = 0 if window is None else position + 1 - window
                logits = keys[first : position + 1] @ queries[position] * np.float32(dump.scaling[layer])
                if dump.soft_cap is not None:
                    logits = np.tanh(logits / dump.soft_cap) * dump.soft_cap
                weights = np.zeros(96, dtype=np.float32)
                weights[first : position + 1] = np.exp(logits - logits.max())
                np.testing.assert_allclose(
                    weights / weights.sum(),
                    document.masses(layer)[head, r],
                    rtol=0,
                    atol=RECOMPUTED_TOLERANCE,
                )


def test_the_manifest_holds_the_cap_and_the_backend(text, tmp_path):
    folder = save(tmp_path / "gemma2", "gemma2")
    options = {"tokens": 48, "documents": 1, "rows": 2, "device": "cpu"}
    plan = stage.plan(str(folder), text, out=tmp_path / "dump", **options)
    manifest = json.loads((stage.run(plan) / "manifest.json").read_text())
    assert manifest["backend"] == plan.identity.backend == "blocked-eager"
    assert manifest["architecture"]["soft_cap"] == 5.0
