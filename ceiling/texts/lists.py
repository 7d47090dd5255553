"""Lists to count in: words of which some come more often, and a coded text whose words follow a zeta law."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from random import Random

from ceiling.problem import InputError
from ceiling.texts import words
from ceiling.texts.answers import Question
from ceiling.texts.parts import AuditInstance, Hay, Item, Parts, Sizes

COMMON, CODED = "common", "coded"
"""Haystacks: a numbered list of words, and a coded text."""

REPEATS = 3
"""How often a rare word is in the list of `cwe` (RULER's), as long as there are fresh ones."""

BLOCK = 40
"""Words of `fwe` drawn at a time: after each block, every word's count is its law's within one."""

LETTERS = 5
"""Of a coded word."""


def common_words(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Which words of a numbered list are the most common?"""
    _once(questions, "cwe")
    top = rng.sample(_WORDS, sizes["top"])
    asked = _most("most common", "list", top)
    opening = "Here is a list of words. Some of them come again and again, the others only a few times.\n\n"
    return Parts([], [asked], COMMON, opening=opening)


def frequent_words(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Which words of a coded text are the most frequent?"""
    _once(questions, "fwe")
    top = list(islice(_coded(rng), sizes["top"]))
    asked = _most("most frequent", "coded text", top)
    opening = "Here is a coded text. Some of its words come again and again.\n\n"
    return Parts([], [asked], CODED, opening=opening)


def _most(most: str, where: str, top: list[str]) -> Question:
    """Which words lead? The answer is a numbered list whose first number is given; of one word, its first."""
    what = f"{len(top)} {most} words" if len(top) > 1 else f"{most} words"
    numbered = " ".join(f"{rank}. {word}" for rank, word in enumerate(top, start=1))
    return Question(
        f"Question: What are the {what} in the {where} above?\n",
        f"Answer: The {what} in the {where} are: 1.",
        numbered.removeprefix("1."),
        tuple(top),
    )


def check_lead(instance: AuditInstance, told: Sequence[str]) -> None:
    """InputError unless every gold of a list is told more often than any other word."""
    golds = instance.questions[0].golds
    counts = Counter(text.strip() for text in told)
    least = min(counts[gold] for gold in golds)
    if least <= max((n for word, n in counts.items() if word not in golds), default=0):
        raise InputError(
            f"tokens: too few for task {instance.task}: in {len(told)} words the ones asked for do not lead; "
            "give more, or ask for fewer of them (top=1)"
        )


def _once(questions: int, task: str) -> None:
    if questions > 1:
        raise InputError(
            f"questions: {questions} about {task}, which is one question about the whole context"
        )


def _word_list(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    """Rounds of every common word and some rare ones, shuffled: common words lead after every round."""
    top = instance.questions[0].golds
    rare = _rare(rng, [word for word in _WORDS if word not in top])
    number = count(1)
    while True:
        turn = [*top, *islice(rare, instance.size("rare"))]
        rng.shuffle(turn)
        for word in turn:
            yield (f" {next(number)}.", f" {word}"), word in top


def _rare(rng: Random, others: list[str]) -> Iterator[str]:
    """Rare words in turn, in sets of which each is told `REPEATS` times."""
    rng.shuffle(others)
    fresh = cycle(others)
    while True:
        told = list(islice(fresh, SET)) * REPEATS
        rng.shuffle(told)
        yield from told


SET = 20
"""Rare words that are told at a time."""


def _coded_text(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    """Words in shares of a zeta law: systematic draws, so that no stretch is far from it."""
    top, alpha = instance.questions[0].golds, instance.size("alpha")
    names = [*top, *islice((name for name in _coded(rng) if name not in top), CODED_WORDS - len(top))]
    weights = [rank**-alpha for rank in range(1, len(names) + 1)]
    shares = [BLOCK * weight / sum(weights) for weight in weights]
    starts = [rng.random() for _ in names]
    for block in count():
        turn: list[str] = []
        for name, share, start in zip(names, shares, starts, strict=True):
            turn += [name] * (int(share * (block + 1) + start) - int(share * block + start))
        rng.shuffle(turn)
        yield from (((f" {name}",), name in top) for name in turn)


CODED_WORDS = 200
"""Different words of a coded text; the last ones come about once in ten thousand words."""


def _coded(rng: Random) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        name = "".join(rng.choice(words.LETTERS.lower()) for _ in range(LETTERS))
        if name not in seen:
            seen.add(name)
            yield name


def _plain_words() -> tuple[str, ...]:
    """Words for lists, none inside another."""
    every = {
        *words.ADJECTIVES, *words.MORE_ADJECTIVES, *words.PLACES, *words.MORE_PLACES, *words.TRADES,
    }  # fmt: skip
    return tuple(
        sorted(word for word in every if not any(word != other and word in other for other in every))
    )


_WORDS = _plain_words()

HAYS: dict[str, Hay] = {
    COMMON: _word_list,
    CODED: _coded_text,
}
"""Haystack -> its parts."""
