"""Tokenizers rebuilt from GGUF vocabularies."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from ceiling import models
from ceiling.models import built_in
from ceiling.models.gguf_tokenizer import BYTE_LEVEL, rebuild
from ceiling.problem import InputError
from tests import tiny_gguf

GEMMA3 = models.BUILT_INS["gemma3-270m"]
needs_gemma3 = pytest.mark.skipif(
    not built_in.converted_folder(GEMMA3).exists(), reason="gemma3-270m is not in the cache"
)


def build(words, **changes):
    keys = {f"tokenizer.ggml.{name}": value for name, value in (words | changes).items()}
    return rebuild(keys | {"general.architecture": "gemma3", "gemma3.context_length": 256}, "tiny.gguf")


def encode(coder, text):
    return coder.convert_ids_to_tokens(models.encoder(coder)(text))


def test_the_best_score_is_merged_first():
    coder = build(tiny_gguf.sentencepiece())
    assert encode(coder, "the and") == ["the", "▁and"]
    assert encode(coder, "  then") == ["  ", "the", "n"]
    assert encode(coder, "é\n\n") == ["<0xC3>", "<0xA9>", "\n\n"]
    assert encode(coder, "<eos>") == ["<eos>"]
    assert encode(coder, "<0x41>") == [f"<0x{byte:02X}>" for byte in b"<0"] + ["x"] + [
        f"<0x{byte:02X}>" for byte in b"41>"
    ]
    assert models.start_tokens(coder) == (2,)
    assert models.start_tokens(build(tiny_gguf.sentencepiece(), add_bos_token=False)) == ()


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (tiny_gguf.sentencepiece(), {"bos_token_id": 99_999}),
        (tiny_gguf.sentencepiece(), {"token_type": [1, 2]}),
        (tiny_gguf.byte_level(), {"merges": ["th"]}),
        (tiny_gguf.byte_level(), {"merges": ["q zz"]}),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(words, changes):
    with pytest.raises(InputError, match=r"model: tiny.gguf: its tokenizer is broken \("):
        build(words, **changes)


def test_a_space_goes_before_a_text_where_the_file_says_so():
    coder = build(tiny_gguf.sentencepiece(), add_space_prefix=True)
    assert encode(coder, "the and") == ["▁the", "▁and"]
    assert coder.decode(models.encoder(coder)(" the and")) == " the and"


def by_hand(text, scores):
    """SentencePiece's BPE as it is defined: merge the neighbours that make the best token, leftmost first."""
    parts = list(text)
    while True:
        pairs = [
            (scores[parts[i] + parts[i + 1]], len(parts[i]), -i)
            for i in range(len(parts) - 1)
            if parts[i] + parts[i + 1] in scores
        ]
        if not pairs:
            return parts
        i = -max(pairs)[2]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@settings(deadline=None, max_examples=60)
@given(
    words=st.lists(st.text("abc", min_size=2, max_size=4), max_size=12, unique=True),
    text=st.text("abc", max_size=20),
)
def test_merges_follow_the_scores(words, text):
    tokens = [*"abc", *words]
    scores = {token: -float(i) for i, token in enumerate(tokens)}
    coder = build(
        {"model": "llama", "tokens": tokens, "scores": [*scores.values()], "token_type": [1] * len(tokens)},
        add_space_prefix=False,
    )
    assert encode(coder, text) == by_hand(text, scores)


def test_byte_level_splits():
    def split(pre, text):
        return ["".join(piece) for piece, _ in BYTE_LEVEL[pre].pre_tokenize_str(text)]

    text = "In 1984, they'll\n\n  go"
    end = ["Ġ", "Ġgo"]
    assert split("gpt-2", text) == ["In", "Ġ1984", ",", "Ġthey", "'ll", "ĊĊĠ", "Ġgo"]
    assert split("llama-bpe", text) == ["In", "Ġ", "198", "4", ",", "Ġthey", "'ll", "ĊĊ", *end]
    assert split("qwen2", text) == ["In", "Ġ", *"1984", ",", "Ġthey", "'ll", "ĊĊ", *end]


