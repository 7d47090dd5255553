"""Why a press cannot run in a setting, or what to know when it does; said before any work starts."""

import inspect
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.press import Press
from ceiling.capture.refusals import check_model
from ceiling.problem import InputError

RECOMPUTING = frozenset({"expected_attention", "cap", "compactor", "leverage_score", "non_causal_attn"})
"""Presses that form queries or keys from hidden states, whatever the backend."""

WINDOWED = frozenset({"snapkv", "tova", "adakv", "criticalkv"})
"""Presses that do so only where the backend gives no attention weights."""

ROTATING = frozenset({"expected_attention", "cap"})
"""Presses that ask the model's rotary embedding for future positions."""

TOKENIZING = frozenset({"kvgrad", "kvzip"})
"""Presses that load a tokenizer from where the model's configuration says that it came from."""

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
"""Files, of which a folder with a tokenizer has one at least."""

DTYPES = ("float32", "bfloat16", "float16")

SCALING_TOLERANCE = 1e-6
"""Relative difference of the factor on the logits from 1/sqrt(head size) that is a rounding; a factor
meant to differ differs by percents."""

_NORMED = ("Qwen3Attention", "Gemma3Attention")
"""Attention classes whose query norm kvpress applies when it forms queries."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What decides which presses a model can run.

    Attributes
    ----------
    type : str
        transformers' model type.
    windows : tuple of int or None
        Keys a query sees at most, by layer; None where it sees all before it.
    soft_cap : bool
        Whether attention logits are capped.
    recomputed : str
        Why queries that kvpress forms from hidden states are not the model's; empty where they are.
    rotary_by_layer : bool
        Whether the rotary embedding must be told the layer's type, which kvpress does not do.
    tokenizer : bool
        Whether the folder that the model came from holds a tokenizer.
    """

    type: str
    windows: tuple[int | None, ...]
    soft_cap: bool
    recomputed: str
    rotary_by_layer: bool
    tokenizer: bool


def facts(model: Any) -> ModelFacts:
    """Read what decides off a loaded model.

    Raises
    ------
    InputError
        When its attention is not a softmax over visible keys of KV heads.
    """
    check_model(model)
    backbone = model.get_decoder()
    layers = getattr(backbone, "layers", ())
    if not hasattr(backbone, "rotary_emb") or not all(hasattr(layer, "self_attn") for layer in layers):
        raise InputError(
            f"model: {backbone.config.model_type} is refused, kvpress hooks self_attn of rotary layers alone"
        )
    rotary = inspect.signature(backbone.rotary_emb.forward).parameters
    return ModelFacts(
        type=backbone.config.model_type,
        windows=windows(model),
        soft_cap=getattr(backbone.config, "attn_logit_softcapping", None) is not None,
        recomputed=_recomputed(backbone),
        rotary_by_layer="layer_type" in rotary,
        tokenizer=_has_tokenizer(model.config.name_or_path),
    )


def _has_tokenizer(origin: str) -> bool:
    return bool(origin) and any((Path(origin) / name).is_file() for name in TOKENIZERS)


def windows(model: Any) -> tuple[int | None, ...]:
    """Keys a query of each layer sees at most; None where it sees all before it."""
    return _windows(model.get_decoder())


def _windows(backbone: Any) -> tuple[int | None, ...]:
    config = backbone.config
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * len(backbone.layers)
    size = getattr(config, "sliding_window", None)
    return tuple(
        getattr(layer.self_attn, "sliding_window", size if kind == "sliding_attention" else None)
        for layer, kind in zip(backbone.layers, kinds, strict=True)
    )


