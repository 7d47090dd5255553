"""From scores to kept positions: each KV head by itself, or all heads of a layer from one budget."""

import torch
from torch import Tensor


def best(scores: Tensor, kept: int) -> list[Tensor]:
    """The `kept` highest scores of each KV head.

    Parameters
    ----------
    scores : Tensor, shape (1, KV heads, n)
    kept : int
        1 <= `kept` <= n.

    Returns
    -------
    list of Tensor of int64
        By KV head, ascending. Ties fall as they fall in kvpress: the same call on the same shape.
    """
    return list(scores.topk(kept, dim=-1).indices[0].sort(dim=-1).values)


def best_of_layer(scores: Tensor, kept: int, alpha: float) -> list[Tensor]:
    """AdaKV's choice: the highest scores of a layer, wherever they are, and a safe share in every head.

    Parameters
    ----------
    scores : Tensor of float, shape (1, KV heads, n)
    kept : int
        Per KV head on average.
    alpha : float
        Share of `kept` that each KV head has for certain, at least one key where it is above 0.

    Returns
    -------
    list of Tensor of int64
        By KV head, ascending, of unequal lengths that sum to KV heads × `kept`.

    Notes
    -----
    arXiv 2407.11550, as kvpress has it; equal to what its press hides, ties included.
    """
    _, heads, length = scores.shape
    safe = max(1, int(kept * alpha)) if alpha > 0 else 0
    secured = scores.scatter(-1, scores.topk(safe, dim=-1).indices, torch.finfo(scores.dtype).max)
    evicted = torch.topk(-secured.reshape(1, -1), heads * (length - kept), dim=1).indices[0]
    stays = torch.ones(heads * length, dtype=torch.bool, device=scores.device)
    stays[evicted] = False
    return [head.nonzero()[:, 0] for head in stays.view(heads, length)]
