"""One forward pass in which every press, at every budget and in every arm, chooses what it would keep."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from ceiling.audit.budget import Arm, Budget, ratio_for
from ceiling.audit.kinds import STORAGE
from ceiling.audit.press import Press
from ceiling.audit.refusals import windows
from ceiling.audit.selection import best, best_of_layer
from ceiling.capture import attention_of, check_length
from ceiling.problem import InputError


@dataclass(frozen=True, slots=True)
class Request:
    """A kept set that is asked for.

    Attributes
    ----------
    arm : Arm
    press : Press
    budget : Budget or None
        None for the anchor, which keeps everything whatever is said here.
    """

    arm: Arm
    press: Press
    budget: Budget | None


Kept = dict[Request, list[Tensor]]
"""Of one layer: by request, the kept positions of each KV head, int64 and ascending."""

OnLayer = Callable[[int, Tensor | None, Tensor, Tensor, Kept], None]


@dataclass(slots=True)
class Passed:
    """What one pass leaves.

    Attributes
    ----------
    keys, values : list of Tensor, shape (KV heads, N, d)
        By layer, keys after rotary embedding, in the model's dtype and on its device.
    kept : dict of Request to list of list of Tensor
        By layer and KV head: positions, int64, ascending. Windowed layers keep all of what the arm
        compresses; the storage cuts them to their windows.
    """

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    kept: dict[Request, list[list[Tensor]]] = field(default_factory=dict)


@torch.inference_mode()
def shared_pass(
    model: Any,
    context_ids: Tensor,
    question_ids: Tensor,
    extra_ids: Tensor,
    requests: Sequence[Request],
    *,
    backend: str,
    seed: int,
    on_layer: OnLayer | None = None,
) -> Passed:
    """Read context, question and what follows once; take every request's kept sets on the way.

    Attention is causal, so what a press would have seen after the context alone, or after context and
    question, are slices of this pass. The scores are those of kvpress' own presses, called on the slices;
    only the choice that AdaKV makes from them is made here, since kvpress refuses it a backend that gives
    attention weights.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode; left as found.
    context_ids, question_ids, extra_ids : Tensor of int64, shape (n,)
        Extra tokens (the answer's beginning, the right answer) are seen by no press.
    requests : sequence of Request
        Presses of route ``shared``. What `refusal` refuses may fail here in kvpress' own words.
    backend : str
        ``eager``, which gives attention weights, or ``sdpa``.
    seed : int
        Of the instance: what random presses draw depends on it, their parameters, the layer and the length.
    on_layer : callable, optional
        Called after each layer with its index, attention weights (heads, N, N) or None, keys and values
        (KV heads, N, d), and the layer's kept sets.

    Returns
    -------
    Passed

    Raises
    ------
    InputError
        Before the pass: a budget, route or length that cannot be served.

    Notes
    -----
    Scores are taken in float32 whatever the model's dtype: hidden states, keys, values and attention weights
    are widened, and so is the copy of the layer's attention module that a score may read weights from. In a
    narrower model a native kvpress press may therefore keep another set: it scores in the model's dtype.
    """
    scoring = _Scoring(requests, len(context_ids), len(question_ids), seed)
    passed = Passed(kept={request: [] for request in requests})
    tokens = torch.cat([context_ids, question_ids, extra_ids])[None]
    backbone = model.get_decoder()
    check_length(backbone.config, tokens.shape[1])
    cache = DynamicCache()  # without the configuration: it then keeps windowed layers whole
    sizes = windows(model)
    scoring.prepare(model)

    def after(module: nn.Module, _: Any, call: dict[str, Any], output: tuple[Any, ...]) -> None:
        index = module.layer_idx
        keys, values = cache.layers[index].keys, cache.layers[index].values
        weights = output[1] if backend == "eager" else None
        kept = scoring.kept(module, call, keys, values, weights, windowed=sizes[index] is not None)
        passed.keys.append(keys[0])
        passed.values.append(values[0])
        for request, heads in kept.items():
            passed.kept[request].append(heads)
        if on_layer is not None:
            on_layer(index, None if weights is None else weights[0], keys[0], values[0], kept)

    with hooked(backbone, backend, after):
        backbone(
            input_ids=tokens.to(backbone.get_input_embeddings().weight.device),
            past_key_values=cache,
            use_cache=True,
        )
    return passed


@contextlib.contextmanager
def hooked(backbone: nn.Module, backend: str, after: Callable[..., None]) -> Iterator[None]:
    """Call `after` behind every layer's attention, under `backend`, with what kvpress' presses expect of a
    module; the backbone is left as found."""
    modules = [layer.self_attn for layer in backbone.layers]
    before = [dict(vars(module)) for module in modules]
    children = [dict(module._modules) for module in modules]
    with contextlib.ExitStack() as stack:
        stack.callback(_restore, modules, before, children)
        stack.enter_context(attention_of(backbone, backend))
        for module in modules:
            module.rotary_emb = backbone.rotary_emb
            stack.callback(module.register_forward_hook(after, with_kwargs=True).remove)
        yield


def _restore(modules: list[nn.Module], before: list[dict[str, Any]], children: list[dict[str, Any]]) -> None:
    """Undo what was set on modules; kvpress' patch of sdpa, too, sets an attribute on them."""
    for module, attributes, submodules in zip(modules, before, children, strict=True):
        module._modules.clear()
        module._modules.update(submodules)
        for name in set(vars(module)) - set(attributes):
            delattr(module, name)
        vars(module).update(attributes)


class _Scoring:
    """Every request's kept sets in one layer, each score taken once."""

    def __init__(self, requests: Sequence[Request], context: int, question: int, seed: int) -> None:
        self.seed = seed
        self.plans = {request: _plan(request, context, question) for request in requests}
        self.presses = {
            (plan.press, plan.ratio): plan.press.build(plan.ratio, seed)
            for plan in self.plans.values()
            if plan.press.role != "anchor"
        }

    def prepare(self, model: Any) -> None:
        for press in self.presses.values():
            press.post_init_from_model(model)

    def kept(
        self,
        module: nn.Module,
        call: dict[str, Any],
        keys: Tensor,
        values: Tensor,
        weights: Tensor | None,
        windowed: bool,
    ) -> Kept:
        """By request, the positions that each KV head keeps."""
        heads = keys.shape[1]
        scores: dict[tuple[Press, float, int], Tensor] = {}
        twin = None
        kept: Kept = {}
        for request, plan in self.plans.items():
            if windowed or plan.count == plan.among:
                kept[request] = [torch.arange(plan.among, device=keys.device)] * heads
                continue
            of = (plan.press, plan.ratio, plan.scored)
            if of not in scores:
                twin = twin or _wide_module(module)
                inputs = _slices(call, keys, values, weights, plan.scored)
                if plan.press.role == "other":  # nobody has read whether it writes into what it is given
                    inputs = copy.deepcopy(inputs)
                scores[of] = self._score(plan, twin, inputs)
            seen = scores[of][..., : plan.among]
            if plan.press.headwise:
                kept[request] = best_of_layer(seen, plan.count, plan.alpha)
            else:
                kept[request] = best(seen, plan.count)
        return kept

    def _score(self, plan: "_Plan", module: nn.Module, inputs: dict[str, Any]) -> Tensor:
        """The press's own score; one that draws draws the same, whatever was scored before it."""
        press = self.presses[plan.press, plan.ratio]
        scorer = press.press if plan.press.headwise else press
        device = inputs["keys"].device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            seed_draws(plan.press, self.seed, module, device)
            return scorer.score(module, **inputs)


def seed_draws(press: Press, seed: int, module: nn.Module, device: torch.device) -> None:
    """Let what a score draws in a layer depend on the press, the instance's seed and the layer alone."""
    drawn = crc32(f"{press.label}/{seed}/{module.layer_idx}".encode())
    torch.default_generator.manual_seed(drawn)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(drawn)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one request is served: tokens scored, tokens chosen among, how many are kept, at which ratio.

    Its press has no storage: how keys are held changes nothing in which are."""

    press: Press
    scored: int
    among: int
    count: int
    ratio: float
    alpha: float


def _plan(request: Request, context: int, question: int) -> _Plan:
    press, arm = request.press, Arm(request.arm)
    press = replace(press, values=tuple(given for given in press.values if given[0] != STORAGE.name))
    if press.route != "shared":
        raise InputError(f"press: {press.label} needs a prefill of its own; the shared pass cannot serve it")
    among = arm.compressed(context, question)
    # A score that cannot depend on the question needs none of it; some, like StreamingLLM's, are relative to
    # the end of what they see, and must not see it.
    scored = among if press.blind else arm.scored(context, question)
    if press.role == "anchor":
        return _Plan(press, scored, among, among, 0.0, 0.0)
    if request.budget is None:
        raise InputError(f"budget: none for {press.label}; only the anchor has none")
    count = request.budget.kept(arm, context, question)
    ratio = SCORED_AT
    if press.per_ratio:  # the one that keeps this count of what is scored
        asked = request.budget.ratio if scored == among else None
        ratio = ratio_for(count, scored) if asked is None else asked
    alpha = press.value("alpha")
    return _Plan(press, scored, among, count, ratio, float(alpha) if press.headwise and alpha else 0.0)


SCORED_AT = 0.5
"""Ratio that presses are built with whose scores do not depend on it."""


def _slices(
    call: dict[str, Any], keys: Tensor, values: Tensor, weights: Tensor | None, n: int
) -> dict[str, Any]:
    """What a press would have been given had the text ended after `n` tokens, no narrower than float32."""
    hidden = _wide(call["hidden_states"][:, :n])
    cos, sin = call["position_embeddings"]
    return {
        "hidden_states": hidden,
        "keys": _wide(keys[:, :, :n]),
        "values": _wide(values[:, :, :n]),
        "attentions": None if weights is None else _wide(weights[:, :, :n, :n]),
        "kwargs": {
            "hidden_states": hidden,
            "position_embeddings": (_wide(cos[:, :n]), _wide(sin[:, :n])),
            "cache_position": torch.arange(n, device=keys.device),
        },
    }


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _wide_module(module: nn.Module) -> nn.Module:
    """The module, or a copy in float32 where its weights are narrower: a score may read them."""
    narrow = any(_wide(parameter[:0]).dtype != parameter.dtype for parameter in module.parameters())
    return copy.deepcopy(module).float() if narrow else module
