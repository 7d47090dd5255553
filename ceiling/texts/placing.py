"""Tasks placed into documents, in token space: every fact's positions are known exactly."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from ceiling.problem import InputError
from ceiling.texts.opening import Text
from ceiling.texts.tasks import Instance, nth

LEAST_HAY = 4
"""At least one in so many tokens of a document is haystack: fewer hide nothing, and the answer would start
in the part of a document from which no row is sampled."""

GAP = "\n\n"
"""Stands after each fact and before the question."""

_PARAGRAPH = re.compile(r".*?\n\s*\n|.+", re.DOTALL)
_STRETCH = re.compile(r".{1,400}\n|.{1,400}(?=\s)|.+", re.DOTALL)
"""Paragraphs, and the parts of 400 characters at most that long ones fall into, at a line's end where there
is one, else before a space: facts stand between such parts."""

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, without special tokens."""


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
    """

    instance: Instance
    tokens: np.ndarray
    context: int
    question: int
    facts: tuple[tuple[int, int], ...]
    golds: tuple[tuple[int, int], ...]

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
        """Positions of the facts asked for, ascending."""
        facts = zip(self.instance.facts, self.facts, strict=True)
        return [p for fact, span in facts if fact.asked for p in range(*span)]

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
    return [
        place(nth(text.task, text.seed, index), encode, hay, tokens, prefix) for index in range(documents)
    ]


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
    gap = list(encode(GAP))
    facts = [list(encode(fact.text)) for fact in instance.facts]
    end, golds = _ending(instance, encode)
    fixed = len(prefix) + sum(len(fact) + len(gap) for fact in facts) + len(gap)
    taken = fixed + sum(map(len, end))
    room = tokens - taken
    if room * LEAST_HAY < tokens:
        least = -(-taken * LEAST_HAY // (LEAST_HAY - 1))
        raise InputError(
            f"tokens: {tokens} are too few for task {instance.task}, whose facts, question and answer take "
            f"{taken} of this model; give at least {least}"
        )
    straw, ends = _take(hay, room, instance.task)
    document, at = list(prefix), 0
    spans = []
    for fact, ids in zip(instance.facts, facts, strict=True):
        aim = fact.depth * room
        stop = min(ends, key=lambda end: abs(end - aim)) if ends else round(aim)
        document += straw[at:stop]
        spans.append((len(document), len(document) + len(ids)))
        document += ids + gap
        at = stop
    document += straw[at:] + gap
    starts = list(accumulate(map(len, end), initial=len(document)))
    return Placed(
        instance,
        np.array(document + list(chain.from_iterable(end)), dtype=np.int64),
        context=len(document),
        question=starts[golds[0]],
        facts=tuple(spans),
        golds=tuple((starts[k], starts[k + 1]) for k in golds),
    )


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
