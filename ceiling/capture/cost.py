"""What a capture will take: bytes on disk and seconds of forward, estimated before it runs."""

import time
from typing import Any

import torch

_SIDE = 512  # of the square matrices whose product measures the device
_SECONDS = 0.05  # how long that product is repeated
_SHARE = 0.65
"""Speed of a whole forward over that of its matrix products alone; attention, norms and writing take the rest
(measured 0.6 to 0.7 on two cores, float32)."""


def layer_bytes(config: Any, tokens: int, rows: int, queries: bool, itemsize: int) -> int:
    """Bytes of one layer of one document, from the model's configuration.

    Parameters
    ----------
    config : transformers.PreTrainedConfig
        Of the backbone.
    tokens, rows : int
        Tokens and sampled positions of the document.
    queries : bool
        Whether query vectors are kept.
    itemsize : int
        Bytes of one component in the model's dtype.
    """
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    stored = 2 * kv_heads + (heads if queries else 0)
    return tokens * (heads * rows * torch.float32.itemsize + stored * dim * itemsize)


def forward_seconds(backbone: Any, tokens: int, device: str, dtype: torch.dtype) -> float:
    """Rough time of forwards over `tokens` tokens, at the speed of one measured matrix product.

    Parameters
    ----------
    backbone : transformers.PreTrainedModel
        With or without weights; only its parameters' shapes count.
    tokens : int
        Of all documents together.
    device : str
    dtype : torch.dtype
        Where and in what type the model will run.
    """
    embedding = backbone.get_input_embeddings().weight.numel()
    inner = sum(parameter.numel() for parameter in backbone.parameters()) - embedding
    side = torch.ones(_SIDE, _SIDE, dtype=dtype, device=device)
    (side @ side).sum().item()  # the first product pays for starting the library
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < _SECONDS:
        (side @ side).sum().item()  # .item() waits for the device
        count += 1
    return tokens * inner * elapsed / (count * _SIDE**3) / _SHARE
