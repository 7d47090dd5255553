"""A model folder loaded: weights on a device, or only its skeleton and tokenizer."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from ceiling.models.folder import ModelFolder
from ceiling.models.source import ModelSource
from ceiling.problem import InputError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Names of the numeric types a model may run in."""

_FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError)
"""What transformers raises on a folder that holds no model it knows."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadedModel:
    """A model ready to run, and what it is.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode, attention through sdpa.
    tokenizer : transformers.PreTrainedTokenizerBase
    id, revision, weights_sha256, licence
        See `ModelFolder`.
    """

    model: PreTrainedModel
    tokenizer: Any
    id: str
    revision: str | None
    weights_sha256: str
    licence: str | None


def load(source: ModelSource | ModelFolder, device: str = "auto", dtype: str | None = None) -> LoadedModel:
    """Load a model for capture.

    Parameters
    ----------
    source : ModelSource or ModelFolder
        From `resolve`, or its ``fetch()``.
    device : str
        ``auto`` (CUDA where there is one, else CPU), ``cpu``, ``cuda``, ``cuda:1`` ...
    dtype : {"float32", "bfloat16", "float16"}, optional
        float32 on a CPU and bfloat16 on CUDA when not given.

    Returns
    -------
    LoadedModel

    Raises
    ------
    InputError
        When device or dtype is unknown, or the folder holds no complete causal language model.
    """
    place, kind = placement(device, dtype)
    folder = source.fetch() if isinstance(source, ModelSource) else source
    files = folder.weight_files()
    with quiet(), _named(folder, f"weights of {files[0].name}"):
        model, found = AutoModelForCausalLM.from_pretrained(
            folder.path,
            dtype=DTYPES[kind],
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    if missing := sorted(found["missing_keys"]):
        raise InputError(f"model: {folder.path} lacks weights, {missing[0]} and {len(missing) - 1} more")
    return LoadedModel(
        model.to(place).eval(),
        tokenizer(folder),
        folder.id,
        folder.revision,
        folder.weights_sha256(),
        folder.licence,
    )


def placement(device: str, dtype: str | None) -> tuple[str, str]:
    """Device and dtype names after ``auto`` and the defaults; InputError when they cannot be had."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device)
    except RuntimeError:
        raise InputError(f"device: {device!r} is unknown; use auto, cpu, cuda or cuda:N") from None
    if kind.type not in ("cpu", "cuda"):
        raise InputError(f"device: {device!r} is not supported; use auto, cpu, cuda or cuda:N")
    if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        has = f"{count} CUDA device{'s' if count > 1 else ''}" if count else "no CUDA device"
        raise InputError(f"device: {device!r} is not here; this machine has {has}")
    if dtype is None:
        dtype = "float32" if kind.type == "cpu" else "bfloat16"
    if dtype not in DTYPES:
        raise InputError(f"dtype: {dtype!r} is unknown; use {', '.join(DTYPES)}")
    return device, dtype


def skeleton(folder: ModelFolder) -> PreTrainedModel:
    """The model without weights (on torch's ``meta`` device), for checks that must not wait for them."""
    with quiet(), _named(folder, "config.json"):
        config = AutoConfig.from_pretrained(folder.path, local_files_only=True)
        with torch.device("meta"):
            # eager: every model has it, so one that lacks sdpa is refused by what it is, not by that.
            return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def tokenizer(folder: ModelFolder) -> Any:
    """The model's tokenizer."""
    with quiet(), _named(folder, "tokenizer"):
        return AutoTokenizer.from_pretrained(folder.path, local_files_only=True)


def encoder(coder: Any) -> Callable[[str], list[int]]:
    """A tokenizer as a function from text to token ids, without special tokens."""
    # verbose=False: a whole text is longer than the model's positions; it is cut into documents afterwards.
    return lambda text: coder(text, add_special_tokens=False, verbose=False)["input_ids"]


def start_tokens(coder: Any) -> tuple[int, ...]:
    """The token that a tokenizer puts before every text, or none."""
    first = coder("")["input_ids"][:1]
    return tuple(first) if first and first == [coder.bos_token_id] else ()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' own progress bars off the terminal, and leave its settings as they were."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def _named(folder: ModelFolder, part: str) -> Iterator[None]:
    """Turn whatever transformers raises into one line that names the folder and the part."""
    try:
        yield
    except InputError:
        raise
    except _FAULTS as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise InputError(f"model: {folder.path} cannot be read ({part}): {reason}") from error
