"""Questions about a context, their right answers, and the score of a given one."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Scorer(StrEnum):
    """How golds are counted (RULER, arXiv 2404.06654)."""

    RECALL = "recall"  # the share of golds that the answer contains
    ANY = "any"  # 1 where it contains any gold, else 0


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a context.

    Attributes
    ----------
    text : str
        Ends with a newline; what a question-aware press sees.
    prefix : str
        The answer's beginning, which a model continues.
    answer : str
        The right continuation; begins with a space.
    golds : tuple of str
        What an answer is searched for.
    scorer : Scorer
    facts : tuple of int
        Which of the instance's facts it asks for.
    """

    text: str
    prefix: str
    answer: str
    golds: tuple[str, ...]
    scorer: Scorer = Scorer.RECALL
    facts: tuple[int, ...] = ()

    @property
    def reading(self) -> tuple[list[str], list[str]]:
        """The golds as the right answer says them, a space before each, and what it says in between."""
        read = [f" {gold}" for gold in self.golds]
        links, rest = [], self.answer
        for word in read:
            link, _, rest = rest.partition(word)
            links.append(link)
        return read, links[1:]


def score(answer: str, question: Question) -> float:
    """Score an answer from 0 to 1: golds found in it as they are, in any case of letters.

    Examples
    --------
    >>> score(" 17 and 4", Question("", "", "", ("17", "23")))
    0.5
    >>> score(" on the ALKA", Question("", "", "", ("Alka", "Elba"), Scorer.ANY))
    1.0
    """
    told = answer.lower()
    found = [gold.lower() in told for gold in question.golds]
    return float(any(found)) if question.scorer is Scorer.ANY else sum(found) / len(found)


def listed(words: Sequence[str]) -> str:
    """Words with commas and an ``and`` between them.

    Examples
    --------
    >>> listed(["17", "4", "23"]), listed(["17"])
    ('17, 4 and 23', '17')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
