"""Tasks placed into documents, in token space: every fact's positions are known exactly."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from ceiling.problem import InputError
from ceiling.texts.opening import Text
from ceiling.texts.own_hay import OwnHay
from ceiling.texts.parts import GAP, PROSE, AuditInstance, Encode
from ceiling.texts.ruler import audit_instance, is_ruler
from ceiling.texts.tasks import Fact, Instance, nth

LEAST_HAY = 4
"""At least one in so many tokens of a document is haystack: fewer hide nothing, and the answer would start
in the part of a document from which no row is sampled."""

_PARAGRAPH = re.compile(r".*?\n\s*\n|.+", re.DOTALL)
_STRETCH = re.compile(r".{1,400}\n|.{1,400}(?=\s)|.+", re.DOTALL)
"""Paragraphs, and the parts of 400 characters at most that long ones fall into, at a line's end where there
is one, else before a space: facts stand between such parts."""


@dataclass(frozen=True, eq=False, slots=True)
class Placed:
    """An instance in a document of one model's tokens.

    Attributes
    ----------
    instance : Instance
    tokens : ndarray of int64, shape (N,)
        Context, question and answer.
    context, question : int
        Where the context ends and the question starts; where the question ends and the answer starts.
    facts : tuple of (int, int)
        First position of each fact and the one after its last, in the order of ``instance.facts``.
    golds : tuple of (int, int)
        The same of each gold.
    items : tuple of (int, int)
        The same of what is asked for among the parts of a haystack.
    """

    instance: Instance
    tokens: np.ndarray
    context: int
    question: int
    facts: tuple[tuple[int, int], ...]
    golds: tuple[tuple[int, int], ...]
    items: tuple[tuple[int, int], ...] = ()

    @property
    def context_ids(self) -> np.ndarray:
        """Token ids before the question, int64."""
        return self.tokens[: self.context]

    @property
    def question_ids(self) -> np.ndarray:
        """Token ids of the question and of the beginning of the answer, int64."""
        return self.tokens[self.context : self.question]

    @property
    def answer_ids(self) -> np.ndarray:
        """Token ids of the right answer, int64."""
        return self.tokens[self.question :]

    @property
    def needle(self) -> list[int]:
        """Positions of the facts, or of the parts of the haystack, that are asked for, ascending."""
        facts = zip(self.instance.facts, self.facts, strict=True)
        asked = [span for fact, span in facts if fact.asked] + list(self.items)
        return [p for span in asked for p in range(*span)]

    @property
    def retrieval(self) -> list[int]:
        """Positions whose next token is part of a gold, ascending."""
        return [p - 1 for span in self.golds for p in range(*span)]

    @property
    def tags(self) -> dict[str, list[int]]:
        """The document's tags in a manifest."""
        return {"needle": self.needle, "retrieval": self.retrieval}


def task_documents(
    text: Text, encode: Encode, documents: int, tokens: int, prefix: Sequence[int] = ()
) -> list[Placed]:
    """Place a task text's instances, each in its own part of the haystack.

    Parameters
    ----------
    text : Text
        Of a task.
    encode : callable
        Text to token ids, without special tokens.
    documents, tokens : int
        How many, and how long each, `prefix` included.
    prefix : sequence of int
        Token ids every document starts with.

    Returns
    -------
    list of Placed

    Raises
    ------
    InputError
        When the haystack is too short, a document too short for its facts, or a number not positive.
    """
    if text.task is None:
        raise ValueError(f"{text.source} is no task")
    for field, value in (("documents", documents), ("tokens", tokens - len(prefix))):
        if value < 1:
            raise InputError(f"{field}: {value} is not positive")
    hay = (encode(part) for piece in text.pieces for part in paragraphs(piece))
    if is_ruler(text.task):
        made = (audit_instance(text.task, text.seed, index) for index in range(documents))
        return [_place_audit(instance, encode, hay, tokens, prefix) for instance in made]
    return [
        place(nth(text.task, text.seed, index), encode, hay, tokens, prefix) for index in range(documents)
    ]


def _place_audit(
    made: AuditInstance, encode: Encode, hay: Iterator[Sequence[int]], tokens: int, prefix: Sequence[int]
) -> Placed:
    """Place an instance of RULER's tasks with its question and right answer."""
    (question,) = made.questions
    golds, links = question.reading
    asks = question.text + question.prefix
    instance = Instance(made.task, made.seed, made.index, made.facts, asks, tuple(golds), tuple(links))
    start = [*prefix, *encode(made.opening)] if made.opening else prefix
    if made.hay == PROSE:
        return place(instance, encode, hay, tokens, start)
    own = OwnHay(made, encode)
    placed = place(instance, encode, own.parts(), tokens, start)
    return replace(placed, items=own.asked(len(start), placed.context))


