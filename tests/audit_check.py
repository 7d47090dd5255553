"""kvpress by itself, press by press, beside the shared pass; and its traps, tried on us.

Run by its test or by hand, in a process of its own, since importing kvpress replaces transformers' attention
functions: ``python -m tests.audit_check`` on a tiny random Llama, ``--model smollm2-135m`` on instances of
tasks, ``--bytes`` for the table of what every press holds. Prints one line a check.

Compared for every press of the roster, at two ratios, on three texts, in the two arms that kvpress knows:
kept positions, and greedy answers from the shared pass and from kvpress's cache taken into ours; with
``--model`` also those of kvpress with transformers' own cache and decoding, as `audit_tokens_check` does on
the tiny one. AdaKV natively runs under sdpa, all others eagerly.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.decode import decode
from ceiling.audit.held import HeldCache, hold, hold_full
from ceiling.audit.native import Native, native
from ceiling.audit.press import DEFAULT, FULL, ROSTER, Press, resolve
from ceiling.audit.ragged import RaggedBatch, attending
from ceiling.audit.refusals import windows
from ceiling.audit.shared_pass import Passed, Request, shared_pass
from tests import tiny_models
from tests.audit_pass_check import KEYS_TOLERANCE
from tests.audit_tokens_check import ARMS, RATIOS, ROOM, SEED, Prompt, catalogued, ours, tiny
from tests.audit_tokens_check import native as plain

OTHERS = (
    *("critical_adakv", "criticalkv", "pyramidkv", "kvcompose", "kvzip", "kvgrad", "compactor", "cur"),
    *("cap", "lagkv", "leverage_score", "non_causal_attn"),
)
"""Presses beyond the roster that need no network."""

DRAWING = ("compactor:sketch_dimension=4", "leverage_score:sketch_dimension=4", "random:seed=3")
"""Presses whose scores draw. Sketches have fewer dimensions than keys: otherwise all of them score alike."""

REPLAYED = 1.9
"""Times the full cache that kvzip's storages come to at least: the text twice, less its template."""

FLOAT32 = 4
"""Bytes of an entry: all that is counted here is in float32."""

Checks = Iterator[tuple[str, bool]]


def alone(model: Any, press: Press, ratio: float, span: Tensor) -> Native:
    """The press by itself, under the backend that kvpress lets it have."""
    backend = "sdpa" if press.kind.masks else "eager"
    return native(model, press, ratio, span.tolist(), backend=backend, seed=SEED)


def answer(model: Any, cache: HeldCache, rest: Tensor) -> list[int]:
    found = decode(model, [cache], rest.tolist(), ROOM, frozenset(), backend="eager")
    return list(found[0].tokens)


def equal(ours: Sequence[Sequence[Tensor]], theirs: Sequence[Sequence[Tensor]] | None) -> bool:
    return theirs is not None and all(
        torch.equal(a, b)
        for x, y in zip(ours, theirs, strict=True)
        for a, b in zip(x, y, strict=True)
    )  # fmt: skip


def comparable(request: Request) -> bool:
    """The anchor once; and not AdaKV's choice held, whose answers `audit_tokens_check` compares."""
    assert request.budget is not None
    once = request.press != FULL or request.budget.value == RATIOS[0]
    return once and "storage=ragged" not in request.press.label


def share(request: Request) -> float:
    """That kvpress evicts."""
    assert request.budget is not None
    return 0.0 if request.press == FULL else float(request.budget.value)


def compare(model: Any, prompts: Sequence[Prompt], *, shipped: bool) -> Checks:
    """One line a press and arm; `shipped`: also with answers of transformers' own cache and decoding."""
    wrong: dict[tuple[str, str], list[str]] = {}
    for number, prompt in enumerate(prompts):
        whole, context = torch.cat(prompt), len(prompt.context)
        mine = {r: each for r, each in ours(model, prompt).items() if comparable(r)}
        for arm in ARMS:
            seen = arm.compressed(context, len(prompt.question))
            theirs = {r: alone(model, r.press, share(r), whole[:seen]) for r in mine if r.arm is arm}
            caches = [each.cache for each in theirs.values()]
            read = decode(model, caches, whole[seen:].tolist(), ROOM, frozenset(), backend="eager")
            for (request, left), answered in zip(theirs.items(), read, strict=True):
                told, cache = mine[request]
                answers = [list(answered.tokens)]
                if shipped:
                    answers.append(plain(model, request.press, share(request), whole[:seen], whole[seen:])[0])
                said = wrong.setdefault((request.press.label, str(arm)), [])
                at = f"text {number}, ratio {share(request)}"
                if not equal([layer.kept() for layer in cache.layers], left.kept):
                    said.append(f"{at}: kept sets")
                if any(each != told for each in answers):
                    said.append(f"{at}: answers")
    for (label, name), said in wrong.items():
        yield f"{label}, {name}: {'; '.join(said) or 'kept sets and answers equal'}", not said


def passed(model: Any, prompt: Prompt, requests: Sequence[Request], backend: str = "eager") -> Passed:
    return shared_pass(model, *prompt, requests, backend=backend, seed=SEED)


def logits(model: Any, cache: HeldCache, tokens: Tensor, seen: int) -> Tensor:
    """After `tokens`, of which the first stands at `seen`."""
    at = torch.arange(len(tokens))
    with torch.inference_mode(), attending(model, RaggedBatch([cache], "eager")):
        read = model(tokens[None], position_ids=(seen + at)[None], past_key_values=DynamicCache())
    return read.logits[0, -1]


def drawn(model: Any, prompt: Prompt) -> Checks:
    """What draws draws the same alone as beside others."""
    for name in DRAWING:
        request = Request(Arm.AGNOSTIC, resolve(name), Budget("ratio", RATIOS[0]))
        shared = passed(model, prompt, [request]).kept[request]
        theirs = [alone(model, request.press, RATIOS[0], prompt.context) for _ in range(2)]
        yield f"{name}: draws are its own", all(equal(shared, each.kept) for each in theirs)


def leaks(model: Any, prompt: Prompt) -> Checks:
    """What kvpress leaves on modules and writes into caches reaches nobody."""
    adakv, half = resolve("adakv"), RATIOS[0]
    request = Request(Arm.AGNOSTIC, resolve("snapkv"), Budget("ratio", half))
    rest = torch.cat(prompt[1:])
    before = passed(model, prompt, [request])
    full = hold_full(before.keys, before.values, len(prompt.context), windows(model))
    told = answer(model, full, rest)
    attributes = [dict(vars(layer.self_attn)) for layer in model.model.layers]
    children = [dict(layer.self_attn._modules) for layer in model.model.layers]
    first = alone(model, adakv, half, prompt.context)
    left = [dict(vars(layer.self_attn)) for layer in model.model.layers]
    same = attributes == left and children == [dict(x.self_attn._modules) for x in model.model.layers]
    yield "a native press leaves the model as found", same
    pairs = zip(first.cache.layers, full.layers, strict=True)
    near = all(torch.allclose(mine.keys, real.keys, atol=KEYS_TOLERANCE) for mine, real in pairs)
    yield "no fake key is held", near
    copies = [layer.keys.clone() for layer in first.cache.layers]
    answer(model, first.cache, rest)
    yield (
        "answering writes nothing into a cache",
        all(map(torch.equal, copies, (layer.keys for layer in first.cache.layers))),
    )
    mask = (torch.zeros(60, dtype=torch.int64), torch.zeros(60, dtype=torch.int64), torch.arange(60))
    for layer in model.model.layers:  # as kvpress leaves it where nobody takes it off
        layer.self_attn.masked_key_indices = mask
    again = alone(model, adakv, half, prompt.context)
    plainly = alone(model, resolve("pyramidkv"), half, prompt.context)
    yield "what others left hides nothing here", (
        answer(model, full, rest) == told
        and equal(before.kept[request], passed(model, prompt, [request]).kept[request])
        and again.kept is not None
        and equal(again.kept, first.kept)
        and all(layer.visible is None for layer in plainly.cache.layers)
    )  # fmt: skip
    found = [vars(layer.self_attn).pop("masked_key_indices", None) for layer in model.model.layers]
    yield "and stays what it was", all(each is mask for each in found)


def controls(model: Any, prompt: Prompt) -> Checks:
    """That eviction matters, that keeping everything does not, and that positions are the true ones."""
    rest, context = torch.cat(prompt[1:]), len(prompt.context)
    most = [Request(Arm.AGNOSTIC, p, Budget("ratio", 0.99)) for p in DEFAULT]
    every = [
        Request(Arm.AGNOSTIC, p, b) for p in ROSTER for b in (Budget("ratio", 0.0), Budget("slots", context))
    ]
    found = passed(model, prompt, [*most, *every])
    sizes = windows(model)
    full = hold_full(found.keys, found.values, context, sizes)
    anchor, told = logits(model, full, rest, context), answer(model, full, rest)
    for request in most:
        cache = hold(found.keys, found.values, found.kept[request], context, sizes)
        moved = float((logits(model, cache, rest, context) - anchor).abs().max())
        yield f"{request.press.label} at 0.99 moves the logits", moved > MOVED
    caches = [hold(found.keys, found.values, found.kept[r], context, sizes) for r in every]
    answers = decode(model, caches, rest.tolist(), ROOM, frozenset(), backend="eager")
    for request, answered in zip(every, answers, strict=True):
        label = f"{request.press.label}, {request.budget}"
        yield f"{label}: the anchor's answer", list(answered.tokens) == told
    for press in (p for p in ROSTER if "storage" not in p.label):
        kept_all = alone(model, press, 0.0, prompt.context)
        yield f"{press.label} alone at 0: the anchor's answer", answer(model, kept_all.cache, rest) == told
    ids = torch.cat(prompt)[None]
    with torch.inference_mode():
        straight = model(ids).logits[0, -1]
    yield "positions are the true ones", bool(torch.allclose(anchor, straight, atol=LOGITS_TOLERANCE))
    shifted = logits(model, full, rest, context - 10)
    yield "others would show", float((shifted - straight).abs().max()) > MOVED


MOVED = 1e-2
"""Logits that differ by more have not moved by rounding, which is a thousandth of it."""

LOGITS_TOLERANCE = 1e-4
"""Absolute difference of logits near 1 between one pass and a prefill read on from, in float32."""


def half_precision(prompt: Prompt) -> Checks:
    """AdaKV's choice in float16 is finite; what is not finite is said to be."""
    model = tiny_models.build("llama", "eager").half()
    request = Request(Arm.AGNOSTIC, resolve("adakv"), Budget("ratio", RATIOS[0]))
    found = passed(model, prompt, [request])
    context, rest = len(prompt.context), torch.cat(prompt[1:]).tolist()
    cache = hold(found.keys, found.values, found.kept[request], context, windows(model))
    first = decode(model, [cache], rest, ROOM, frozenset(), backend="eager")[0]
    yield "float16 answers are finite", first.finite and len(first.tokens) == ROOM
    theirs = alone(model, request.press, RATIOS[0], prompt.context)
    yield "float16 positions are found", theirs.kept is not None
    model.lm_head.weight.data.fill_(torch.finfo(torch.float16).max)
    broken = decode(model, [cache], rest, ROOM, frozenset(), backend="eager")[0]
    yield "an answer that is not finite is flagged", not broken.finite and not broken.tokens


def unequal(model: Any, prompt: Prompt) -> Checks:
    """PyramidKV's layers are of unequal lengths, and answer here all the same; so they do token by token."""
    press, context = resolve("pyramidkv:window=16"), prompt.context
    theirs = alone(model, press, RATIOS[0], context)
    lengths = {layer.lengths for layer in theirs.cache.layers}
    yield "pyramidkv's layers differ in length", len(lengths) > 1
    rest = torch.cat(prompt[1:])
    yield (
        "pyramidkv answers as token by token",
        answer(model, theirs.cache, rest) == one_by_one(model, press, context, rest),
    )


