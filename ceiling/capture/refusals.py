"""What a capture refuses, by name and before the first forward: rows that would not be what they seem."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ceiling.capture.recording import FIDELITY_TOLERANCE
from ceiling.problem import InputError

LAYER_TYPES = {"full_attention", "sliding_attention"}
"""Kinds of layer whose rows are softmax over the last `window` keys."""

# Class names, by their capitals: "ssm" in lower case would also be found in SeedOssMLP.
_RECURRENT = re.compile(
    r"Mamba|SSM|Ssm|DeltaNet|Recurrent|R[Ww][Kk][Vv]|Rglru|LSTM|LinearAttention|LightningAttention|ShortConv"
)
_LATENT = re.compile(r"kv_a_proj|kv_b_proj|kv_a_layernorm")
_SINK = re.compile(r"(^|[._])(attention_)?sinks?($|[._])|sink_bias")


def check_model(model: nn.Module) -> None:
    """Refuse a model whose captured rows would not be its attention.

    Raises
    ------
    InputError
        Naming the property that stands against it.
    """
    if not hasattr(model, "get_decoder"):
        raise InputError(f"model: {type(model).__name__} is no language model of transformers")
    if model.training:
        raise InputError("model: it is in training mode; call model.eval() first")
    if getattr(model.config, "is_encoder_decoder", False):
        raise InputError("model: it is an encoder-decoder; a row is one of causal self-attention")
    backbone = model.get_decoder()
    kind = getattr(backbone.config, "model_type", type(backbone).__name__)
    for reason, holds in REFUSALS:
        if holds(backbone.config, backbone):
            raise InputError(f"model: {kind} is refused, {reason}")


def check_call(config: Any, positions: Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Refuse a forward call whose rows would not be plain causal rows of one whole text.

    Parameters
    ----------
    config : transformers.PreTrainedConfig
        Of the backbone.
    positions : sequence of int
        Sampled positions, ascending; empty where they are still to be drawn.
    args, kwargs
        Of the backbone's forward.

    Returns
    -------
    int
        How many tokens the text has.

    Raises
    ------
    InputError
    """
    tokens = kwargs.get("input_ids", args[0] if args else None)
    if tokens is None:
        tokens = kwargs.get("inputs_embeds")
    if not isinstance(tokens, torch.Tensor):
        raise InputError("input_ids: not given; call the model with one tensor of token ids")
    batch, n = tokens.shape[:2]
    if batch != 1:
        raise InputError(f"input_ids: a batch of {batch}; captures take one text at a time, without padding")
    check_length(config, n)
    if positions and positions[-1] >= n:
        raise InputError(f"positions: {positions[-1]} is outside the {n} tokens of the input")
    mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
    if mask is not None:
        if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
            raise InputError("attention_mask: a custom mask; captures take plain causal texts")
        if not bool(mask.all()):
            raise InputError("attention_mask: it marks padding; captures take one text without padding")
    if kwargs.get("output_attentions"):
        raise InputError("output_attentions: it is on; sdpa gives no attention matrix, switch it off")
    cache = kwargs.get("past_key_values")
    if cache is not None and cache.get_seq_length() > 0:
        raise InputError("past_key_values: the cache holds tokens already; captures take a whole text")
    return int(n)


def check_length(config: Any, tokens: int) -> None:
    """Refuse more tokens than the model has positions."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and tokens > limit:
        raise InputError(f"tokens: {tokens} is beyond the model's {limit} positions")


def _attentions(backbone: nn.Module) -> Iterator[nn.Module]:
    """The modules that call the attention function: a layer index, and heads that share keys."""
    for module in backbone.modules():
        if hasattr(module, "layer_idx") and hasattr(module, "is_causal"):
            yield module


def _sinks(_: Any, backbone: nn.Module) -> bool:
    return any(_SINK.search(name) for name, _ in backbone.named_parameters())


def _latent(config: Any, backbone: nn.Module) -> bool:
    ranked = getattr(config, "kv_lora_rank", None) is not None
    return ranked or any(_LATENT.search(name) for name, _ in backbone.named_modules())


def _recurrent(config: Any, backbone: nn.Module) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ()) - LAYER_TYPES - {"chunked_attention"}
    named = any(_RECURRENT.search(type(module).__name__) for module in backbone.modules())
    return named or bool(kinds) or getattr(config, "num_attention_heads", None) is None


def _chunked(config: Any, _: nn.Module) -> bool:
    return "chunked_attention" in (getattr(config, "layer_types", None) or ())


def _bidirectional(_: Any, backbone: nn.Module) -> bool:
    return any(not module.is_causal for module in _attentions(backbone))


def _outside(config: Any, backbone: nn.Module) -> bool:
    layers = {module.layer_idx for module in _attentions(backbone)}
    supported = getattr(backbone, "_supports_attention_backend", False)
    return not supported or layers != set(range(config.num_hidden_layers))


def _odd_dtype(_: Any, backbone: nn.Module) -> bool:
    return next(backbone.parameters()).dtype not in FIDELITY_TOLERANCE


REFUSALS: tuple[tuple[str, Callable[[Any, nn.Module], bool]], ...] = (
    ("attention sinks: the softmax denominator holds more than the visible keys", _sinks),
    ("multi-head latent attention: its cache holds no keys and values by head", _latent),
    ("linear, recurrent or state-space layers: they have no attention rows", _recurrent),
    ("chunked attention: what a query sees is no window that ends at it", _chunked),
    ("bidirectional attention: a query sees keys after it", _bidirectional),
    ("attention outside transformers' attention-function registry", _outside),
    (
        "output_attentions is on: sdpa gives no attention matrix, switch it off",
        lambda config, _: bool(config.output_attentions),
    ),
    ("its dtype is not float32, bfloat16 or float16", _odd_dtype),
)
"""Reason -> the property, read from the configuration and the modules, that calls for it."""
