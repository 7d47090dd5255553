"""What a capture records: each layer's sampled softmax rows, compared with what the model made of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ceiling.capture.backends import RowMask
from ceiling.capture.positions import check_positions
from ceiling.capture.rows import CaptureError, softmax_rows

FIDELITY_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 4e-3, torch.float16: 4e-3}
"""Largest ``‖Σ p v − o‖∞ / Σ p ‖v‖∞`` of a row (relative, no unit) by the model's dtype: rounding alone
stays below about 1e-5 in float32 and half a unit in the last place, 2e-3, in bfloat16; a wrong mask,
scale or head is far above.  4e-3 is the paper's stop (arXiv 2608.25230)."""

_TINY = torch.finfo(torch.float32).tiny  # keeps 0/0 out of the deviation where all visible values are 0


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """One layer of one document, on the CPU.

    Attributes
    ----------
    index : int
    masses : Tensor of float32, shape (heads, rows, N)
        Softmax weights of the sampled positions; exactly 0 outside the visible keys.
    keys, values : Tensor of the model's dtype, shape (kv_heads, N, head_dim)
        Keys after rotary embedding (and key norm, where the model has one).
    queries : Tensor of the model's dtype, shape (heads, N, head_dim), or None
        After rotary embedding, when asked for.
    deviation : Tensor of float32, shape (heads, rows)
        ``‖Σ p v − o‖∞ / Σ p ‖v‖∞`` against the attention output ``o`` of the model.
    window : int or None
        Keys a query sees at most; None when it sees all before it.
    scaling : float
        Factor on ``q·k`` before the softmax.
    soft_cap : float or None
        Bound ``c`` of the scaled logits, which enter the softmax as ``c·tanh(logit / c)``.
    """

    index: int
    masses: Tensor
    keys: Tensor
    values: Tensor
    queries: Tensor | None
    deviation: Tensor
    window: int | None
    scaling: float
    soft_cap: float | None


class Recording:
    """The layers captured so far.

    Attributes
    ----------
    positions : tuple of int
        Sampled query positions, ascending; empty until the forward where they are to be drawn.
    layers : dict of int to Layer
        By layer index; stays empty when every layer is handed to `on_layer` instead.
    seen : set of int
        Layers the model has computed.
    """

    def __init__(
        self, positions: Sequence[int] | None, queries: bool, on_layer: Callable[[Layer], None] | None
    ) -> None:
        self.positions = () if positions is None else check_positions(positions)
        self.layers: dict[int, Layer] = {}
        self.seen: set[int] = set()
        self._queries = queries
        self._on_layer = on_layer
        self._indices: dict[torch.device, Tensor] = {}

    @torch.no_grad()
    def take(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | RowMask | None,
        output: Tensor,
        *,
        scaling: float | None,
        window: int | None,
        soft_cap: float | None = None,
    ) -> None:
        """Form the sampled rows of one attention call and compare them with its output.

        Parameters
        ----------
        module : nn.Module
            The attention module; its ``layer_idx`` names the layer.
        query, key, value : Tensor, shape (1, heads, N, head_dim)
            As handed to the backend; `key` and `value` with the KV heads.
        mask : Tensor, RowMask or None
            As handed to the backend: boolean (True is visible) or additive; None is plain causal.
        output : Tensor, shape (1, N, heads, head_dim)
        scaling : float or None
            None is ``head_dim ** -0.5``.
        window : int or None
            What the module says; checked against what the mask shows.
        soft_cap : float or None

        Raises
        ------
        CaptureError
            Naming layer, head and position, when a row's ``Σ p v`` is not the model's output.
        """
        layer = int(module.layer_idx)
        if layer in self.seen:
            raise CaptureError(f"layer {layer} ran twice; run one forward inside one capture")
        self.seen.add(layer)
        scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
        rows = self._rows(query.device)
        masses = softmax_rows(
            query, key, mask, rows, scaling=scale, window=window, soft_cap=soft_cap, layer=layer
        )
        deviation = _deviation(masses, value[0].float(), output[0, rows].float())
        self._check_fidelity(layer, deviation.cpu(), query.dtype)

        def keep(tensor: Tensor) -> Tensor:
            return tensor[0].detach().cpu().contiguous()

        taken = Layer(
            index=layer,
            masses=masses.cpu(),
            keys=keep(key),
            values=keep(value),
            queries=keep(query) if self._queries else None,
            deviation=deviation.cpu(),
            window=window,
            scaling=scale,
            soft_cap=None if soft_cap is None else float(soft_cap),
        )
        if self._on_layer is None:
            self.layers[layer] = taken
        else:
            self._on_layer(taken)

    def _rows(self, device: torch.device) -> Tensor:
        """The sampled positions on `device`; layers of a model may lie on several."""
        if device not in self._indices:
            self._indices[device] = torch.tensor(self.positions, device=device)
        return self._indices[device]

    def _check_fidelity(self, layer: int, deviation: Tensor, dtype: torch.dtype) -> None:
        tolerance = FIDELITY_TOLERANCE[dtype]
        if bool((deviation <= tolerance).all()):
            return
        worst = int(torch.nan_to_num(deviation, nan=math.inf).argmax())
        head, row = divmod(worst, deviation.shape[1])
        raise CaptureError(
            f"layer {layer}, head {head}, position {self.positions[row]}: the captured row's output deviates "
            f"from the model's by {float(deviation[head, row]):.3g} (limit {tolerance:g} in {dtype})"
        )


def _deviation(masses: Tensor, values: Tensor, output: Tensor) -> Tensor:
    """Relative deviation [heads, rows] of ``Σ p v`` from the model's output [rows, heads, d]."""
    grouped = masses.unflatten(0, (values.shape[0], -1))
    ours = torch.einsum("kgrn,knd->kgrd", grouped, values).flatten(0, 1)
    size = torch.einsum("kgrn,kn->kgr", grouped, values.abs().amax(-1)).flatten(0, 1)
    return (ours - output.transpose(0, 1)).abs().amax(-1) / size.clamp_min(_TINY)
