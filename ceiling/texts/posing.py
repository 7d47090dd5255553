"""Questions posed about a context, in a model's tokens: room for answers counted, facts' positions exact."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from math import ceil
from random import Random

import numpy as np

from ceiling.problem import InputError
from ceiling.texts.answers import Question
from ceiling.texts.opening import Text
from ceiling.texts.own_hay import OwnHay
from ceiling.texts.parts import PROSE, AuditInstance
from ceiling.texts.placing import Encode, bury, paragraphs

ROOM, SPARE = 1.5, 8
"""An answer may have so many times the right answer's tokens, and so many more: models say more around it."""

GOLDEN = (5**0.5 - 1) / 2
"""Step between the starts of neighbouring instances, in lengths of the haystack: no step keeps any number of
points on a circle further apart."""


@dataclass(frozen=True, eq=False, slots=True)
class PosedQuestion:
    """A question in one model's tokens.

    Attributes
    ----------
    question : Question
    question_ids, prefix_ids, answer_ids : ndarray of int64
        The question; the answer's beginning, which the model is given; the right continuation.
    room : int
        Tokens that an answer may have: `ROOM` times the right one's, rounded up, and `SPARE`.
    fact_positions : tuple of int
        Of what it asks for, in the context, ascending.
    """

    question: Question
    question_ids: np.ndarray
    prefix_ids: np.ndarray
    answer_ids: np.ndarray
    room: int
    fact_positions: tuple[int, ...]

    @property
    def golds(self) -> tuple[str, ...]:
        """What an answer is searched for."""
        return self.question.golds

    @property
    def length(self) -> int:
        """Tokens of question, the answer's beginning and its room."""
        return len(self.question_ids) + len(self.prefix_ids) + self.room


@dataclass(frozen=True, eq=False, slots=True)
class Posed:
    """An instance in one model's tokens.

    Attributes
    ----------
    instance : AuditInstance
    context_ids : ndarray of int64, shape (Lc,)
        Before the questions.
    questions : tuple of PosedQuestion
    facts : tuple of (int, int)
        First position of each fact and the one after its last, in the order of ``instance.facts``.
    items : tuple of (int, int)
        The same of each part of the instance's own haystack that is asked for: of lists, the words.
    """

    instance: AuditInstance
    context_ids: np.ndarray
    questions: tuple[PosedQuestion, ...]
    facts: tuple[tuple[int, int], ...]
    items: tuple[tuple[int, int], ...]

    @property
    def fact_positions(self) -> tuple[int, ...]:
        """Positions of everything that any question asks for, ascending."""
        return tuple(sorted(set(chain.from_iterable(q.fact_positions for q in self.questions))))

    @property
    def tokens(self) -> int:
        """Length that is needed: context, the longest question, and its answer."""
        return len(self.context_ids) + max(question.length for question in self.questions)


def pose(
    instance: AuditInstance, encode: Encode, hay: Text, tokens: int, prefix_ids: Sequence[int] = ()
) -> Posed:
    """Hide an instance's facts in a context of as many tokens as leave room for any of its questions.

    Parameters
    ----------
    instance : AuditInstance
    encode : callable
        Text to token ids, without special tokens.
    hay : Text
        What prose is taken from, from a place that follows from task, seed and index on, its end joined to
        its beginning. Tasks with a haystack of their own do without.
    tokens : int
        Length of the context, the longest question and its answer's room together.
    prefix_ids : sequence of int
        Token ids the context starts with, for models that always see a start token.

    Returns
    -------
    Posed
        A pure function of the arguments: no instance depends on which others are posed.

    Raises
    ------
    InputError
        When `tokens` are too few, the haystack is too short, or it is a task itself.
    """
    if hay.task is not None:
        raise InputError(f"hay: {hay.source} is a task; name a text")
    own = None if instance.hay == PROSE else OwnHay(instance, encode)
    straw = _prose(instance, encode, hay) if own is None else own.parts()
    asked = [_encoded(question, encode) for question in instance.questions]
    after = max(len(question) + len(prefix) + room(answer) for question, prefix, answer in asked)
    start = [*prefix_ids, *encode(instance.opening)] if instance.opening else list(prefix_ids)
    context = bury(instance.task, instance.facts, encode, straw, tokens, after, start)
    items = own.asked(len(start), len(context.ids)) if own is not None else ()
    return Posed(
        instance,
        np.array(context.ids, dtype=np.int64),
        tuple(
            PosedQuestion(
                question,
                *ids,
                room(ids[2]),
                tuple(
                    sorted(
                        p
                        for span in (*(context.facts[k] for k in question.facts), *items)
                        for p in range(*span)
                    )
                ),
            )
            for question, ids in zip(instance.questions, asked, strict=True)
        ),
        context.facts,
        items,
    )


def room(answer: Sequence[int] | np.ndarray) -> int:
    """Tokens that an answer may have where the right one is `answer`."""
    return ceil(ROOM * len(answer)) + SPARE


def _encoded(question: Question, encode: Encode) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Token ids of the question, of the answer's beginning and of the right answer."""
    first, second, third = (
        np.array(encode(text), dtype=np.int64) for text in (question.text, question.prefix, question.answer)
    )
    return first, second, third


def _prose(instance: AuditInstance, encode: Encode, hay: Text) -> Iterator[Sequence[int]]:
    """The text's parts from the instance's own start on, once around."""
    parts, starts = _parts(hay)
    turn = Random(f"hay {instance.task} {instance.seed}").random() + instance.index * GOLDEN
    first = int(np.searchsorted(starts, turn % 1 * starts[-1], side="right")) - 1
    return (encode(part) for part in chain(parts[first:], parts[:first]))


@lru_cache(maxsize=4)
def _parts(text: Text) -> tuple[tuple[str, ...], np.ndarray]:
    """A text's paragraphs, where each starts (characters), and where the last one ends."""
    parts = tuple(part for piece in text.pieces for part in paragraphs(piece))
    return parts, np.array(list(accumulate(map(len, parts), initial=0)))
