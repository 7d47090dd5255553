"""What a cache physically holds after eviction: of each layer, each KV head's own list of keys and values."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class HeldLayer:
    """One layer's storage: the slots of the KV heads one after another, each head's in ascending position.

    Attributes
    ----------
    keys, values : Tensor, shape (slots, d)
        Keys after rotary embedding.
    positions : Tensor of int64, shape (slots,)
        Of each slot's token in the text.
    lengths : tuple of int
        Slots of each KV head; they need not be equal.
    visible : Tensor of bool, shape (slots,), or None
        What is attended to; None for all. Slots that are hidden are held all the same.
    window : int or None
        Keys that a query of this layer sees at most, by position.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    visible: Tensor | None = None
    window: int | None = None

    def kept(self) -> list[Tensor]:
        """Positions attended to, by KV head."""
        heads = self.positions.split(self.lengths)
        if self.visible is None:
            return list(heads)
        return [head[shown] for head, shown in zip(heads, self.visible.split(self.lengths), strict=True)]


@dataclass(frozen=True, eq=False, slots=True)
class HeldCache:
    """A text's cache.

    Attributes
    ----------
    layers : sequence of HeldLayer
    seen : int
        Tokens it stands for: the next token's position.
    """

    layers: Sequence[HeldLayer]
    seen: int

    def held_bytes(self) -> int:
        """Bytes of the storages behind keys and values, each counted once and whole, views or not."""
        tensors = [t for layer in self.layers for t in (layer.keys, layer.values)]
        return storage_bytes(tensors)

    def slots(self) -> list[list[int]]:
        """Slots attended to, by layer and KV head."""
        return [[len(kept) for kept in layer.kept()] for layer in self.layers]

    def kept_id(self) -> str:
        """16 hex digits of which positions are attended to, by layer and KV head."""
        digest = hashlib.sha256()
        for layer in self.layers:
            for kept in layer.kept():
                digest.update(len(kept).to_bytes(8, "little"))
                digest.update(kept.to("cpu", torch.int64).numpy().tobytes())
        return digest.hexdigest()[:16]


def storage_bytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of the storages behind tensors, one that several share counted once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def hold(
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    kept: Sequence[Sequence[Tensor]],
    seen: int,
    windows: Sequence[int | None],
) -> HeldCache:
    """Copy what is kept into storage of exactly its size; what is evicted is gone.

    Parameters
    ----------
    keys, values : sequence of Tensor, shape (KV heads, N, d)
        By layer; N at least `seen`.
    kept : sequence of sequence of Tensor of int64
        By layer and KV head, ascending positions below `seen`. Windowed layers hold their window instead.
    seen : int
    windows : sequence of int or None
        By layer.
    """
    layers = []
    for k, v, heads, window in zip(keys, values, kept, windows, strict=True):
        if window is not None:
            heads = [_window(seen, window, k.device)] * len(k)
        layers.append(
            HeldLayer(
                torch.cat([head[own] for head, own in zip(k, heads, strict=True)]),
                torch.cat([head[own] for head, own in zip(v, heads, strict=True)]),
                torch.cat(list(heads)),
                tuple(map(len, heads)),
                window=window,
            )
        )
    return HeldCache(layers, seen)


def hold_full(
    keys: Sequence[Tensor], values: Sequence[Tensor], seen: int, windows: Sequence[int | None]
) -> HeldCache:
    """Keep everything (of windowed layers their window)."""
    every = [[torch.arange(seen, device=k.device)] * len(k) for k in keys]
    return hold(keys, values, every, seen, windows)


def hold_masked(
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    kept: Sequence[Sequence[Tensor]],
    seen: int,
    windows: Sequence[int | None],
) -> HeldCache:
    """Hold everything and attend to what is kept, as a press that only masks does."""
    layers = []
    for layer, heads in zip(hold_full(keys, values, seen, windows).layers, kept, strict=True):
        visible = torch.ones(len(layer.positions), dtype=torch.bool, device=layer.keys.device)
        if layer.window is None:
            visible[:] = False
            for head, own in enumerate(heads):
                visible[head * seen + own] = True
        layers.append(
            HeldLayer(layer.keys, layer.values, layer.positions, layer.lengths, visible, layer.window)
        )
    return HeldCache(layers, seen)


def _window(seen: int, window: int, device: torch.device) -> Tensor:
    """Positions that the next query of a windowed layer can see besides itself."""
    return torch.arange(max(0, seen - window + 1), seen, device=device)
