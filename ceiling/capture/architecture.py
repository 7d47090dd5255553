"""The shape of a model's attention, read off a few tokens rather than off its configuration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ceiling.capture.hooks import capture
from ceiling.problem import InputError

PROBE_TOKENS = 8
"""Enough to run every layer once and see its shapes."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What every layer of a model has in common, and what differs.

    Attributes
    ----------
    type : str
        transformers' model type.
    layers, heads, kv_heads, head_dim : int
    windows : tuple of int or None
        Keys a query sees at most, by layer; None where it sees all before it.
    soft_cap : float or None
        Bound ``c`` of the logits, ``c·tanh(q·k·scaling / c)``; None where they have none.
    qk_norm : bool
        Whether queries and keys are normalised by head.
    scaling : tuple of float
        Factor on ``q·k``, by layer.
    """

    type: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    soft_cap: float | None
    qk_norm: bool
    scaling: tuple[float, ...]


def probe(model: Any, tokens: np.ndarray) -> Architecture:
    """Run a few tokens through every layer.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    tokens : ndarray of int64, shape (N,)
        The first 8 are used.

    Raises
    ------
    InputError
        When layers differ in heads, head size or soft cap.
    ceiling.capture.CaptureError
        When the captured row is not the model's.
    """
    few = tokens[:PROBE_TOKENS]
    with capture(model, [len(few) - 1]) as recording:
        forward(model, few)
    layers = [recording.layers[index] for index in sorted(recording.layers)]
    shapes = {(len(layer.masses), *layer.keys.shape[::2], *layer.values.shape[::2]) for layer in layers}
    if len(shapes) != 1:
        raise InputError(f"model: layers differ in heads or head size, {sorted(shapes)}; they must agree")
    heads, kv_heads, head_dim, _, value_dim = shapes.pop()
    if value_dim != head_dim:
        raise InputError(f"model: values have {value_dim} components, keys {head_dim}; they must agree")
    caps = {layer.soft_cap for layer in layers}
    if len(caps) != 1:
        raise InputError(f"model: layers differ in their soft cap, {sorted(caps, key=str)}; they must agree")
    backbone = model.get_decoder()
    return Architecture(
        type=backbone.config.model_type,
        layers=len(layers),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        windows=tuple(layer.window for layer in layers),
        soft_cap=caps.pop(),
        qk_norm=any(name.endswith((".q_norm", ".k_norm")) for name, _ in backbone.named_modules()),
        scaling=tuple(layer.scaling for layer in layers),
    )


@torch.inference_mode()
def forward(model: Any, tokens: np.ndarray) -> None:
    """Run the backbone alone: logits over the vocabulary would be the largest tensor of all, for nothing."""
    backbone = model.get_decoder()
    ids = torch.from_numpy(tokens)[None].to(backbone.get_input_embeddings().weight.device)
    backbone(input_ids=ids, use_cache=False)
