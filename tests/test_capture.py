"""Capture against eager attention, and a model left as it was found."""

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import ceiling
from ceiling import models
from ceiling.capture import CaptureError, Recording, capture, forward_seconds, layer_bytes, sample_positions
from ceiling.models.built_in import converted_folder
from ceiling.problem import InputError
from tests import gpu_check
from tests.tiny_models import CONFIGS, build, save, tokens

N, POSITIONS = 64, [20, 40, 63]

EAGER_TOLERANCE = 1e-5
"""Probability; float32 rounding of logits of size about 10, which eager and sdpa sum in different orders."""

LOGIT_TOLERANCE = 1e-4
"""Logits, of size about 10; float32 rounding through three layers."""


@pytest.fixture(params=CONFIGS)
def kind(request) -> str:
    return request.param


def test_masses_are_those_of_eager_attention(kind):
    model, eager = build(kind), build(kind, "eager")
    ids = tokens(N)
    with torch.inference_mode():
        expected = eager(ids, output_attentions=True)
        with capture(model, POSITIONS) as recording:
            model(ids)
    assert sorted(recording.layers) == [0, 1, 2]
    for index, layer in recording.layers.items():
        reference = expected.attentions[index][0, :, POSITIONS]
        assert layer.masses.dtype == torch.float32
        assert layer.masses.shape == (4, len(POSITIONS), N)
        torch.testing.assert_close(layer.masses, reference, rtol=0, atol=EAGER_TOLERANCE)
        assert torch.equal(layer.masses == 0, reference == 0)  # the same keys are visible
        assert float(layer.masses.max()) > 0.1  # far from uniform, or the comparison would show little
        assert layer.deviation.shape == (4, len(POSITIONS))
        assert float(layer.deviation.max()) < 1e-6


def test_the_model_computes_what_it_computes_without(kind):
    model, ids = build(kind), tokens(N)
    capped = kind == "gemma2"  # sdpa leaves the cap out: only eager computes what the model means
    with torch.inference_mode():
        plain = (build(kind, "eager") if capped else model)(ids).logits
        with capture(model, POSITIONS, queries=True):
            captured = model(ids).logits
    torch.testing.assert_close(captured, plain, rtol=0, atol=LOGIT_TOLERANCE if capped else 0)


def test_windows_are_the_models_own():
    alternating = [16, None, 16]
    for kind, windows in (
        ("llama", [None] * 3),
        ("mistral", [16] * 3),
        ("gemma3_text", alternating),
        ("gemma2", alternating),
    ):
        model = build(kind)
        with torch.inference_mode(), capture(model, POSITIONS) as recording:
            model(tokens(N))
        assert [recording.layers[i].window for i in range(3)] == windows
        for layer in recording.layers.values():
            visible = (layer.masses > 0).sum(-1)
            expected = [min(layer.window or N, p + 1) for p in POSITIONS]
            assert visible.tolist() == [expected] * 4


