"""One instance under every press, budget and arm: kept sets, bytes held, greedy answers and their scores."""

import platform
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from ceiling.audit.budget import Arm, Budget, ratio_for
from ceiling.audit.ceilings import Judge
from ceiling.audit.decode import Answered, decode
from ceiling.audit.held import HeldCache, hold, hold_full, hold_masked
from ceiling.audit.native import Native, native
from ceiling.audit.press import FULL, Press
from ceiling.audit.refusals import windows
from ceiling.audit.shared_pass import Passed, Request, shared_pass
from ceiling.texts.answers import score
from ceiling.texts.posing import Posed, PosedQuestion

ENGINE = "audit/1"
"""Raised when a record may change: records of another engine are other records."""

ANCHOR_BUDGET = "none"

BATCH_BYTES = 3 * 2**30
"""Held caches answered from at a time; the batch copies them once more."""

Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What every instance is answered under.

    Attributes
    ----------
    presses : tuple of Press
        Without the anchor, which is always run.
    budgets : tuple of Budget
    backend, dtype : str
    seed : int
    ceilings : str
        ``none``, or what kept sets are judged against on attention rows; see `ceiling.audit.ceilings.Judge`.
    alone : bool
        Every press is run by kvpress itself, in a prefill of its own: the reference, many times slower.
    """

    presses: tuple[Press, ...]
    budgets: tuple[Budget, ...]
    backend: str
    dtype: str
    seed: int
    ceilings: str
    alone: bool = False

    def requests(self, arm: Arm) -> list[Request]:
        """The anchor, and every press that the shared pass serves, at every budget."""
        return [Request(arm, FULL, None), *(r for r in self._every(arm) if not self.is_native(r.press))]

    def native_requests(self, arm: Arm) -> list[Request]:
        """Presses that need a prefill of their own, at every budget; none gives scores alone."""
        every = [] if arm is Arm.AWARE_SCORES else self._every(arm)
        return [r for r in every if self.is_native(r.press)]

    def is_native(self, press: Press) -> bool:
        """Whether kvpress runs it by itself."""
        return self.alone or press.route != "shared"

    def _every(self, arm: Arm) -> list[Request]:
        return [Request(arm, press, budget) for press in self.presses for budget in self.budgets]


@dataclass(frozen=True, eq=False, slots=True)
class Harness:
    """A loaded model and what it takes to ask it.

    Attributes
    ----------
    model, tokenizer
    stop : frozenset of int
        Tokens that end an answer.
    """

    model: Any
    tokenizer: Any
    stop: frozenset[int]


def answer_instance(
    harness: Harness, setting: Setting, posed: Posed, arms: Sequence[Arm]
) -> dict[Arm, tuple[Columns, Columns]]:
    """Answer every question of one instance.

    Parameters
    ----------
    harness : Harness
    setting : Setting
    posed : Posed
    arms : sequence of Arm

    Returns
    -------
    dict
        By arm, the columns of `audit` and of `audit_ceilings` that the instance determines.

    Notes
    -----
    The agnostic arm compresses once and answers every question from that cache; its first question's
    records carry the seconds of that. Equal kept sets in equal storage that go on with equal tokens have
    equal answers: they are decoded once, which matters where a press is blind to the question and its arms
    differ in nothing.
    """
    written: dict[Arm, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {arm: ([], []) for arm in arms}
    first: Passed | None = None
    own: dict[Request, tuple[Native, float]] = {}
    for number, question in enumerate(posed.questions):
        start = process_time()
        judge = _judge(setting, posed, question)
        passed = _pass(harness, setting, posed, question, arms, judge, first)
        spent = process_time() - start
        fixed = set() if first is None else {r for r in passed.kept if r.arm is Arm.AGNOSTIC}
        share = spent / max(1, len(passed.kept) - len(fixed))
        first = first or passed
        asked = {"question": number}
        again = {r: made for r, made in own.items() if r.arm is Arm.AGNOSTIC}
        own = again | _native(harness, setting, posed, question, arms, again)
        caches = {request: made for request, (made, _) in own.items()}
        for request, told in _answers(harness, setting, posed, question, passed, caches):
            record = asked | _identity(request) | told
            if request not in fixed and request not in again:
                record["seconds"] += own[request][1] if request in own else share
            written[request.arm][0].append(record)
        for request, judged in [] if judge is None else judge.records():
            written[request.arm][1].append(asked | _identity(request) | judged)
    common = _common(setting, posed)
    return {
        arm: (_columns(audit, common), _columns(judged, common)) for arm, (audit, judged) in written.items()
    }


def _pass(
    harness: Harness,
    setting: Setting,
    posed: Posed,
    question: PosedQuestion,
    arms: Sequence[Arm],
    judge: Judge | None,
    first: Passed | None,
) -> Passed:
    """The shared pass; after the first question the agnostic arm's kept sets are those of the first."""
    if first is not None and judge is None and set(arms) == {Arm.AGNOSTIC}:
        return first  # nothing in it depends on the question
    fixed = {} if first is None else {r: kept for r, kept in first.kept.items() if r.arm is Arm.AGNOSTIC}
    requests = [r for arm in arms for r in setting.requests(arm) if r not in fixed]
    on_layer: Callable[..., None] | None = None
    if judge is not None:

        def on_layer(
            layer: int, weights: Any, keys: Tensor, values: Tensor, kept: dict[Request, Any]
        ) -> None:
            judge.on_layer(
                layer, weights, keys, values, kept | {r: every[layer] for r, every in fixed.items()}
            )

    passed = shared_pass(
        harness.model,
        torch.from_numpy(posed.context_ids),
        torch.from_numpy(question.question_ids),
        torch.cat([torch.from_numpy(question.prefix_ids), torch.from_numpy(question.answer_ids)]),
        requests,
        backend=setting.backend,
        seed=_seed(setting, posed),
        on_layer=on_layer,
    )
    passed.kept |= fixed
    return passed


