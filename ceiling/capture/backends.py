"""What computes the model's output while rows are recorded: sdpa, or blocks of queries under a soft cap."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

SDPA = "sdpa"
BLOCKED = "blocked-eager"

BLOCK = 2**22
"""Logits formed at a time (count; 16 MB in float32): few enough to fit beside any model, enough to keep a
device busy.  sdpa has no soft cap, and flex_attention without a compiler forms all N×N logits at once."""


class RowMask:
    """The mask of one forward as transformers defines it, made only for the rows and keys asked for.

    Parameters
    ----------
    **arguments
        What transformers hands to a mask function.
    """

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments

    def visible(self, queries: Tensor, first: int, keys: int) -> Tensor:
        """Whether each query position sees each of `keys` keys from `first` on, bool [queries, keys]."""
        chosen = {"cache_position": queries, "kv_offset": first, "kv_length": keys}
        mask = sdpa_mask(**self._arguments | chosen | {"allow_is_causal_skip": False})
        assert mask is not None  # only a skipped one is
        return mask[0, 0]


def soft_capped(logits: Tensor, cap: float | None) -> Tensor:
    """``cap · tanh(logits / cap)``, which bounds them; unchanged where `cap` is None."""
    return logits if cap is None else torch.tanh(logits / cap) * cap


def blocked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: RowMask,
    *_: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **__: Any,
) -> tuple[Tensor, None]:
    """Soft-capped attention as transformers' eager function computes it, a block of queries at a time.

    Logits, softmax and sum are formed in float32 and rounded once, as sdpa does; eager, in bfloat16,
    rounds the logits too.

    Parameters
    ----------
    module : nn.Module
        Of no consequence; every attention function is given it.
    query : Tensor, shape (1, heads, N, head_dim)
    key, value : Tensor, shape (1, kv_heads, N, head_dim)
    mask : RowMask
    scaling, softcap : float or None
        Factor on ``q·k``, ``head_dim ** -0.5`` where None, and the cap of the product.
    sliding_window : int or None
        Keys a query sees at most; earlier ones are not touched.

    Returns
    -------
    Tensor, shape (1, N, heads, head_dim)
        In the dtype of `query`.
    None
        The weights, which are not kept.
    """
    _, heads, n, dim = query.shape
    keys, values = key[0].float(), value[0].float()
    grouped = query[0].unflatten(0, (len(keys), -1))  # kv_heads, group, N, head_dim
    scale = dim**-0.5 if scaling is None else scaling
    count = max(1, BLOCK // (heads * n))
    blocks = []
    for start in range(0, n, count):
        stop = min(start + count, n)
        first = 0 if sliding_window is None else max(0, start + 1 - sliding_window)
        logits = torch.einsum("kgbd,knd->kgbn", grouped[:, :, start:stop].float(), keys[:, first:stop])
        visible = mask.visible(torch.arange(start, stop, device=query.device), first, stop - first)
        logits = soft_capped(logits * scale, softcap).masked_fill(~visible, -torch.inf)
        output = torch.einsum("kgbn,knd->kgbd", torch.softmax(logits, dim=-1), values[:, first:stop])
        blocks.append(output.flatten(0, 1).transpose(0, 1).to(query.dtype))  # block, heads, head_dim
    return torch.cat(blocks)[None], None


def backend(model: Any) -> str:
    """Name of the attention implementation that runs while rows are recorded; part of a dump's identity.

    Parameters
    ----------
    model : transformers.PreTrainedModel

    Returns
    -------
    str
        ``sdpa``, or ``blocked-eager`` for a model that caps its attention logits.
    """
    backbone = model.get_decoder()
    holders = (backbone.config, *backbone.modules())
    capped = any(getattr(holder, "attn_logit_softcapping", None) is not None for holder in holders)
    return BLOCKED if capped else SDPA


def functions(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The attention function and the mask function of backend `name`."""
    if name == BLOCKED:
        return blocked_attention, RowMask
    return ALL_ATTENTION_FUNCTIONS[SDPA], ALL_MASK_ATTENTION_FUNCTIONS[SDPA]
