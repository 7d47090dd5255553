"""Presses by name and what is refused, all without importing kvpress; the rest is in `audit_pass_check`."""

import dataclasses
import pickle
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.kinds import Kind
from ceiling.audit.press import DEFAULT, FULL, ROSTER, Press, resolve
from ceiling.audit.refusals import facts, note, refusal, windows
from ceiling.audit.selection import best, best_of_layer
from ceiling.problem import InputError
from tests import tiny_models

HALF = Budget("ratio", 0.5)


def test_the_roster_is_known_without_kvpress():
    real = ["snapkv", "h2o", "tova", "expected_attention", "adakv", "keydiff"]
    trivial = ["random", "knorm", "streaming_llm"]
    nine = [*real, *trivial]
    assert [press.label for press in DEFAULT] == nine
    assert [press.label for press in ROSTER] == [*nine, "full", "adakv:storage=ragged", "snapkv:window=16"]
    assert [resolve(press.label) for press in ROSTER] == list(ROSTER)
    assert {press.name for press in DEFAULT if press.role == "trivial"} == {
        "random",
        "knorm",
        "streaming_llm",
    }
    assert [press.name for press in ROSTER if press.masks] == ["adakv"]
    assert [press.name for press in ROSTER if press.blind] == [*trivial, "full"]
    assert "kvpress" not in sys.modules


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("snapkv:window=16,kernel=7", "snapkv:kernel=7,window=16"),
        ("snapkv:window_size=16", "snapkv:window=16"),
        ("snapkv:window=64", "snapkv"),
        ("SnapKV", "snapkv"),
        ("streamingllm", "streaming_llm"),
        ("observed_attention", "h2o"),
        ("adakv:alpha=.5,storage=mask", "adakv:alpha=0.5"),
        ("expected_attention:use_vnorm=false", "expected_attention:use_vnorm=False"),
        ("random:seed=3", "random:seed=3"),
    ],
)
def test_a_press_has_one_label(text, label):
    press = resolve(text)
    assert press.label == label
    assert resolve(label) == press
    assert pickle.loads(pickle.dumps(press)) == press


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("snapkv:windw=16", "names: window, kernel"),
        ("snapkv:", "NAME=VALUE"),
        ("snapkv:window=", "a whole number"),
        ("snapkv:window=1.5", "a whole number"),
        ("snapkv:window=0", "at least 1"),
        ("snapkv:kernel=4", "only if odd"),
        ("snapkv:window=16,window_size=8", "repeated"),
        ("adakv:alpha=2", "from 0 to 1"),
        ("streaming_llm:n_sink=-3", "n_sink=-3 of streaming_llm; at least 0"),
        ("expected_attention:n_future_positions=0", "at least 1 is needed"),
        ("expected_attention:epsilon=nan", "epsilon=nan"),
        ("criticalkv:first_stage_ratio=2", "from 0 to 1"),
        ("adakv:storage=disk", "mask or ragged"),
        ("expected_attention:use_vnorm=perhaps", "True or False"),
        ("knorm:window=3", "names: none"),
        ("duo_attention", "network"),
        ("key_rerotation", "wraps another press"),
        ("prefill_decoding", "while decoding"),
    ],
)
def test_a_bad_press_says_what_is_right(text, reason):
    with pytest.raises(InputError, match=reason):
        resolve(text)


def asked(press, model, backend="eager", arm=Arm.AGNOSTIC, budget=HALF, context=1000, question=20, **more):
    return refusal(resolve(press), model, backend, "float32", arm, budget, context, question, **more)


def facts_of(kind, **changes):
    return facts(tiny_models.build(kind, **changes))


def test_every_press_runs_on_a_plain_model_under_eager():
    for kind in ("llama", "qwen3"):
        found = facts_of(kind)
        assert found.windows == (None, None, None)
        for press in ROSTER:
            for arm in Arm:
                assert refusal(press, found, "eager", "float32", arm, HALF, 1000, 20) is None
                if press.name != "h2o":
                    assert refusal(press, found, "sdpa", "bfloat16", arm, HALF, 1000, 20) is None


