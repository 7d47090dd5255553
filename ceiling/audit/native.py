"""A press that kvpress runs by itself, in a prefill of its own; what it leaves becomes a held cache."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ceiling.audit.held import HeldCache, HeldLayer, storage_bytes
from ceiling.audit.press import Press
from ceiling.audit.shared_pass import hooked, seed_draws

NOWHERE = -1
"""Position of a key that the press changed or added: no token's."""


class Native(NamedTuple):
    """What a press left.

    Attributes
    ----------
    cache : HeldCache
        Its entries, by KV head, to be read by our attention: layers may be of unequal lengths, which
        transformers' one mask for all layers does not allow.
    held_bytes : int
        Of the storages of kvpress's own cache, as it was left: of views, what lies behind them.
    """

    cache: HeldCache
    held_bytes: int

    @property
    def kept(self) -> list[list[Tensor]] | None:
        """Positions attended to, by layer and KV head, ascending; None where a key is no token's."""
        heads = [layer.kept() for layer in self.cache.layers]
        return None if any(bool((own < 0).any()) for layer in heads for own in layer) else heads


def native(model: Any, press: Press, ratio: float, ids: Sequence[int], *, backend: str, seed: int) -> Native:
    """Prefill `ids` under a press.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Without windowed layers; left as found.
    press : Press
    ratio : float
        Share evicted.
    ids : sequence of int
        What is compressed.
    backend : str
        ``eager`` or ``sdpa``.
    seed : int
        Of the instance. What a score draws is its own and equals what it draws in the shared pass.

    Raises
    ------
    RuntimeError
        When the press leaves a layer without keys.

    Notes
    -----
    kvpress notes hidden keys on the attention modules, where they outlive the press and would silently mask
    the next cache: they are taken off here. It overwrites them in its cache at the next token; they are
    copied before.
    """
    cache, backbone = DynamicCache(), model.get_decoder()
    device = model.get_input_embeddings().weight.device
    tokens = torch.tensor([list(ids)], device=device)
    whole: dict[int, Tensor] = {}  # keys of every layer before the press has touched them

    def ahead(module: nn.Module, *_: Any) -> None:
        # Called before the press's own hook, which was registered later; some presses read the text again.
        index = module.layer_idx
        if index not in whole:
            whole[index] = cache.layers[index].keys[0].clone()
        seed_draws(press, seed, module, whole[index].device)

    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(), hooked(backbone, backend, ahead):
        for layer in backbone.layers:
            layer.self_attn.masked_key_indices = None  # what another run left is none of this one's
        with press.build(ratio, seed)(model):
            backbone(input_ids=tokens, past_key_values=cache, use_cache=True)
        hidden = [layer.self_attn.masked_key_indices for layer in backbone.layers]
    held = storage_bytes([t for layer in cache.layers for t in (layer.keys, layer.values)])
    layers = [
        _layer(layer.keys[0], layer.values[0], masked, whole[index])
        for index, (layer, masked) in enumerate(zip(cache.layers, hidden, strict=True))
    ]
    return Native(HeldCache(layers, len(ids)), held)


def _layer(keys: Tensor, values: Tensor, masked: Any, whole: Tensor) -> HeldLayer:
    """A layer of kvpress's cache, (KV heads, n, d), by ascending position."""
    heads, length, _ = keys.shape
    if not length:
        raise RuntimeError("the press left a layer without keys")
    visible = None
    if masked is not None:
        visible = torch.ones(heads, length, dtype=torch.bool, device=keys.device)
        visible[masked[1], masked[2]] = False
    positions = torch.stack([_positions(own, every) for own, every in zip(keys, whole, strict=True)])
    order = positions.argsort(dim=1, stable=True).to(keys.device)
    at = (torch.arange(heads, device=keys.device)[:, None], order)
    return HeldLayer(
        keys[at].flatten(0, 1),
        values[at].flatten(0, 1),
        positions.to(keys.device)[at].flatten(),
        (length,) * heads,
        None if visible is None else visible[at].flatten(),
    )


def _positions(keys: Tensor, whole: Tensor) -> Tensor:
    """Where the keys of one KV head, (n, d), stand among all, bit by bit; each is taken once."""
    places = {row: place for place, row in enumerate(_rows(whole))}
    return torch.tensor([places.pop(row, NOWHERE) for row in _rows(keys)])


def _rows(keys: Tensor) -> list[bytes]:
    return [row.tobytes() for row in keys.cpu().contiguous().view(torch.uint8).numpy()]
