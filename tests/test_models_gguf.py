"""GGUF files as models: converted right or refused, found again by content."""

import pytest
import torch

from ceiling import models
from ceiling.models import cache, gguf
from ceiling.problem import InputError
from tests import tiny_gguf


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("architecture", tiny_gguf.CONFIGS)
def test_the_converted_model_computes_what_was_written(architecture, empty_cache, tmp_path):
    """Norms, rotary layout and base, windows, tied weights and head size all reach the logits."""
    path = tiny_gguf.write(tmp_path / "tiny.gguf", architecture)
    loaded = models.load(models.resolve(str(path)), "cpu", "float32")
    original = tiny_gguf.model(architecture)
    ids = torch.arange(4, 4 + 3 * tiny_gguf.WINDOW)[None]
    with torch.inference_mode():
        expected, found = original(ids).logits, loaded.model(ids).logits
    # float32 (2^-24 relative), a few thousand terms, norms after 1 was added and taken away
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert loaded.licence == "mit"


def test_a_gguf_file_is_converted_once_by_content(empty_cache, tmp_path, monkeypatch):
    path = tiny_gguf.write(tmp_path / "Tiny.Q8.gguf", "gemma3")
    source = models.resolve(str(path))
    assert source.kind == "gguf"
    first = source.fetch()
    assert (first.id, first.revision) == ("Tiny.Q8", None)
    assert first.label() == f"Tiny.Q8@{first.label()[-6:]}"
    with monkeypatch.context() as patch:
        patch.setattr(gguf, "convert", lambda *_: pytest.fail("converted again"))
        assert source.fetch() == first
    tiny_gguf.write(path, "gemma3", settings={"context_length": 128})
    second = source.fetch()
    assert second.path != first.path
    assert second.label() != first.label()


@pytest.mark.parametrize(
    ("architecture", "changes", "words"),
    [
        ("gemma3", {"settings": {"rope.scaling.type": "linear"}}, "sets gemma3.rope.scaling.type, which"),
        ("gemma3", {"settings": {"final_logit_softcapping": 30.0}}, "sets gemma3.final_logit_softcapping"),
        ("gemma3", {"settings": {"attention.value_length": 4}}, "attention.value_length = 4"),
        ("llama", {"settings": {"attention.key_length": 16}}, "llama.attention.key_length = 16"),
        ("llama", {"settings": {"expert_count": 8}}, "sets llama.expert_count"),
        ("llama", {"settings": {"block_count": 3}}, "lacks weights, model.layers.2"),
        ("llama", {"tensors": {"rope_freqs.weight": torch.ones(4)}}, "holds 22 tensors, its conversion 21"),
        ("llama", {"tokenizer": {"pre": "viking"}}, r"tokenizer \(gpt2, viking\) is not rebuilt"),
        ("llama", {"tokenizer": {"model": "bert"}}, r"tokenizer \(bert, smollm\) is not rebuilt"),
        ("gemma3", {"tokenizer": {"scores": None}}, "tokenizer lacks 'tokenizer.ggml.scores'"),
        (
            "gemma3",
            {"tokenizer": {"scores": [-1000.0] * len(tiny_gguf.sentencepiece()["tokens"])}},
            "scores are no ranks",
        ),
    ],
)
def test_what_a_conversion_would_lose_is_refused(architecture, changes, words, empty_cache, tmp_path):
    path = tiny_gguf.write(tmp_path / "tiny.gguf", architecture, **changes)
    with pytest.raises(InputError, match=words):
        models.resolve(str(path)).fetch()
    assert list((empty_cache / "models").iterdir()) == []  # nothing half-done


def test_other_architectures_and_broken_files_are_refused(empty_cache, tmp_path):
    path = tiny_gguf.write(tmp_path / "tiny.gguf", "gemma3")
    content = path.read_bytes()
    for broken, words in (
        (content.replace(b"gemma3", b"mamba2"), "architecture 'mamba2'; converted are llama"),
        (b"no GGUF" * 100, "is no readable GGUF file"),
        (content[: len(content) // 2], r"tiny.gguf (is no readable GGUF file|cannot be converted)"),
        (b"", "is no readable GGUF file"),
    ):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=words):
            models.resolve(str(path)).fetch()