def refusal(
    press: Press,
    model: ModelFacts,
    backend: str,
    dtype: str,
    arm: Arm,
    budget: Budget | None,
    context: int,
    question: int,
    *,
    native: bool = False,
) -> str | None:
    """Why `press` cannot run in this setting; None where it can.

    Parameters
    ----------
    press : Press
    model : ModelFacts
    backend : str
        ``eager`` or ``sdpa``.
    dtype : str
        Of weights and cache.
    arm : Arm
    budget : Budget or None
        None for the anchor alone.
    context, question : int
        Their lengths, in tokens.
    native : bool
        kvpress itself runs it, in a prefill of its own.
    """
    native = native or press.route == "native"
    if dtype not in DTYPES:
        return f"dtype {dtype!r} is none of {', '.join(DTYPES)}"
    if reason := _model(press, model, backend):
        return reason
    if press.role == "anchor":
        return None
    if budget is None:
        return "it needs a budget; only the anchor has none"
    if all(window is not None for window in model.windows):
        return f"every layer of {model.type} is windowed, and windowed layers are never compressed"
    if native:
        if any(window is not None for window in model.windows):
            return f"kvpress by itself cuts the windowed layers of {model.type} too"
        if press.value("storage") == "ragged":
            return "kvpress by itself holds the full cache; only what the shared pass chooses is enforced"
        if arm is Arm.AWARE_SCORES:
            return f"kvpress by itself evicts all that it scores; arm {arm} needs scores from the shared pass"
        if press.kind.masks and backend == "eager":
            return "kvpress hides keys only from attention functions that it has patched; eager is not one"
        if press.name in TOKENIZING and not model.tokenizer:
            return "it reads a tokenizer from the model's own folder, and there is none"
    return _lengths(press, arm, budget, context, question)


def note(press: Press, arm: Arm, budget: Budget, context: int, question: int) -> str | None:
    """What to know about a press that runs: a budget smaller than what it means to protect."""
    kept = budget.kept(arm, context, question)
    for name, what in (("window", "window of observation"), ("n_sink", "first tokens")):
        protected = press.value(name)
        if isinstance(protected, int) and kept < protected:
            return f"keeps {kept} keys, fewer than its {what} of {protected}: which of them is left to ties"
    return None


def _model(press: Press, model: ModelFacts, backend: str) -> str | None:
    """What stands against it in the model's attention."""
    if backend not in ("eager", "sdpa"):
        return f"backend {backend!r} is neither eager nor sdpa"
    if model.soft_cap and backend == "sdpa":
        return f"sdpa drops the soft cap of {model.type}'s attention logits; use eager"
    if press.name == "h2o" and backend == "sdpa":
        return "it sums attention weights, which sdpa does not give; use eager"
    if model.recomputed and press.name in RECOMPUTING:
        return f"it forms queries from hidden states, which is wrong for {model.type}: {model.recomputed}"
    if model.recomputed and press.name in WINDOWED and backend == "sdpa":
        return (
            "without attention weights it forms queries from hidden states, which is wrong for "
            f"{model.type}: {model.recomputed}; use eager"
        )
    if model.rotary_by_layer and press.name in ROTATING:
        return f"it asks the rotary embedding of {model.type} for positions without naming the layer's type"
    return None


def _lengths(press: Press, arm: Arm, budget: Budget, context: int, question: int) -> str | None:
    """What stands against it in the lengths."""
    scored = (Arm.AGNOSTIC if press.blind and arm is Arm.AWARE_SCORES else arm).scored(context, question)
    for name in ("window", "n_sink"):
        needed = press.value(name)
        if isinstance(needed, int) and scored <= needed:
            return f"it scores {scored} tokens, and its {name} of {needed} needs more than that many"
    if press.name == "tova" and scored < 2:
        return f"it scores {scored} token, and the last one is kept without a score"
    try:
        budget.kept(arm, context, question)
    except InputError as error:
        return str(error)
    return None


def _recomputed(backbone: Any) -> str:
    """Why queries formed as kvpress forms them are not the model's."""
    config = backbone.config
    for layer, window in zip(backbone.layers, _windows(backbone), strict=True):
        if window is not None:
            continue
        attention = layer.self_attn
        if not math.isclose(attention.scaling * math.sqrt(attention.head_dim), 1, rel_tol=SCALING_TOLERANCE):
            return "its logits are not scaled by the square root of the head size"
        if hasattr(attention, "q_norm") and type(attention).__name__ not in _NORMED:
            return "its queries are normalised, which kvpress knows of only two families"
        if not (hasattr(attention, "q_proj") or type(attention).__name__ == "Phi3Attention"):
            return "its queries have no projection of their own"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return "its logits are capped"
    rope = getattr(config, "rope_parameters", None) or {}
    share = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", 1))
    return "only a part of its heads is rotated" if (share or 1) < 1 else ""