def place(
    instance: Instance,
    encode: Encode,
    hay: Iterator[Sequence[int]],
    tokens: int,
    prefix: Sequence[int] = (),
) -> Placed:
    """Hide an instance's facts in a haystack and put its question and answer at the end.

    Parameters
    ----------
    instance : Instance
    encode : callable
        Text to token ids, without special tokens.
    hay : iterator of sequences of int
        Token ids of the haystack's parts, of which as many are taken as are needed. Facts stand between
        parts, at the place nearest to their depth; the last part is cut off where the question starts.
    tokens : int
        Length of the document, `prefix`, question and answer included.
    prefix : sequence of int
        Token ids the document starts with.

    Returns
    -------
    Placed

    Raises
    ------
    InputError
        When `tokens` are too few, or the haystack runs out.
    """
    end, golds = _ending(instance, encode)
    context = bury(instance.task, instance.facts, encode, hay, tokens, sum(map(len, end)), prefix)
    starts = list(accumulate(map(len, end), initial=len(context.ids)))
    return Placed(
        instance,
        np.array(context.ids + list(chain.from_iterable(end)), dtype=np.int64),
        context=len(context.ids),
        question=starts[golds[0]],
        facts=context.facts,
        golds=tuple((starts[k], starts[k + 1]) for k in golds),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Buried:
    """A context with facts in it.

    Attributes
    ----------
    ids : list of int
        Token ids.
    facts : tuple of (int, int)
        First position of each fact and the one after its last.
    """

    ids: list[int]
    facts: tuple[tuple[int, int], ...]


def bury(
    task: str,
    facts: Sequence[Fact],
    encode: Encode,
    hay: Iterator[Sequence[int]],
    tokens: int,
    after: int,
    prefix: Sequence[int],
) -> Buried:
    """Hide facts in a haystack, in a context `after` tokens shorter than `tokens`; see `place`."""
    gap = list(encode(GAP))
    encoded = [list(encode(fact.text)) for fact in facts]
    taken = len(prefix) + sum(len(fact) + len(gap) for fact in encoded) + len(gap) + after
    room = tokens - taken
    if room * LEAST_HAY < tokens:
        least = -(-taken * LEAST_HAY // (LEAST_HAY - 1))
        raise InputError(
            f"tokens: {tokens} are too few for task {task}, whose facts, question and answer take "
            f"{taken} of this model; give at least {least}"
        )
    straw, ends = _take(hay, room, task)
    ids, at = list(prefix), 0
    spans = []
    for fact, own in zip(facts, encoded, strict=True):
        aim = fact.depth * room
        stop = min(ends, key=lambda end: abs(end - aim)) if ends else round(aim)
        ids += straw[at:stop]
        spans.append((len(ids), len(ids) + len(own)))
        ids += own + gap
        at = stop
    return Buried(ids + straw[at:] + gap, tuple(spans))


def paragraphs(text: str) -> Iterator[str]:
    """Cut a text into its paragraphs, long ones into parts; together they are the text."""
    for paragraph in _PARAGRAPH.findall(text):
        yield from _STRETCH.findall(paragraph)


def _ending(instance: Instance, encode: Encode) -> tuple[list[list[int]], list[int]]:
    """Token ids of question, golds and links in turn, and which of them are golds.

    A gold's leading space, where it is a token of its own, goes to what stands before: reading it off is no
    retrieval.
    """
    space, parts = list(encode(" ")), [list(encode(instance.question))]
    golds = []
    for gold, link in zip(instance.golds, (*instance.links, None), strict=True):
        ids = list(encode(gold))
        if len(ids) > len(space) and ids[: len(space)] == space:
            parts[-1] += space
            ids = ids[len(space) :]
        golds.append(len(parts))
        parts.append(ids)
        if link is not None:
            parts.append(list(encode(link)))
    return parts, golds


def _take(hay: Iterator[Sequence[int]], room: int, task: str) -> tuple[list[int], list[int]]:
    """`room` tokens of haystack, and where its parts end among them."""
    straw: list[int] = []
    ends: list[int] = []
    for part in hay:
        straw += part
        if len(straw) >= room:
            return straw[:room], ends
        ends.append(len(straw))
    raise InputError(
        f"text: the haystack of task {task} ends after {len(straw)} of the {room} tokens that the next "
        "document needs; ask for fewer or shorter ones"
    )