def _native(
    harness: Harness,
    setting: Setting,
    posed: Posed,
    question: PosedQuestion,
    arms: Sequence[Arm],
    made: Container[Request],
) -> dict[Request, tuple[Native, float]]:
    """The caches, not `made` yet, of presses that kvpress runs by itself, and seconds: a prefill for each."""
    context, asked = posed.context_ids.tolist(), question.question_ids.tolist()
    found = {}
    for request in (r for arm in arms for r in setting.native_requests(arm) if r not in made):
        start = process_time()
        arm, budget = request.arm, request.budget
        span = (context + asked)[: arm.compressed(len(context), len(asked))]
        assert budget is not None
        exact = ratio_for(budget.kept(arm, len(context), len(asked)), len(span))
        cache = native(
            harness.model,
            request.press,
            exact if budget.ratio is None else budget.ratio,
            span,
            backend=setting.backend,
            seed=_seed(setting, posed),
        )
        found[request] = cache, process_time() - start
    return found


def _answers(
    harness: Harness,
    setting: Setting,
    posed: Posed,
    question: PosedQuestion,
    passed: Passed,
    own: dict[Request, Native],
) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Every request with its answer, its score and its bytes."""
    context, asked = len(posed.context_ids), len(question.question_ids)
    sizes = windows(harness.model)
    for after in (True, False):  # whether the question is read after eviction
        wanted = [r for r in (*passed.kept, *own) if (r.arm is not Arm.AWARE_KVPRESS) is after]
        tokens = [*(question.question_ids.tolist() if after else []), *question.prefix_ids.tolist()]
        for part in _parts(wanted, passed, context, asked):
            caches = {
                r: own[r].cache if r in own else _held(r, passed, r.arm.compressed(context, asked), sizes)
                for r in part
            }
            ids = {r: cache.kept_id() for r, cache in caches.items()}
            # a press that kvpress runs may have changed what it kept: equal positions say nothing of it
            alike = {r: r if r in own else (r.press.masks, ids[r]) for r in caches}
            one_of = {key: r for r, key in reversed(alike.items())}
            start = process_time()
            answered = decode(
                harness.model,
                [caches[r] for r in one_of.values()],
                tokens,
                question.room,
                harness.stop,
                backend=setting.backend,
            )
            seconds = (process_time() - start) / max(1, len(part))
            found = dict(zip(one_of, answered, strict=True))
            for r, cache in caches.items():
                told = _told(harness, question, found[alike[r]])
                held = own[r].held_bytes if r in own else cache.held_bytes()
                told |= _memory(r, cache, held, passed, sizes, context, asked, len(tokens))
                yield r, told | _lengths(posed, question) | {"kept_id": ids[r], "seconds": seconds}


def _parts(wanted: Sequence[Request], passed: Passed, context: int, question: int) -> Iterator[list[Request]]:
    """Requests whose caches fit beside each other."""
    whole = sum(2 * keys[:, : context + question].numel() * keys.element_size() for keys in passed.keys)
    part: list[Request] = []
    taken = 0.0
    for request in wanted:
        lists = [len(own) for layer in passed.kept.get(request, ()) for own in layer]
        share = sum(lists) / (len(lists) * (context + question)) if lists else 1.0
        share = 1.0 if request.press.masks else share
        if part and taken + share * whole > BATCH_BYTES:
            yield part
            part, taken = [], 0.0
        part.append(request)
        taken += share * whole
    if part:
        yield part


def _held(request: Request, passed: Passed, seen: int, sizes: Sequence[int | None]) -> HeldCache:
    if request.press.role == "anchor":
        return hold_full(passed.keys, passed.values, seen, sizes)
    store = hold_masked if request.press.masks else hold
    return store(passed.keys, passed.values, passed.kept[request], seen, sizes)


def _told(harness: Harness, question: PosedQuestion, answered: Answered) -> dict[str, Any]:
    answer = harness.tokenizer.decode(answered.tokens)
    return {
        "score": score(answer, question.question) if answered.finite else None,
        "answer": answer,
        "answer_tokens": list(answered.tokens),
        "truncated": answered.finite and not answered.ended,
        "status": "answered" if answered.finite else "not finite",
    }


def _memory(
    request: Request,
    cache: HeldCache,
    held: int,
    passed: Passed,
    sizes: Sequence[int | None],
    context: int,
    question: int,
    read: int,
) -> dict[str, Any]:
    """Bytes promised, held and to be had, and how many slots are attended to."""
    arm = request.arm
    length = arm.compressed(context, question)
    count = length if request.budget is None else request.budget.kept(arm, context, question)
    entry = [2 * len(k) * k.shape[2] * k.element_size() for k in passed.keys]  # bytes of a token, by layer
    lists = [
        (count if w is None else min(length, w - 1), length if w is None else min(length, w - 1))
        for w in sizes
    ]
    slots = [n for layer, w in zip(cache.slots(), sizes, strict=True) if w is None for n in layer]
    return {
        "nominal_bytes": sum(each * kept for each, (kept, _) in zip(entry, lists, strict=True)),
        "held_bytes": held,
        "full_bytes": sum(each * full for each, (_, full) in zip(entry, lists, strict=True)),
        "begin_bytes": held + sum(entry) * read,
        "slots_min": min(slots),
        "slots_mean": sum(slots) / len(slots),
        "slots_max": max(slots),
    }


def _lengths(posed: Posed, question: PosedQuestion) -> dict[str, int]:
    context, asked, prefix = (
        len(ids) for ids in (posed.context_ids, question.question_ids, question.prefix_ids)
    )
    return {
        "prompt_tokens": context + asked + prefix,
        "context_tokens": context,
        "question_tokens": asked,
        "prefix_tokens": prefix,
        "room_tokens": question.room,
    }


def _identity(request: Request) -> dict[str, Any]:
    press, budget = request.press, request.budget
    return {
        "arm": str(request.arm),
        "press": press.name,
        "parameters": press.parameters,
        "role": press.role,
        "budget": ANCHOR_BUDGET if budget is None else str(budget),
        "ratio": 0.0 if budget is None else budget.ratio,
    }


def _common(setting: Setting, posed: Posed) -> dict[str, Any]:
    instance = posed.instance
    return {
        "backend": setting.backend,
        "dtype": setting.dtype,
        "task": instance.task,
        "axis": instance.axis,
        "instance": instance.index,
        "seed": setting.seed,
        "host": platform.node(),
    }


def _columns(records: Sequence[dict[str, Any]], common: dict[str, Any]) -> Columns:
    names = list(records[0]) if records else []
    own: Columns = {name: [record[name] for record in records] for name in names}
    return own | {name: [value] * len(records) for name, value in common.items()}


def _judge(setting: Setting, posed: Posed, question: PosedQuestion) -> Judge | None:
    if setting.ceilings == "none":
        return None
    parts = (posed.context_ids, question.question_ids, question.prefix_ids, question.answer_ids)
    context, asked, prefix, answer = map(len, parts)
    return Judge(context, asked, prefix, answer, setting.ceilings)


def _seed(setting: Setting, posed: Posed) -> int:
    """Of what random presses draw for one instance."""
    instance = posed.instance
    return crc32(f"{setting.seed}/{instance.task}/{instance.index}".encode())