def test_what_a_setting_refuses():
    llama = facts_of("llama")
    assert "eager" in asked("h2o", llama, "sdpa")
    assert "needs more than that many" in asked("snapkv", llama, context=64)
    assert asked("snapkv", llama, arm=Arm.AWARE_KVPRESS, context=64) is None
    assert "n_sink of 4" in asked("streaming_llm", llama, arm=Arm.AWARE_SCORES, context=4)
    assert "keeps 0 of 1000" in asked("knorm", llama, budget=Budget("held", 0.02))
    assert "patched" in asked("adakv", llama, native=True)
    assert asked("adakv", llama, "sdpa", native=True) is None
    assert "aware-scores" in asked("snapkv", llama, native=True, arm=Arm.AWARE_SCORES)
    assert "aware-scores" in asked("critical_adakv", llama, "sdpa", arm=Arm.AWARE_SCORES)
    assert "neither eager nor sdpa" in asked("knorm", llama, "flash_attention_2")
    assert "only the anchor" in asked("knorm", llama, budget=None)
    assert refusal(FULL, llama, "sdpa", "float32", Arm.AWARE_SCORES, None, 10, 2) is None
    assert "float8" in refusal(FULL, llama, "sdpa", "float8", Arm.AGNOSTIC, None, 10, 2)


def test_what_a_family_refuses():
    mistral = facts_of("mistral")
    assert "every layer of mistral is windowed" in asked("knorm", mistral)
    gemma2, gemma3 = facts_of("gemma2"), facts_of("gemma3_text")
    assert gemma3.windows == (16, None, 16)
    assert "drops the soft cap" in asked("knorm", gemma2, "sdpa")
    assert asked("snapkv", gemma2) is None
    assert "capped" in asked("expected_attention", gemma2)
    assert asked("tova", gemma3, "sdpa") is None  # scaled by the head size, as kvpress has it
    assert "without naming the layer's type" in asked("expected_attention", gemma3)
    assert "cuts the windowed layers" in asked("snapkv", gemma3, native=True)
    scaled = facts_of("gemma3_text", query_pre_attn_scalar=16)
    for press in ("snapkv", "tova", "adakv"):
        assert "not scaled by the square root" in asked(press, scaled, "sdpa")
        assert asked(press, scaled, "eager") is None
    assert asked("keydiff", scaled, "sdpa") is None


def test_what_reads_a_tokenizer_needs_the_models_folder(tmp_path):
    kvzip = Press(Kind("kvzip", "kvpress:KVzipPress", masks=True, route="native"))
    setting = ("sdpa", "float32", Arm.AGNOSTIC, HALF, 1000, 20)
    assert "the model's own folder, and there is none" in refusal(kvzip, facts_of("llama"), *setting)
    model = tiny_models.build("llama")
    model.config.name_or_path = str(tiny_models.save(tmp_path / "own"))
    assert refusal(kvzip, facts(model), *setting) is None


def test_normed_queries_are_known_of_two_families_alone():
    olmo2 = facts_of("olmo2")
    assert "normalised" in asked("snapkv", olmo2, "sdpa")
    assert asked("snapkv", olmo2) is None
    assert "normalised" in asked("expected_attention", olmo2)


def test_a_model_without_rotary_layers_is_refused():
    with pytest.raises(InputError, match="opt is refused, kvpress hooks"):
        facts_of("opt", word_embed_proj_dim=32, ffn_dim=48)


def test_windows_are_read_off_every_kind_of_model():
    assert windows(tiny_models.build("mistral")) == (16, 16, 16)
    assert windows(tiny_models.build("qwen2")) == (None, None, None)


def test_a_budget_below_what_a_press_protects_is_noted():
    snapkv, small = resolve("snapkv"), Budget("slots", 63)
    assert "fewer than its window of observation of 64" in note(snapkv, Arm.AGNOSTIC, small, 1000, 20)
    assert note(snapkv, Arm.AGNOSTIC, Budget("slots", 64), 1000, 20) is None
    assert note(resolve("knorm"), Arm.AGNOSTIC, small, 1000, 20) is None


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 40), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_a_layers_budget_is_spent_where_scores_are_high(seed, heads, length, alpha):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(1, heads, length, generator=generator)
    count = int(torch.randint(1, length, (), generator=generator))
    before = scores.clone()
    kept = best_of_layer(scores, count, alpha)
    assert torch.equal(scores, before)
    assert sum(map(len, kept)) == heads * count
    own = best(scores, count)
    safe = max(1, int(count * alpha)) if alpha else 0
    for head, (mine, equal) in enumerate(zip(kept, own, strict=True)):
        assert len(mine) >= safe
        assert torch.equal(mine, best(scores, max(1, len(mine)))[head]) or len(mine) == 0
        assert len(equal) == count
    if alpha == 1:
        assert all(map(torch.equal, kept, own))
    if alpha == 0:
        threshold = scores.flatten().topk(heads * count).values.min()
        assert all((scores[0, head, mine] >= threshold).all() for head, mine in enumerate(kept))


def test_a_press_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.values = ()
