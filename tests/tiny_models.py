"""Random-weight models of a few thousand parameters, one for each kind of attention that matters."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY = 259
"""The 256 bytes and three special tokens."""

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "initializer_range": 0.3,  # large enough for a softmax that is far from uniform
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "mistral": {"sliding_window": 16},
    "gemma3_text": {
        "sliding_window": 16,
        "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "gemma2": {"sliding_window": 16, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0},
}
"""What capture supports: GQA, QK-norm, a window shorter than the text, both with alternating windows, and a
soft cap that most logits feel, with alternating windows."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "gpt_oss": ({"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 16}, "sinks"),
    "deepseek_v3": (
        {
            "num_key_value_heads": 4,
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
            "n_routed_experts": 2,
            "num_experts_per_tok": 1,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "first_k_dense_replace": 3,
        },
        "latent",
    ),
    "mamba": ({}, "state-space"),
    "qwen3_next": ({"num_experts": 2, "num_experts_per_tok": 1, "linear_num_value_heads": 2}, "linear"),
    "recurrent_gemma": ({"lru_width": 32, "attention_window_size": 16}, "recurrent"),
    "lfm2": ({"full_attn_idxs": [1]}, "recurrent"),
    "llama4_text": ({"num_local_experts": 2, "attention_chunk_size": 16}, "chunked"),
    "bert": ({}, "bidirectional"),
    "bloom": ({"n_head": 4, "n_layer": 3}, "registry"),
}
"""What it refuses: model type -> (configuration, a word of the reason)."""


def build(kind: str, attention: str = "sdpa", **changes: Any) -> PreTrainedModel:
    """A model of type `kind` with seeded random weights, in evaluation mode."""
    own = CONFIGS[kind] if kind in CONFIGS else REFUSED[kind][0] if kind in REFUSED else {}
    config = AutoConfig.for_model(kind, **{**SMALL, **own, **changes})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return model.eval()


def tokens(n: int, seed: int = 0) -> torch.Tensor:
    """Token ids [1, n], never a special one."""
    return torch.randint(3, VOCABULARY, (1, n), generator=torch.Generator().manual_seed(seed))


def save(folder: Path, kind: str = "llama", **changes: Any) -> Path:
    """Write a model and a tokenizer of single bytes as a Hugging Face folder; returns it."""
    vocabulary = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    coder = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=[]))
    coder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    coder.decoder = decoders.ByteLevel()
    build(kind, **changes).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=coder, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=256
    ).save_pretrained(folder)
    return folder
