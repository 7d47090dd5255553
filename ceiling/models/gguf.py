"""A GGUF file turned into a standard Hugging Face folder.

transformers dequantises the weights, and leaves aside what it does not know: a file is converted
only when each of its settings and tensors has a place in the model.
"""

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM

from ceiling.models.gguf_tokenizer import rebuild
from ceiling.models.loading import quiet
from ceiling.problem import InputError

ARCHITECTURES: dict[str, set[str]] = {
    "llama": set(),
    "qwen2": set(),
    "qwen3": set(),
    "gemma3": {"attention.sliding_window"},
}
"""Architectures whose conversion is right -> settings beside those that all have."""

_HEAD = {"rope.dimension_count", "attention.key_length", "attention.value_length"}
"""Settings that must be the head dimension: transformers reads them from no or other settings."""

_SETTINGS = _HEAD | {
    "context_length",
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "rope.freq_base",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
}

_FAULTS = (ValueError, KeyError, IndexError, TypeError, AttributeError, NotImplementedError, RuntimeError)
"""What the reader and transformers raise on a file that is not what its header says."""


def convert(gguf: Path, folder: Path) -> str | None:
    """Write ``config.json``, ``model.safetensors`` (float32) and the tokenizer of `gguf` into `folder`.

    Parameters
    ----------
    gguf : Path
        The file; its architecture one of `ARCHITECTURES`.
    folder : Path
        Exists; filled.

    Returns
    -------
    str or None
        The licence that the file names.

    Raises
    ------
    InputError
        When the file is no GGUF file, or holds a setting, a tensor or a kind of tokenizer that the
        converted model would lack.

    Notes
    -----
    Settings and token types are those of the GGUF specification (ggml-org/ggml, ``docs/gguf.md``).
    """
    try:
        reader = GGUFReader(gguf)
    except _FAULTS as error:
        raise InputError(f"model: {gguf} is no readable GGUF file ({error})") from None
    settings = {name: field.contents() for name, field in reader.fields.items()}
    _check_settings(gguf, settings)
    tokenizer = rebuild(settings, gguf.name)
    # Its progress bar is a bare tqdm on stderr, out of reach of transformers' own settings.
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        model = _weights(gguf)
        _check_weights(gguf, model, settings, len(reader.tensors))
        if hasattr(model.config, "query_pre_attn_scalar"):
            # The file has no such setting. llama.cpp divides by the head dimension's root, but in
            # Gemma 3 27B, which is refused for its scaled positions.
            model.config.query_pre_attn_scalar = model.config.head_dim
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    licence: str | None = settings.get("general.license")
    return licence


def _weights(gguf: Path) -> Any:
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
        )
    except (*_FAULTS, OSError) as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise InputError(f"model: {gguf} cannot be converted: {reason}") from error
    if missing := sorted(found["missing_keys"]):
        raise InputError(f"model: {gguf} lacks weights, {missing[0]} and {len(missing) - 1} more")
    return model


def _check_settings(gguf: Path, settings: dict[str, Any]) -> None:
    """Refuse what would be left aside: scaled positions, soft caps, experts ..."""
    architecture = settings.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise InputError(
            f"model: {gguf} is of architecture {architecture!r}; converted are {', '.join(ARCHITECTURES)}; "
            "give others as a Hugging Face folder"
        )
    known = _SETTINGS | ARCHITECTURES[architecture]
    for name in settings:
        head, _, setting = name.partition(".")
        if head == architecture and setting not in known:
            raise InputError(
                f"model: {gguf} sets {name}, which a conversion would lose; "
                "give the model as a Hugging Face folder"
            )


def _check_weights(gguf: Path, model: Any, settings: dict[str, Any], tensors: int) -> None:
    """Refuse a model that is not the file's: tensors that found no place, or other heads."""
    parameters = len(list(model.parameters()))  # a tied one counts once, as it stands once in the file
    if parameters != tensors:
        raise InputError(
            f"model: {gguf} holds {tensors} tensors, its conversion {parameters}; "
            "give the model as a Hugging Face folder"
        )
    config, prefix = model.config, settings["general.architecture"]
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    expected = {f"{prefix}.{name}": settings.get(f"{prefix}.{name}", head_dim) for name in sorted(_HEAD)}
    for name, value in expected.items():
        if value != head_dim:
            raise InputError(
                f"model: {gguf} sets {name} = {value}, its conversion has heads of {head_dim} components; "
                "give the model as a Hugging Face folder"
            )