@settings(deadline=None)
@given(text=st.text("aé漢 '\n\rs1²🙂_."))
def test_qwen2_splits_as_transformers_does(text):
    words = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated")
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    published = pre_tokenizers.Sequence([words, bytewise])
    assert BYTE_LEVEL["qwen2"].pre_tokenize_str(text) == published.pre_tokenize_str(text)


@pytest.mark.parametrize("pre", BYTE_LEVEL)
def test_byte_level_tokenizers_give_back_the_text(pre):
    coder = build(tiny_gguf.byte_level(pre))
    for text in ("the naïve 東京 🙂\r\n", "  x = 1234\n\n\tpass "):
        assert coder.decode(models.encoder(coder)(text)) == text


@pytest.fixture(scope="module")
def gemma3():
    return models.load(models.resolve("gemma3-270m"), "cpu", "float32")


PUBLISHED = {
    "Hello, world!": [9259, 236764, 1902, 236888],
    "The capital of France is Paris.": [818, 5279, 529, 7001, 563, 9079, 236761],
    "I'm don't can't": [236777, 236789, 236757, 1537, 236789, 236745, 740, 236789, 236745],
    "1+1=2": [236770, 236862, 236770, 236784, 236778],
    "def foo():\n    return 42": [2063, 46293, 6141, 107, 140, 2060, 236743, 236812, 236778],
    "  spaces  and\ttabs": [138, 35220, 138, 624, 255968, 39218],
    "Hello 你好": [9259, 43758, 237389],
    "日本語のテキストです": [94951, 236945, 95830, 3652],
    "café ñoño 😀": [123125, 236859, 236743, 6650, 6650, 163543],
    "emoji: 🎉🚀": [67906, 236787, 204906, 242015],
    "1234567890 numbers": [
        *(236770, 236778, 236800, 236812, 236810, 236825, 236832, 236828, 236819, 236771),
        4945,
    ],
}
"""What google/gemma-3's own tokenizer gives, as several public test suites record it."""


@needs_gemma3
def test_gemma3_tokenises_as_published(gemma3):
    encoded = models.encoder(gemma3.tokenizer)
    assert {text: encoded(text) for text in PUBLISHED} == PUBLISHED
    assert encoded("<start_of_turn>user\n") == [105, 2364, 107]
    assert models.start_tokens(gemma3.tokenizer) == (2,)
    assert len(gemma3.tokenizer) == gemma3.model.config.vocab_size == 262144
    assert gemma3.tokenizer.eos_token_id == gemma3.model.config.eos_token_id == 1


@needs_gemma3
@settings(deadline=None, max_examples=100)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_gemma3_gives_back_any_text(gemma3, text):
    assert gemma3.tokenizer.decode(models.encoder(gemma3.tokenizer)(text)) == text


BITS_A_CHARACTER = 1.1
"""Measured 0.983 on the text below; 1.41 without the start token, 8.8 with words split into letters."""


@needs_gemma3
def test_gemma3_predicts_english(gemma3):
    """Wrong merges, norms, rotary bases or scaling would cost far more."""
    from pydoc_data.topics import topics

    ids = models.encoder(gemma3.tokenizer)(topics["execmodel"])[:256]
    tokens = torch.tensor([[*models.start_tokens(gemma3.tokenizer), *ids]])
    with torch.inference_mode():
        logits = gemma3.model(tokens).logits[0, :-1]
    nats = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum").item()
    assert nats / math.log(2) / len(gemma3.tokenizer.decode(ids)) < BITS_A_CHARACTER


@needs_gemma3
def test_gemma3_is_configured_as_published(gemma3):
    """google/gemma-3-270m's config.json."""
    config = gemma3.model.config
    published = {
        "hidden_size": 640,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "intermediate_size": 2048,
        "sliding_window": 512,
        "query_pre_attn_scalar": 256,
        "max_position_embeddings": 32768,
        "vocab_size": 262144,
        "hidden_activation": "gelu_pytorch_tanh",
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
    }
    assert {name: getattr(config, name) for name in published} == published
    assert config.rope_parameters["full_attention"]["rope_theta"] == 1_000_000
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10_000
    assert gemma3.model.lm_head.weight is gemma3.model.get_input_embeddings().weight
