"""A model with windowed layers under eviction, in a process of its own: importing kvpress patches attention.

Prints a line a fact; ``as it should be`` or what is wrong.
"""

import sys
from collections.abc import Iterator

import torch

from ceiling.audit.budget import Arm, Budget
from ceiling.audit.decode import decode
from ceiling.audit.held import HeldCache, hold, hold_full, hold_masked
from ceiling.audit.press import FULL, ROSTER, resolve
from ceiling.audit.refusals import facts, refusal, windows
from ceiling.audit.shared_pass import Passed, Request, shared_pass
from tests import tiny_models

CONTEXT, QUESTION, REST, ROOM = 96, 9, 4, 6
RATIOS = (0.5, 0.9)


def requests(model: torch.nn.Module, arm: Arm) -> list[Request]:
    """Every press of the roster that runs, at every ratio, and the anchor."""
    every = [Request(arm, press, Budget("ratio", r)) for press in ROSTER for r in RATIOS if press != FULL]
    known = facts(model)
    runs = [
        r for r in every
        if refusal(r.press, known, "eager", "float32", arm, r.budget, CONTEXT, QUESTION) is None
    ]  # fmt: skip
    return [Request(arm, FULL, None), *runs]


def passed(model: torch.nn.Module, ids: torch.Tensor, asked: list[Request]) -> Passed:
    parts = ids[:CONTEXT], ids[CONTEXT : CONTEXT + QUESTION], ids[CONTEXT + QUESTION :]
    return shared_pass(model, *parts, asked, backend="eager", seed=0)


def layers(model: torch.nn.Module, result: Passed, asked: list[Request]) -> Iterator[tuple[str, list[str]]]:
    """Which positions of which layers are left, and what they take."""
    sizes = windows(model)
    both = {window is None for window in sizes}
    yield "the model has windowed layers and others", [] if both == {True, False} else [str(sizes)]
    cut, whole, size = [], [], []
    for request in asked:
        span = request.arm.compressed(CONTEXT, QUESTION)
        # what a budget by itself says, without any of the pass's own counting
        ratio = 0.0 if request.budget is None else request.budget.value
        count = max(1, int(span * (1 - ratio)))
        heads = len(result.keys[0])
        for name, store in (("held", hold), ("masked", hold_masked)):
            cache = store(result.keys, result.values, result.kept[request], span, sizes)
            expected = 0
            for number, (layer, window) in enumerate(zip(cache.layers, sizes, strict=True)):
                here = f"{request.press.label} {request.budget} {name} layer {number}"
                lists = [own.tolist() for own in layer.kept()]
                if window is None:
                    if sum(map(len, lists)) != heads * count:
                        cut.append(f"{here}: {list(map(len, lists))} of {count}")
                    expected += heads * (count if name == "held" else span)
                else:
                    near = list(range(max(0, span - window + 1), span))
                    if lists != [near] * heads:
                        whole.append(f"{here}: {list(map(len, lists))} of {len(near)}")
                    expected += heads * len(near)
            bytes_ = expected * result.keys[0].shape[-1] * 2 * result.keys[0].element_size()
            if cache.held_bytes() != bytes_:
                size.append(
                    f"{request.press.label} {request.budget} {name}: {cache.held_bytes()}, not {bytes_}"
                )
    yield "global layers keep their budget", cut
    yield "windowed layers keep all of their window", whole
    yield "held bytes count both kinds of layer", size


def answers(model: torch.nn.Module, ids: torch.Tensor, result: Passed) -> Iterator[tuple[str, list[str]]]:
    """The uncompressed cache answers a question of many tokens as transformers does."""
    with torch.inference_mode():
        told = model.generate(
            ids[None], do_sample=False, max_new_tokens=ROOM, eos_token_id=None, pad_token_id=0
        )[0, len(ids) :].tolist()
    full = hold_full(result.keys, result.values, CONTEXT, windows(model))
    for backend in ("eager", "sdpa"):
        (ours,) = decode(model, [full], ids[CONTEXT:].tolist(), ROOM, frozenset(), backend=backend)
        wrong = [] if list(ours.tokens) == told else [f"{ours.tokens}, not {told}"]
        yield f"a full cache answers as generate does under {backend}", wrong


def evicted(model: torch.nn.Module, ids: torch.Tensor, result: Passed, asked: list[Request]) -> list[str]:
    """Answers of physical storage against the same sets hidden in whole storage, question of many tokens."""
    wrong = []
    for request in asked:
        span = request.arm.compressed(CONTEXT, QUESTION)
        stored: list[HeldCache] = [
            store(result.keys, result.values, result.kept[request], span, windows(model))
            for store in (hold, hold_masked)
        ]
        tokens = ids[span:].tolist()
        one, other = decode(model, stored, tokens, ROOM, frozenset(), backend="eager")
        if one != other or not one.finite:
            wrong.append(f"{request.press.label} {request.budget}: {one.tokens} and {other.tokens}")
    return wrong


def refused(model: torch.nn.Module) -> list[str]:
    """kvpress by itself, whatever the press; and what asks the rotary embedding for positions."""
    known, budget, wrong = facts(model), Budget("ratio", 0.5), []
    for press in ROSTER:
        for arm in Arm:
            here = f"{press.label} in {arm}"
            setting = (press, known, "eager", "float32", arm, budget, CONTEXT, QUESTION)
            alone = refusal(*setting, native=True)
            reason = "rotary" if press.name == "expected_attention" else "windowed layers"
            if press != FULL and (alone is None or reason not in alone):
                wrong.append(f"{here} by kvpress itself: {alone}")
            shared = refusal(*setting)
            if (press.name == "expected_attention") != (shared is not None):
                wrong.append(f"{here}: {shared}")
    kvzip = refusal(resolve("kvzip"), known, "sdpa", "float32", Arm.AGNOSTIC, budget, CONTEXT, QUESTION)
    return wrong if kvzip and "windowed layers" in kvzip else [*wrong, f"kvzip: {kvzip}"]


def main() -> int:
    model = tiny_models.build("gemma3_text", "eager")
    ids = tiny_models.tokens(CONTEXT + QUESTION + REST)[0]
    found: list[tuple[str, list[str]]] = [("kvpress is refused its windowed layers by name", refused(model))]
    for arm in Arm:
        asked = requests(model, arm)
        result = passed(model, ids, asked)
        found += [(f"{arm}: {title}", wrong) for title, wrong in layers(model, result, asked)]
        found.append(
            (f"{arm}: physical storage answers as hidden keys do", evicted(model, ids, result, asked))
        )
        if arm is Arm.AGNOSTIC:
            found += answers(model, ids, result)
    for title, wrong in found:
        print(f"{title}: {'; '.join(wrong) or 'as it should be'}")
    return int(any(wrong for _, wrong in found))


if __name__ == "__main__":
    sys.exit(main())
