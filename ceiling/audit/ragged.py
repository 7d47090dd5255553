"""Attention over caches of unequal length, per sequence and per KV head: no padding, no N×N mask."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ceiling.audit.held import HeldCache, HeldLayer
from ceiling.capture import attention_of, registered


@dataclass(slots=True)
class Pieces:
    """Lists of equal length, of whatever sequences and KV heads, stacked.

    Attributes
    ----------
    rows, heads : Tensor of int64, shape (m,)
        Sequence and KV head of each list.
    keys, values : Tensor, shape (m, n, d)
    positions : Tensor of int64, shape (m, n), or None
        Where the layer has a window.
    visible : Tensor of bool, shape (m, n), or None
    """

    rows: Tensor
    heads: Tensor
    keys: Tensor
    values: Tensor
    positions: Tensor | None
    visible: Tensor | None

    def of(self, keep: Tensor, renumbered: Tensor) -> "Pieces":
        """Those of the sequences that stay, under their new numbers."""
        chosen = keep[self.rows].nonzero()[:, 0]
        if len(chosen) == len(self.rows):
            return Pieces(
                renumbered[self.rows], self.heads, self.keys, self.values, self.positions, self.visible
            )
        parts = (self.heads, self.keys, self.values, self.positions, self.visible)
        return Pieces(
            renumbered[self.rows[chosen]], *(None if part is None else part[chosen] for part in parts)
        )


class RaggedBatch:
    """Several caches of one text length, that one model reads on from.

    Lists of equal length lie in one tensor, so that presses of one budget cost one product; the copy lives
    as long as the batch.

    Parameters
    ----------
    caches : sequence of HeldCache
        Of equal `seen`.
    backend : str
        ``eager`` or ``sdpa``.
    """

    def __init__(self, caches: Sequence[HeldCache], backend: str) -> None:
        self.backend = backend
        self.seen = caches[0].seen
        layers = zip(*(cache.layers for cache in caches), strict=True)
        self.layers = [_stack(layer) for layer in layers]

    def select(self, keep: Tensor) -> None:
        """Let sequences leave; `keep` is bool of shape (sequences,)."""
        renumbered = keep.cumsum(0) - 1
        for index, layer in enumerate(self.layers):
            left = (pieces.of(keep, renumbered) for pieces in layer)
            self.layers[index] = [pieces for pieces in left if len(pieces.rows)]

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any = None,
        *_: Any,
        scaling: float | None = None,
        sliding_window: int | None = None,
        softcap: float | None = None,
        **__: Any,
    ) -> tuple[Tensor, None]:
        """An attention function for transformers' registry.

        Parameters
        ----------
        query : Tensor, shape (B, heads, t, d)
        key, value : Tensor, shape (B, KV heads, T, d)
            Of all tokens read since the caches were held; the last t are the queries' own.

        Returns
        -------
        Tensor, shape (B, t, heads, d)
        None
        """
        t, d = query.shape[2:]
        grouped = query.unflatten(1, (key.shape[1], -1))  # B, KV heads, group, t, d
        output = torch.empty_like(grouped)
        scale = d**-0.5 if scaling is None else scaling
        new = _sees(t, key.shape[2], sliding_window, query.device)
        for pieces in self.layers[module.layer_idx]:
            at = (pieces.rows, pieces.heads)
            seen = self._visible(pieces, t, key.shape[2], sliding_window)
            if self.backend == "sdpa" and softcap is None:
                output[at] = _sdpa(grouped[at], pieces, key[at], value[at], seen, new, scale)
            else:
                output[at] = _eager(grouped[at], pieces, key[at], value[at], seen, new, scale, softcap)
        return output.flatten(1, 2).transpose(1, 2).contiguous(), None

    def _visible(self, pieces: Pieces, t: int, total: int, window: int | None) -> Tensor | None:
        """Which held keys each query sees, bool (m, t or 1, n); None for all."""
        seen = None if pieces.visible is None else pieces.visible[:, None]
        if window is None or pieces.positions is None:
            return seen
        at = self.seen + torch.arange(total - t, total, device=pieces.keys.device)
        near = pieces.positions[:, None] > at[:, None] - window
        return near if seen is None else near & seen


def _stack(layer: Sequence[HeldLayer]) -> list[Pieces]:
    """The lists of one layer of every cache, those of equal length together."""
    found: dict[int, list[tuple[int, int, HeldLayer, slice]]] = {}
    for row, held in enumerate(layer):
        ends = list(itertools.accumulate(held.lengths))
        for head, (length, end) in enumerate(zip(held.lengths, ends, strict=True)):
            found.setdefault(length, []).append((row, head, held, slice(end - length, end)))
    return [_pieces(lists) for lists in found.values()]


def _pieces(lists: Sequence[tuple[int, int, HeldLayer, slice]]) -> Pieces:
    first = lists[0][2]
    device, windowed = first.keys.device, first.window is not None
    visible = None
    if any(held.visible is not None for _, _, held, _ in lists):
        every = torch.ones(len(first.positions), dtype=torch.bool, device=device)
        visible = torch.stack(
            [every[: own.stop - own.start] if held.visible is None else held.visible[own]
             for _, _, held, own in lists]
        )  # fmt: skip
    return Pieces(
        torch.tensor([row for row, *_ in lists], device=device),
        torch.tensor([head for _, head, *_ in lists], device=device),
        torch.stack([held.keys[own] for *_, held, own in lists]),
        torch.stack([held.values[own] for *_, held, own in lists]),
        torch.stack([held.positions[own] for *_, held, own in lists]) if windowed else None,
        visible,
    )


def _sees(t: int, total: int, window: int | None, device: torch.device) -> Tensor | None:
    """Which new tokens each query sees, bool (t, total); None for all."""
    if t == 1 and (window is None or total <= window):
        return None
    queries = torch.arange(total - t, total, device=device)[:, None]
    keys = torch.arange(total, device=device)
    sees = keys <= queries
    return sees if window is None else sees & (keys > queries - window)


def _eager(
    query: Tensor,  # (m, group, t, d)
    pieces: Pieces,
    key: Tensor,  # (m, T, d)
    value: Tensor,
    seen: Tensor | None,
    new: Tensor | None,
    scale: float,
    softcap: float | None,
) -> Tensor:
    m, group, t, d = query.shape
    flat = query.reshape(m, group * t, d) * scale
    n = pieces.keys.shape[1]
    logits = torch.cat([flat @ pieces.keys.transpose(1, 2), flat @ key.transpose(1, 2)], dim=-1)
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    shaped = logits.view(m, group, t, -1)
    if seen is not None:
        shaped[..., :n].masked_fill_(~seen[:, None], -torch.inf)
    if new is not None:
        shaped[..., n:].masked_fill_(~new, -torch.inf)
    weights = torch.softmax(logits, dim=-1, dtype=torch.float32).to(value.dtype)
    output = weights[..., :n] @ pieces.values + weights[..., n:] @ value
    return output.view(m, group, t, d)


def _sdpa(
    query: Tensor,
    pieces: Pieces,
    key: Tensor,
    value: Tensor,
    seen: Tensor | None,
    new: Tensor | None,
    scale: float,
) -> Tensor:
    m, group, t, d = query.shape
    keys = torch.cat([pieces.keys, key], dim=1)[:, None].expand(m, group, -1, d)
    values = torch.cat([pieces.values, value], dim=1)[:, None].expand(m, group, -1, d)
    mask = None
    if seen is not None or new is not None:
        n, total = pieces.keys.shape[1], key.shape[1]
        mask = torch.ones(m, 1, t, n + total, dtype=torch.bool, device=query.device)
        if seen is not None:
            mask[..., :n] = seen[:, None]
        if new is not None:
            mask[..., n:] = new
    return scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scale)


@contextlib.contextmanager
def attending(model: Any, batch: RaggedBatch) -> Iterator[None]:
    """Let a model's attention read `batch` besides the tokens it is given; the model is left as found."""
    with registered(batch.attend, _no_mask) as name, attention_of(model, name):  # it masks by itself
        yield


def _no_mask(**_: Any) -> None:
    return None
