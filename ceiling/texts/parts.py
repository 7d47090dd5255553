"""What generators make: facts, questions, haystacks, and the instances they are put into."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from ceiling.texts.answers import Question
from ceiling.texts.tasks import Fact

Sizes = dict[str, int]
"""Size -> value."""

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, without special tokens."""

Item = tuple[tuple[str, ...], bool]
"""Part of a haystack: its texts, each tokenised on its own, and whether a question asks for the last."""

PROSE = "prose"
"""The haystack that is any text."""

GAP = "\n\n"
"""Stands after each fact and before the question."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Facts and questions; these name facts by their index here."""

    facts: Sequence[str]
    questions: Sequence[Question]
    hay: str = PROSE
    ordered: bool = False
    opening: str = ""


@dataclass(frozen=True, slots=True)
class AuditInstance:
    """One generated task with its questions.

    Attributes
    ----------
    task : str
        With its sizes, canonical.
    axis : str
        retrieval, aggregation or multihop.
    sizes : tuple of (str, int)
        Of the task, defaults included.
    seed, index : int
    opening : str
        Stands at the context's beginning; often empty.
    facts : tuple of Fact
        In the order of their depths; asked where any question needs them.
    questions : tuple of Question
    hay : str
        What the facts are hidden in: ``prose`` is any text; anything else is made, see `own_hay`.
    """

    task: str
    axis: str
    sizes: tuple[tuple[str, int], ...]
    seed: int
    index: int
    opening: str
    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]
    hay: str

    def size(self, name: str) -> int:
        """One of the task's sizes."""
        return dict(self.sizes)[name]


Hay = Callable[[Random, AuditInstance], Iterator[Item]]
"""Makes the haystack of an instance."""


def sentence(text: str) -> Item:
    """A fact of the haystack's own, tokenised just as those are that a question asks for."""
    return (text, GAP), False
