"""GGUF files of a few thousand random weights, written as llama.cpp's converter writes them."""

from pathlib import Path
from typing import Any

import torch
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tests.tiny_models import SMALL

WINDOW = 16
CONFIGS: dict[str, dict[str, Any]] = {
    "gemma3": {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": WINDOW},
    "llama": {"model_type": "llama", "num_hidden_layers": 2, "tie_word_embeddings": False},
    "qwen3": {"model_type": "qwen3", "num_hidden_layers": 2, "head_dim": 128},  # the one that it may have
}
WORDS = ("th", "the", "▁the", "an", "and", "▁and")
"""What the vocabulary of a SentencePiece tokenizer holds beside bytes and letters, best first."""


def model(architecture: str, seed: int = 0) -> PreTrainedModel:
    """The random model whose weights `write` puts into a file."""
    settings = SMALL | CONFIGS[architecture] | {"vocab_size": len(sentencepiece()["tokens"])}
    if architecture == "gemma3":
        settings["query_pre_attn_scalar"] = settings["head_dim"]
    if architecture == "llama":
        settings["vocab_size"] = len(byte_level()["tokens"])
    torch.manual_seed(seed)
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings)).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "norm" in name:  # as trained ones: neither 0 nor 1
                parameter += 0.3 * torch.randn_like(parameter)
    return made


def sentencepiece() -> dict[str, Any]:
    """A vocabulary of kind ``llama``: control tokens, bytes, letters by rank, two symbols never split."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    data = [f"<0x{i:02X}>" for i in range(256)]
    letters = [*"▁abcdefghijklmnopqrstuvwxyz"]
    normal = [*WORDS, *letters]
    return {
        "model": "llama",
        "pre": "default",
        "tokens": [*special, *data, *normal, "  ", "\n\n"],
        "scores": [-1000.0] * 4 + [0.0] * 256 + [-float(i) for i in range(len(normal))] + [-1000.0] * 2,
        "token_type": [3] * 4 + [6] * 256 + [1] * len(normal) + [4] * 2,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "add_bos_token": True,
        "add_space_prefix": False,
    }


def byte_level(pre: str = "smollm") -> dict[str, Any]:
    """A vocabulary of kind ``gpt2``: the bytes, one merge and a control token."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "<end>"]
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [1] * (len(tokens) - 1) + [3],
        "merges": ["t h"],
        "eos_token_id": len(tokens) - 1,
    }


def write(
    path: Path,
    architecture: str,
    settings: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    tensors: dict[str, torch.Tensor] | None = None,
) -> Path:
    """Write `model` with further `settings` and `tensors`; None in `tokenizer` leaves a key out."""
    made = model(architecture)
    config = made.config
    writer = GGUFWriter(path, architecture)
    writer.add_license("mit")
    given = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.freq_base": 1e6 if architecture == "gemma3" else 1e4,
    }
    if architecture == "gemma3":
        given["attention.sliding_window"] = config.sliding_window
    if architecture == "llama":
        given["rope.dimension_count"] = config.head_dim
    for name, value in (given | (settings or {})).items():
        _add(writer, f"{architecture}.{name}", value)
    words = (byte_level() if architecture == "llama" else sentencepiece()) | (tokenizer or {})
    for name, value in words.items():
        _add(writer, f"tokenizer.ggml.{name}", value)
    for name, tensor in (_tensors(architecture, made) | (tensors or {})).items():
        writer.add_tensor(name, tensor.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(architecture: str, made: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Weights under llama.cpp's names: Gemma's norms with the 1 added, Llama's rotary pairs side by side."""
    names = get_tensor_name_map(MODEL_ARCH[architecture.upper()], made.config.num_hidden_layers)
    tensors = {}
    for name, parameter in made.named_parameters():
        if architecture == "gemma3" and "norm" in name:
            parameter = parameter + 1
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = len(parameter) // made.config.head_dim
            parameter = (
                parameter.view(heads, 2, -1, parameter.shape[1]).swapaxes(1, 2).reshape(parameter.shape)
            )
        short = names.get_name(name, try_suffixes=(".weight",))
        assert short is not None
        tensors[short] = parameter.contiguous()
    return tensors


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    match value:
        case None:
            pass
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)
