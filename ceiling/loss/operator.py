"""The restricted operator: some rows of every layer attend to a kept set alone, weights renormalised."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ceiling.capture import (
    CaptureError,
    attention_of,
    backend,
    check_call,
    check_model,
    check_positions,
    functions,
    registered,
    softmax_rows,
)


@dataclass(frozen=True, eq=False, slots=True)
class Attended:
    """What one layer's restricted rows attend to.

    Attributes
    ----------
    layer : int
    positions : tuple of int
        Of the restricted rows, ascending.
    masses : ndarray of float32, shape (heads, rows, N)
        Their softmax weights over all keys, as the model has them; exactly 0 where a key is not visible.
    keys, values : ndarray of float32, shape (kv_heads, N, head_dim)
        Keys after rotation.
    queries : ndarray of float32, shape (heads, N, head_dim)
        After rotation.
    window : int or None
        Keys a query sees at most.
    scaling : float
    soft_cap : float or None
    """

    layer: int
    positions: tuple[int, ...]
    masses: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    queries: np.ndarray
    window: int | None
    scaling: float
    soft_cap: float | None


Choose = Callable[[Attended], np.ndarray]
"""What a layer's rows keep: bool (heads, rows, N), some key of positive mass in every row."""


@dataclass(eq=False, slots=True)
class Restricted:
    """What the restricted rows kept.

    Attributes
    ----------
    kept_mass : dict of int to float
        Mean over heads and rows, by layer.
    """

    kept_mass: dict[int, float] = field(default_factory=dict)


def everything(attended: Attended) -> np.ndarray:
    """Every key that a row gives mass to: the unrestricted operator, by the way of all others."""
    return attended.masses > 0


@contextlib.contextmanager
def restricted(model: PreTrainedModel, positions: Sequence[int], choose: Choose) -> Iterator[Restricted]:
    """Let some rows of every layer attend to what `choose` keeps, for the length of the block.

    The rows before them are the model's own, so that a text is read densely and continued with restricted
    attention: in one forward, as causal attention makes no difference between the two. A layer sees what
    the restricted rows of the layers below made.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal language model, in evaluation mode.
    positions : sequence of int
        The rows, ascending.
    choose : callable

    Yields
    ------
    Restricted

    Raises
    ------
    InputError
        Where the model or the call is none that `ceiling.capture.capture` takes.
    CaptureError
        When the masks show other keys than the layer says, or a layer did not run through the registry.
    ArithmeticError
        When a row keeps no key of positive mass.
    """
    check_model(model)
    backbone = model.get_decoder()
    told, rows = Restricted(), check_positions(positions)
    compute, mask = functions(backend(model))

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        check_call(backbone.config, rows, args, kwargs)

    with contextlib.ExitStack() as stack:
        name = stack.enter_context(registered(_attention(compute, rows, choose, told), mask))
        stack.enter_context(attention_of(backbone, name))
        stack.callback(backbone.register_forward_pre_hook(before, with_kwargs=True).remove)
        yield told
    if missing := sorted(set(range(backbone.config.num_hidden_layers)) - set(told.kept_mass)):
        raise CaptureError(f"layers {missing} did not run restricted; run one whole forward in the block")


def _attention(
    compute: Callable[..., Any], positions: tuple[int, ...], choose: Choose, told: Restricted
) -> Callable[..., Any]:
    """The attention function `compute`, with the rows of `positions` replaced."""

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        output, _ = compute(module, query, key, value, attention_mask, *args, **kwargs)
        layer, rows = int(module.layer_idx), torch.tensor(positions, device=query.device)
        scaling, window, soft_cap = (kwargs.get(name) for name in ("scaling", "sliding_window", "softcap"))
        scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
        # In float64, so that all rounding left between this and the model's own output is the backend's.
        exact = torch.float64
        masses = softmax_rows(
            query, key, attention_mask, rows,
            scaling=scale, window=window, soft_cap=soft_cap, layer=layer, dtype=exact,
        )  # fmt: skip
        p, k, v, q = map(_array, (masses, key[0], value[0], query[0]))
        attended = Attended(layer, positions, p, k, v, q, window, scale, soft_cap)
        kept = masses * torch.from_numpy(choose(attended)).to(masses.device)
        total = kept.sum(dim=-1, keepdim=True)
        if not bool((total > 0).all()):
            raise ArithmeticError(f"layer {layer}: a row keeps no key of positive mass")
        told.kept_mass[layer] = float(total.mean())
        grouped = (kept / total).unflatten(0, (key.shape[1], -1))  # kv_heads, group, rows, N
        replaced = torch.einsum("kgrn,knd->rkgd", grouped, value[0].to(exact)).flatten(1, 2)
        return output.index_copy(1, rows, replaced[None].to(output.dtype)), None

    return attention


def _array(tensor: Tensor) -> np.ndarray:
    found: np.ndarray = tensor.detach().float().cpu().numpy()
    return found
