"""Softmax rows of some queries of one attention call, formed beside what the backend computes."""

import math

import torch
from torch import Tensor

from ceiling.capture.backends import RowMask, soft_capped


class CaptureError(RuntimeError):
    """The captured rows are not what the model computed, or it did not compute what was expected."""


def softmax_rows(
    query: Tensor,
    key: Tensor,
    mask: Tensor | RowMask | None,
    rows: Tensor,
    *,
    scaling: float,
    window: int | None,
    soft_cap: float | None,
    layer: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Attention of some queries over all keys.

    Parameters
    ----------
    query : Tensor, shape (1, heads, N, head_dim)
    key : Tensor, shape (1, kv_heads, N, head_dim)
    mask : Tensor, RowMask or None
        As handed to the backend: boolean (True is visible) or additive; None is plain causal.
    rows : Tensor of int64, shape (rows,)
        Positions of the queries.
    scaling : float
    window : int or None
        What the module says; checked against what the mask shows.
    soft_cap : float or None
    layer : int
        For the error.
    dtype : torch.dtype
        Of logits and softmax.

    Returns
    -------
    Tensor of `dtype`, shape (heads, rows, N)
        Each row sums to 1; exactly 0 where a key is not visible.

    Raises
    ------
    CaptureError
        When a row sees other keys than the last `window` up to its own.
    """
    bias, visible = _bias(mask, rows, key.shape[2])
    _check_visible(layer, visible.tolist(), rows.tolist(), window)
    grouped = query[0, :, rows].to(dtype).unflatten(0, (key.shape[1], -1))  # kv_heads, group, rows, d
    logits = torch.einsum("kgrd,knd->kgrn", grouped, key[0].to(dtype)).flatten(0, 1).mul_(scaling)
    return torch.softmax(soft_capped(logits, soft_cap).add_(bias), dim=-1)


def _bias(mask: Tensor | RowMask | None, rows: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Additive float32 bias [1 or heads, rows, N], and how many keys each row sees in the first head."""
    if mask is None:
        visible = torch.arange(n, device=rows.device)[None, None, :] <= rows[None, :, None]
    elif isinstance(mask, RowMask):
        visible = mask.visible(rows, 0, n)[None]
    else:
        picked = mask[0, :, rows.to(mask.device), :n].to(rows.device)
        if picked.dtype != torch.bool:  # additive: hidden keys carry the dtype's lowest number, or -inf
            return picked.float(), (picked[0] > torch.finfo(picked.dtype).min / 2).sum(-1)
        visible = picked
    bias = torch.zeros(visible.shape, dtype=torch.float32, device=rows.device)
    return bias.masked_fill_(~visible, -math.inf), visible[0].sum(-1)


def _check_visible(layer: int, visible: list[int], positions: list[int], window: int | None) -> None:
    """A row must see the last `window` keys up to its position: the dump's manifest says so."""
    for count, position in zip(visible, positions, strict=True):
        expected = position + 1 if window is None else min(window, position + 1)
        if count != expected:
            raise CaptureError(
                f"layer {layer}, position {position}: the mask shows {count} keys, expected {expected} "
                f"({'plain causal' if window is None else f'window {window}'})"
            )
