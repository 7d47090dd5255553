"""The context manager that records a model's attention and leaves the model as it found it."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from ceiling.capture.backends import backend, functions
from ceiling.capture.positions import ROWS, sample_positions
from ceiling.capture.recording import Layer, Recording
from ceiling.capture.refusals import check_call, check_model
from ceiling.capture.rows import CaptureError

_numbers = itertools.count()  # one registry name for each function


@contextlib.contextmanager
def capture(
    model: PreTrainedModel,
    positions: Sequence[int] | None = None,
    queries: bool = False,
    on_layer: Callable[[Layer], None] | None = None,
) -> Iterator[Recording]:
    """Record the attention rows of one forward of a loaded model.

    Inside the block the model computes exactly what it computes under sdpa (where it caps its logits,
    what it computes eagerly, a block of queries at a time), and the softmax of the sampled rows is formed
    beside it, in float32; no N×N matrix of logits is made.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal language model or its backbone, in evaluation mode, on any devices.
    positions : sequence of int, optional
        Query positions to record, in every layer and head; by default six, drawn from the last three
        quarters of the text as the command line draws them for its first document.
    queries : bool
        Also keep all query vectors.
    on_layer : callable, optional
        Receives each `Layer` as soon as it is computed, which is then not kept: a long document
        streams to disk in the memory of one layer.

    Yields
    ------
    Recording
        Its ``layers[i]`` hold masses, keys, values and deviations once the model has run.

    Raises
    ------
    InputError
        Before the forward, when the model's attention is not a softmax over its visible keys as
        captured, or the call has padding, a batch, a cache or no token at a position.
    CaptureError
        When a row's output is not the model's, or a layer did not run through the registry.

    Examples
    --------
    >>> with ceiling.capture(model, positions=[511, 1023]) as recording:  # doctest: +SKIP
    ...     model(input_ids)
    >>> recording.layers[0].masses.shape  # doctest: +SKIP
    torch.Size([9, 2, 1024])
    """
    check_model(model)
    backbone = model.get_decoder()
    recording = Recording(positions, queries, on_layer)

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tokens = check_call(backbone.config, recording.positions, args, kwargs)
        recording.positions = recording.positions or sample_positions(tokens, ROWS, seed=0, document=0)

    with contextlib.ExitStack() as stack:
        compute, mask = functions(backend(model))
        name = stack.enter_context(registered(_recorded(recording, compute), mask))
        stack.enter_context(attention_of(backbone, name))
        stack.callback(backbone.register_forward_pre_hook(before, with_kwargs=True).remove)
        yield recording
    missing = sorted(set(range(backbone.config.num_hidden_layers)) - recording.seen)
    if missing:
        raise CaptureError(f"layers {missing} did not run inside the capture; run one whole forward in it")


def _recorded(recording: Recording, compute: Callable[..., Any]) -> Callable[..., Any]:
    """The attention function `compute`, whose calls `recording` takes part in."""

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
        recording.take(
            module,
            query,
            key,
            value,
            attention_mask,
            output,
            scaling=kwargs.get("scaling"),
            window=kwargs.get("sliding_window"),
            soft_cap=kwargs.get("softcap"),
        )
        return output, None

    return attention


@contextlib.contextmanager
def registered(attention: Callable[..., Any], mask: Callable[..., Any]) -> Iterator[str]:
    """Put an attention function and its mask function into transformers' registries; yields their name."""
    name = f"ceiling_{next(_numbers)}"
    AttentionInterface.register(name, attention)
    # Without a mask function of the same name a windowed model silently runs full attention.
    AttentionMaskInterface.register(name, mask)
    try:
        yield name
    finally:
        AttentionInterface._global_mapping.pop(name)
        AttentionMaskInterface._global_mapping.pop(name)


@contextlib.contextmanager
def attention_of(model: nn.Module, name: str) -> Iterator[None]:
    """Let every module of `model` use the attention function `name`, for the length of the block."""
    found = [module.config for module in model.modules() if hasattr(module, "config")]
    configs = {id(config): config for config in found if hasattr(config, "_attn_implementation_internal")}
    before = [(config, config._attn_implementation_internal) for config in configs.values()]
    try:
        for config, _ in before:
            config._attn_implementation_internal = name
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation
