"""Answers from our held caches beside those of kvpress with transformers' own cache and decoding.

Run by its test or by hand, ``python -m tests.audit_tokens_check``; in a process of its own, since importing
kvpress replaces transformers' attention functions. A tiny random Llama continues random texts; with an
argument a model of the catalogue answers instances of tasks: ``python -m tests.audit_tokens_check
smollm2-135m``. Also prints, for every press, the bytes measured beside those counted from the kept sets.

Natively the span is prefilled under the press into a `DynamicCache`; then come the rest of the prompt, at its
true positions, and greedy steps of one token. AdaKV runs under sdpa, which kvpress patches to hide its keys,
and reads the rest token by token: where a forward has many queries, kvpress may find no key that hides from
all of them. All others run eagerly, as H2O must.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from ceiling import models, texts
from ceiling.audit.budget import Arm, Budget
from ceiling.audit.decode import decode
from ceiling.audit.held import HeldCache, hold, hold_full, hold_masked
from ceiling.audit.press import FULL, ROSTER, Press
from ceiling.audit.refusals import windows
from ceiling.audit.shared_pass import Request, shared_pass
from tests import tiny_models

RATIOS = (0.5, 0.9)
TASKS = ("niah_single_2", "niah_multikey_1:keys=2", "vt:hops=1")
TOKENS = 500
ROOM = 12
SEED = 5
ARMS = (Arm.AGNOSTIC, Arm.AWARE_KVPRESS)


class Prompt(NamedTuple):
    """Context, question and the answer's beginning."""

    context: Tensor
    question: Tensor
    prefix: Tensor


def native(model: Any, press: Press, ratio: float, span: Tensor, rest: Tensor) -> tuple[list[int], int]:
    """Greedy tokens as kvpress and transformers alone have them, and the bytes their cache holds."""
    backend = "sdpa" if press.headwise else "eager"
    model.set_attn_implementation(backend)
    cache = DynamicCache()
    told: list[int] = []
    with torch.inference_mode(), press.build(ratio, SEED)(model):
        model(span[None], past_key_values=cache)
    held = sum(2 * layer.keys.untyped_storage().nbytes() for layer in cache.layers)
    queue = list(rest.split(1)) if press.headwise else [rest]
    at = len(span)
    with torch.inference_mode():
        while len(told) < ROOM:
            ids = queue.pop(0)
            positions = torch.arange(at, at + len(ids))[None]
            start = cache.get_seq_length()
            logits = model(
                ids[None],
                past_key_values=cache,
                position_ids=positions,
                cache_position=torch.arange(start, start + len(ids)),
            ).logits
            at += len(ids)
            if not queue:
                told.append(int(logits[0, -1].argmax()))
                queue.append(torch.tensor(told[-1:]))
    for layer in model.model.layers:
        vars(layer.self_attn).pop("masked_key_indices", None)  # outlives the press
    return told, held


def ours(model: Any, prompt: Prompt) -> dict[Request, tuple[list[int], HeldCache]]:
    """The same of every press, ratio and arm from one pass, each arm's caches in one batch."""
    requests = [Request(arm, p, Budget("ratio", r)) for arm in ARMS for p in ROSTER for r in RATIOS]
    passed = shared_pass(
        model, prompt.context, prompt.question, prompt.prefix, requests, backend="eager", seed=SEED
    )
    found: dict[Request, tuple[list[int], HeldCache]] = {}
    sizes = windows(model)
    for arm in ARMS:
        own = [r for r in requests if r.arm is arm]
        seen = arm.compressed(len(prompt.context), len(prompt.question))
        caches = [
            hold_full(passed.keys, passed.values, seen, sizes)
            if r.press == FULL
            else (hold_masked if r.press.masks else hold)(
                passed.keys, passed.values, passed.kept[r], seen, sizes
            )
            for r in own
        ]
        rest = torch.cat([prompt.context, prompt.question, prompt.prefix])[seen:].tolist()
        told = decode(model, caches, rest, ROOM, frozenset(), backend="eager")
        found |= {r: (list(a.tokens), c) for r, a, c in zip(own, told, caches, strict=True)}
    return found


def compare(model: Any, prompts: Sequence[Prompt]) -> Iterator[tuple[str, bool]]:
    """One line a press and arm."""
    wrong: dict[tuple[str, str], int] = {}
    bytes_of: dict[str, tuple[int, int, int]] = {}
    for prompt in prompts:
        whole = torch.cat(prompt)
        for request, (told, cache) in ours(model, prompt).items():
            seen = request.arm.compressed(len(prompt.context), len(prompt.question))
            assert request.budget is not None
            ratio = 0.0 if request.press == FULL else float(request.budget.value)
            theirs, held = native(model, request.press, ratio, whole[:seen], whole[seen:])
            key = (request.press.label, str(request.arm))
            wrong[key] = wrong.get(key, 0) + (told != theirs)
            if request.arm is Arm.AGNOSTIC and ratio in (0.0, RATIOS[0]):
                layer = cache.layers[0]
                slots = sum(map(sum, cache.slots()))
                counted = 2 * slots * layer.keys.shape[1] * layer.keys.element_size()
                bytes_of[request.press.label] = (counted, cache.held_bytes(), held)
    for (label, arm), count in wrong.items():
        yield f"{label}, {arm}: answers equal" if not count else f"{label}, {arm}: {count} differ", not count
    for label, (counted, measured, shipped) in bytes_of.items():
        right = measured == (counted if label != "adakv" else shipped)
        right &= measured == shipped or "storage=ragged" in label
        yield f"{label}: counted {counted}, measured {measured}, kvpress's own cache {shipped}", right


def tiny() -> tuple[Any, list[Prompt]]:
    """A random model, and random texts longer than SnapKV's window."""
    model = tiny_models.build("llama", "eager")
    prompts = []
    for seed in range(3):
        ids = tiny_models.tokens(300, seed)[0]
        prompts.append(Prompt(ids[:180], ids[180:200], ids[200:206]))
    return model, prompts


def catalogued(name: str) -> tuple[Any, list[Prompt]]:
    """A real model, and one instance of each of `TASKS`."""
    loaded = models.load(models.resolve(name), "cpu", "float32")
    encode, hay = models.encoder(loaded.tokenizer), texts.open_text("python-docs")
    prompts = []
    for task in TASKS:
        posed = texts.pose(texts.audit_instance(task, SEED, 0), encode, hay, TOKENS)
        asked = posed.questions[0]
        ids = (posed.context_ids, asked.question_ids, asked.prefix_ids)
        prompts.append(Prompt(*map(torch.from_numpy, ids)))
    return loaded.model, prompts


def main(argv: Sequence[str]) -> int:
    """Print every comparison; 1 where anything differs."""
    model, prompts = catalogued(argv[0]) if argv else tiny()
    failed = False
    for line, right in compare(model, prompts):
        failed |= not right
        print(line if right else f"WRONG {line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