def test_values_and_masses_give_the_output_and_queries_and_keys_the_masses():
    model = build("qwen3")
    outputs = {}
    for index, layer in enumerate(model.model.layers):
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda _, args, index=index: outputs.__setitem__(index, args[0][0].unflatten(-1, (4, 8)))
        )
    with torch.inference_mode(), capture(model, POSITIONS, queries=True) as recording:
        model(tokens(N))
    for index, layer in recording.layers.items():
        for head in range(4):
            for row, position in enumerate(POSITIONS):
                masses = layer.masses[head, row]
                torch.testing.assert_close(masses @ layer.values[head // 2], outputs[index][position, head])
                assert layer.queries is not None
                logits = layer.keys[head // 2, : position + 1] @ layer.queries[head, position] * layer.scaling
                torch.testing.assert_close(torch.softmax(logits, -1), masses[: position + 1])


def test_bfloat16_is_kept_and_masses_are_float32(kind):
    model = build(kind).to(torch.bfloat16)
    with torch.inference_mode(), capture(model, POSITIONS, queries=True) as recording:
        model(tokens(N))
    for layer in recording.layers.values():
        assert layer.queries is not None
        assert {layer.keys.dtype, layer.values.dtype, layer.queries.dtype} == {torch.bfloat16}
        assert layer.masses.dtype == torch.float32
        assert 1e-5 < float(layer.deviation.max()) < 4e-3


def state(model) -> tuple:
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    implementations = [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")]
    functions = (sorted(AttentionInterface._global_mapping), sorted(AttentionMaskInterface._global_mapping))
    return hooks, implementations, functions, sorted(vars(model)), model.config.to_dict()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("fails", [False, True])
def test_nothing_stays_behind(kind, attention, fails):
    model = build(kind, attention)
    before = state(model)

    def forward() -> None:
        with torch.inference_mode(), capture(model, POSITIONS):
            assert state(model) != before
            model(tokens(N))
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            forward()
    else:
        forward()
    assert state(model) == before


def test_the_backbone_alone_can_be_captured_and_captures_can_nest():
    model, ids = build("llama"), tokens(N)
    with torch.inference_mode():
        with capture(model.model, [5]) as outer, capture(model, POSITIONS) as inner:
            model(ids)
            assert not outer.layers  # the innermost records
            outer.seen.update(inner.seen)
        with capture(model.model, POSITIONS) as recording:
            model.model(inputs_embeds=model.get_input_embeddings()(ids), use_cache=False)
    for index, layer in recording.layers.items():
        assert torch.equal(layer.masses, inner.layers[index].masses)


def test_layers_stream_to_the_caller():
    model, got = build("llama"), []
    with torch.inference_mode(), capture(model, POSITIONS, on_layer=got.append) as recording:
        model(tokens(N))
    assert [layer.index for layer in got] == [0, 1, 2]
    assert recording.layers == {}


@pytest.mark.parametrize("wrong", ["factor", "nan"])
def test_a_row_that_is_not_the_models_stops_the_capture(wrong):
    model, sdpa = build("llama"), ALL_ATTENTION_FUNCTIONS["sdpa"]

    def lying(module, *args, **kwargs):
        output, weights = sdpa(module, *args, **kwargs)
        if module.layer_idx == 1:
            output[0, 40, 2] *= torch.nan if wrong == "nan" else 1.01
        return output, weights

    ALL_ATTENTION_FUNCTIONS["sdpa"] = lying
    try:
        with (
            pytest.raises(CaptureError, match=r"layer 1, head 2, position 40: .* deviates"),
            torch.inference_mode(),
            capture(model, POSITIONS),
        ):
            model(tokens(N))
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]


def test_a_window_that_is_not_the_masks_stops_the_capture():
    """Without a mask function under the capture's name a windowed model would run full attention."""
    recording = Recording([9], queries=False, on_layer=None)
    module = build("mistral").model.layers[0].self_attn
    heads = torch.randn(1, 4, 10, 8)
    with pytest.raises(CaptureError, match="layer 0, position 9: the mask shows 10 keys, expected 4"):
        recording.take(module, heads, heads, heads, None, heads.transpose(1, 2), scaling=None, window=4)


def test_additive_masks_count_like_boolean_ones():
    module = build("mistral").model.layers[0].self_attn
    query, key, value = (torch.randn(1, heads, 10, 8) for heads in (4, 2, 2))
    visible = torch.ones(10, 10, dtype=torch.bool).tril().triu(-3)[None, None]
    additive = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    output, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, visible, scaling=0.3)
    taken = []
    for mask in (visible, additive):
        recording = Recording([2, 9], queries=False, on_layer=None)
        recording.take(module, query, key, value, mask, output, scaling=0.3, window=4)
        taken.append(recording.layers[0].masses)
    assert torch.equal(*taken)


def test_the_front_door_is_the_function_though_the_room_bears_its_name():
    """This file imported the room first, which alone would put the module into the package."""
    assert ceiling.capture is capture
    model = build("llama")
    with torch.inference_mode(), ceiling.capture(model, positions=[5]) as recording:
        model(tokens(8))
    assert len(recording.layers) == 3


def test_a_model_spread_over_devices_is_captured_layer_by_layer(tmp_path):
    """Layers left on the disk are on the meta device until accelerate brings each in its turn."""
    folder = save(tmp_path / "model")
    places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "cpu", "lm_head": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    spread = AutoModelForCausalLM.from_pretrained(
        folder, device_map=places, offload_folder=tmp_path / "disk", attn_implementation="sdpa"
    ).eval()
    assert {p.device.type for p in spread.parameters()} == {"cpu", "meta"}
    taken = []
    for model in (spread, build("llama")):
        with torch.inference_mode(), capture(model, [20, 39]) as recording:
            model(tokens(40))
        taken.append(recording.layers)
    for index in range(3):
        assert torch.equal(taken[0][index].masses, taken[1][index].masses)
        assert torch.equal(taken[0][index].values, taken[1][index].values)


def test_positions_are_drawn_where_none_are_given():
    model = build("llama")
    with torch.inference_mode(), ceiling.capture(model) as recording:
        model(tokens(40))
    assert recording.positions == sample_positions(40, 6, seed=0, document=0)
    assert recording.layers[2].masses.shape == (4, 6, 40)


def test_sampled_positions():
    drawn = sample_positions(1024, 6, seed=0, document=3)
    assert drawn == sample_positions(1024, 6, seed=0, document=3)
    assert drawn == tuple(sorted(set(drawn)))
    assert len(drawn) == 6
    others = {sample_positions(1024, 6, seed, document) for seed in range(3) for document in range(3)}
    assert len(others) == 9
    assert sample_positions(8, 6, seed=0, document=0) == (2, 3, 4, 5, 6, 7)  # all of [N/4, N)
    everything = np.concatenate([sample_positions(1024, 6, 0, document) for document in range(2000)])
    assert (everything.min(), everything.max()) == (256, 1023)
    assert abs(everything.mean() - 639.5) < 5 * 222 / np.sqrt(
        len(everything)
    )  # uniform: five standard errors
    for bad, words in (
        ((8, 7, 0, 0), "rows: 7 do not fit into positions 2..7 of 8"),
        ((8, 0, 0, 0), "rows: 0"),
        ((0, 1, 0, 0), "tokens: 0"),
        ((8, 1, -1, 0), "seed: -1"),
    ):
        with pytest.raises(InputError, match=words):
            sample_positions(*bad)


def test_costs():
    model = build("llama")
    with torch.inference_mode(), capture(model, POSITIONS, queries=True) as recording:
        model(tokens(N))
    layer = recording.layers[0]
    assert layer.queries is not None
    taken = sum(t.numel() * 4 for t in (layer.masses, layer.keys, layer.values))
    assert layer_bytes(model.config, N, 3, queries=False, itemsize=4) == taken
    assert layer_bytes(model.config, N, 3, queries=True, itemsize=4) == taken + layer.queries.numel() * 4
    one, two = (forward_seconds(model.model, n, "cpu", torch.float32) for n in (10**6, 10**8))
    assert 0 < one < two


def test_the_gpu_check_runs_on_a_cpu_too():
    for kind in gpu_check.KINDS:
        found = gpu_check.measure(kind, tokens=640, device="cpu", dtype=torch.float32, scale=16)
        assert found["deviation"] < 1e-4


@pytest.mark.skipif(
    not converted_folder(models.BUILT_INS["smollm2-135m"]).exists(), reason="smollm2-135m is not in the cache"
)
def test_smollm2_against_eager():
    loaded = models.load(models.resolve("smollm2-135m"), "cpu", "float32")
    text = "The sum of the masses of all keys is one. " * 30
    ids = torch.tensor([models.encoder(loaded.tokenizer)(text)[:256]])
    with torch.inference_mode():
        with capture(loaded.model, [100, 255]) as recording:
            loaded.model(ids)
        loaded.model.set_attn_implementation("eager")
        attentions = loaded.model(ids, output_attentions=True).attentions
    assert len(recording.layers) == 30
    for index, layer in recording.layers.items():
        torch.testing.assert_close(layer.masses, attentions[index][0, :, [100, 255]], rtol=0, atol=1e-4)
        assert float(layer.deviation.max()) <= 1e-5