def one_by_one(model: Any, press: Press, context: Tensor, rest: Tensor) -> list[int]:
    """Greedy answer from kvpress's own cache under sdpa with single tokens, the one way it does not crash."""
    model.set_attn_implementation("sdpa")
    cache, told, queue = DynamicCache(), [], rest.tolist()
    with torch.inference_mode():
        with press.build(RATIOS[0], SEED)(model):
            model(context[None], past_key_values=cache)
        for at in range(len(context), len(context) + len(rest) + ROOM - 1):
            ids = torch.tensor([[queue.pop(0)]])
            read = model(ids, past_key_values=cache, position_ids=torch.tensor([[at]]))
            if not queue:
                told.append(int(read.logits[0, -1].argmax()))
                queue.append(told[-1])
    model.set_attn_implementation("eager")
    return told


def held_bytes(model: Any, prompt: Prompt, names: Sequence[str] = OTHERS) -> Iterator[tuple[Any, ...]]:
    """Of every press at one ratio: counted, ours measured, kvpress's by elements and by storage, and full."""
    ratio, context = RATIOS[0], prompt.context
    every = [*ROSTER, *map(resolve, names)]
    shared = [Request(Arm.AGNOSTIC, p, Budget("ratio", ratio)) for p in every if p.route == "shared"]
    found = passed(model, prompt, shared)
    sizes = windows(model)
    entry = 2 * found.keys[0].shape[2] * FLOAT32
    full = len(context) * entry * sum(len(k) for k in found.keys)
    for press in every:
        theirs = None
        if "storage" not in press.label:
            theirs = alone(model, press, 0.0 if press == FULL else ratio, context)
        request = Request(Arm.AGNOSTIC, press, Budget("ratio", ratio))
        kept = found.kept.get(request) or (theirs and theirs.kept)
        assert kept
        counted = entry * sum(len(own) for layer in kept for own in layer)
        stored = hold(found.keys, found.values, kept, len(context), sizes).held_bytes()
        elements = theirs and sum(
            FLOAT32 * (layer.keys.numel() + layer.values.numel()) for layer in theirs.cache.layers
        )
        yield press, counted, stored, elements, theirs and theirs.held_bytes, full


def bytes_checks(model: Any, prompt: Prompt) -> Checks:
    """Storage against the count, for every press."""
    for press, counted, stored, elements, storage, full in held_bytes(model, prompt):
        wanted = full if press.kind.masks else counted
        right = stored == counted and (elements is None or elements == wanted)
        replays = press.name == "kvzip"  # what it hands back are views of the text read twice
        right &= storage is None or (storage > REPLAYED * full if replays else storage == wanted)
        yield f"{press.label}: bytes as counted", right


def bytes_table(model: Any, prompt: Prompt) -> str:
    """The table, in shares of the full cache."""
    lines = [
        "| press | counted | ours, measured | kvpress, elements | kvpress, storage |",
        "|---|---|---|---|---|",
    ]
    for press, *found, full in held_bytes(model, prompt):
        cells = ["" if each is None else f"{each} ({each / full:.3f})" for each in found]
        lines.append(f"| {press.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tiny_checks() -> Checks:
    """All there is, on a model that a second takes."""
    _, prompts = tiny()
    with tempfile.TemporaryDirectory() as folder:  # kvzip reads a tokenizer where the model came from
        tiny_models.save(Path(folder))
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        yield from compare(model, prompts, shipped=False)
        for checks in (drawn, leaks, controls, unequal, bytes_checks):
            yield from checks(model, prompts[0])
    yield from half_precision(prompts[0])


def main(argv: Sequence[str]) -> int:
    """Print every check; 1 where anything is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--bytes", action="store_true")
    options = parser.parse_args(argv)
    if options.bytes:
        model, prompts = catalogued(options.model or "smollm2-135m")
        print(bytes_table(model, prompts[0]))
        return 0
    failed = False
    named = options.model and compare(*catalogued(options.model), shipped=True)
    for line, right in named or tiny_checks():
        failed |= not right
        print(line if right else f"WRONG {line}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
