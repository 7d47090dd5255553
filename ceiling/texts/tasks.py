"""Generated tasks: facts to hide in a text, a question about them and its answer, from (task, seed, index).

Nothing here knows a tokenizer, so that models can be compared instance by instance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random

from ceiling.problem import InputError
from ceiling.texts import words

GENERATOR = 1
"""Raised when an instance changes: texts of another generator are other texts."""

NEEDLES, ASKED = 4, 2
"""Facts of ``multi-needle``, and how many of them are asked for; the others distract."""

HOPS = 4
"""Assignments of ``variable-chain`` after the first (RULER's)."""

PEOPLE = 3
"""People of ``qa``, one of whom is asked for."""

SMALLEST, LARGEST = 10**6, 10**7
"""Range of the numbers: seven digits do not occur by chance."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence to hide.

    Attributes
    ----------
    text : str
    depth : float
        Where in the haystack, from 0 (start) to 1 (end).
    asked : bool
        Whether the answer needs it.
    """

    text: str
    depth: float
    asked: bool


@dataclass(frozen=True, slots=True)
class Instance:
    """One generated task.

    Attributes
    ----------
    task : str
    seed, index : int
    facts : tuple of Fact
        In the order of their depths.
    question : str
        To stand after the haystack; ends with the beginning of the answer.
    golds : tuple of str
        What a right answer contains, in order; each begins with a space.
    links : tuple of str
        What stands between two golds; one fewer.
    """

    task: str
    seed: int
    index: int
    facts: tuple[Fact, ...]
    question: str
    golds: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The right continuation of the question."""
        return self.golds[0] + "".join(a + b for a, b in zip(self.links, self.golds[1:], strict=True))


_Parts = tuple[list[tuple[str, bool]], str, list[str], list[str]]
"""Facts in order of depth, each with whether it is asked for; question, golds and links."""


def instance(task: str, seed: int, index: int) -> Instance:
    """Generate one instance of a task.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    seed, index : int
        Any; the same give the same instance, whatever model it is for.

    Raises
    ------
    InputError
        When there is no such task.

    Notes
    -----
    After RULER (arXiv 2404.06654): single needle; multi-key and multi-query needles; variable tracking, one
    chain; and a question of two hops over invented people.
    """
    check_task(task, mixed=False)
    rng = Random(f"{task} {seed} {index}")
    facts, question, golds, links = TASKS[task](rng)
    depths = sorted(rng.random() for _ in facts)
    return Instance(
        task,
        seed,
        index,
        tuple(Fact(text, depth, asked) for (text, asked), depth in zip(facts, depths, strict=True)),
        question,
        tuple(golds),
        tuple(links),
    )


def check_task(task: str, mixed: bool = True) -> str:
    """Return the task, or raise InputError where there is no such one; all are listed."""
    known = [*TASKS, MIXED] if mixed else list(TASKS)
    if task not in known:
        raise InputError(f"text: task {task!r} is unknown; there are {', '.join(known)}")
    return task


def nth(task: str, seed: int, document: int) -> Instance:
    """The instance of a text's document: of a task its index; ``mixed`` takes each task in turn."""
    if task != MIXED:
        return instance(task, seed, document)
    return instance(list(TASKS)[document % len(TASKS)], seed, document // len(TASKS))


def _needle(rng: Random) -> _Parts:
    ((place, code),) = _codes(rng, 1)
    question = f"Question: What is the access code of the {place}?\nAnswer: The access code of the {place} is"
    return [(_code_fact(place, code), True)], question, [f" {code}"], []


def _multi_needle(rng: Random) -> _Parts:
    codes = _codes(rng, NEEDLES)
    facts = [(_code_fact(place, code), k < ASKED) for k, (place, code) in enumerate(codes)]
    places, asked = [place for place, _ in codes[:ASKED]], [f" {code}" for _, code in codes[:ASKED]]
    rng.shuffle(facts)
    question = (
        f"Question: What are the access codes of the {' and of the '.join(places)}?\n"
        f"Answer: The access code of the {places[0]} is"
    )
    return facts, question, asked, [f", and the access code of the {place} is" for place in places[1:]]


def _variable_chain(rng: Random) -> _Parts:
    names: list[str] = []
    while len(names) <= HOPS:
        name = "".join(rng.choice(words.LETTERS) for _ in range(5))
        if name not in names:
            names.append(name)
    number = rng.randrange(SMALLEST, LARGEST)
    facts = [(f"Variable {names[0]} is set to {number}.", True)]
    facts += [(f"Variable {new} is set to the value of {old}.", True) for old, new in pairwise(names)]
    question = (
        f"Question: Which variables have the value {number}?\n"
        f"Answer: The {len(names)} variables with the value {number} are"
    )
    return facts, question, [f" {name}" for name in names], [","] * HOPS


def _qa(rng: Random) -> _Parts:
    given, family = rng.sample(words.GIVEN_NAMES, PEOPLE), rng.sample(words.FAMILY_NAMES, PEOPLE)
    trades = rng.sample(words.TRADES, PEOPLE)
    towns = _invent(rng, words.TOWN_STARTS, words.TOWN_ENDS)
    rivers = _invent(rng, words.RIVER_STARTS, words.RIVER_ENDS)
    people = [f"{first} {last}" for first, last in zip(given, family, strict=True)]
    facts = []
    for k, (person, trade, town, river) in enumerate(zip(people, trades, towns, rivers, strict=True)):
        facts.append((f"{person} was born in {town} and worked as a {trade} there for many years.", k == 0))
        facts.append((f"The town of {town} lies on the river {river}, a day's walk from the sea.", k == 0))
    rng.shuffle(facts)
    question = (
        f"Question: On which river lies the town where {people[0]} was born?\nAnswer: {people[0]} was born in"
    )
    return facts, question, [f" {towns[0]}", f" {rivers[0]}"], [", which lies on the river"]


def _codes(rng: Random, count: int) -> list[tuple[str, int]]:
    """Places with a number each, all distinct."""
    adjectives, places = rng.sample(words.ADJECTIVES, count), rng.sample(words.PLACES, count)
    numbers = rng.sample(range(SMALLEST, LARGEST), count)
    return [(f"{a} {p}", n) for a, p, n in zip(adjectives, places, numbers, strict=True)]


def _code_fact(place: str, code: int) -> str:
    return f"The access code of the {place} is {code}."


def _invent(rng: Random, starts: tuple[str, ...], ends: tuple[str, ...]) -> list[str]:
    return rng.sample(["".join(pair) for pair in product(starts, ends)], PEOPLE)


TASKS: dict[str, Callable[[Random], _Parts]] = {
    "needle": _needle,
    "multi-needle": _multi_needle,
    "variable-chain": _variable_chain,
    "qa": _qa,
}
"""Name -> its generator."""

MIXED = "mixed"
"""Each of the tasks in turn."""
