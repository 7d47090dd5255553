"""Answers that take several facts: chains of variables, and people, their towns and the towns' rivers."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice, pairwise, product
from random import Random

from ceiling.texts import words
from ceiling.texts.answers import Question, Scorer
from ceiling.texts.needles import NOISE
from ceiling.texts.parts import PROSE, AuditInstance, Hay, Item, Parts, Sizes, sentence
from ceiling.texts.tasks import LARGEST, SMALLEST

BIRTHS, RIVERS = "births", "rivers"
"""Haystacks: where people were born, and also on which rivers their towns lie."""


def variables(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Chains of assignments, in noise; which variables have the value that one of them starts with?"""
    chains, length = max(sizes["chains"], questions), sizes["hops"] + 1
    names = _distinct(_variable(rng) for _ in iter(int, 1))
    numbers = rng.sample(range(SMALLEST, LARGEST), chains)
    steps: list[list[str]] = []
    asked: list[Question] = []
    for number in numbers:
        chain = list(islice(names, length))
        steps.append([f"Variable {chain[0]} is set to {number}."])
        steps[-1] += [f"Variable {new} is set to the value of {old}." for old, new in pairwise(chain)]
        asked.append(
            Question(
                f"Question: Find all variables that are assigned the value {number}.\n",
                f"Answer: The {length} variables that are assigned the value {number} are: Variable",
                f" {', Variable '.join(chain)}",
                tuple(chain),
            )
        )
    # Each chain in its order, the chains interleaved at random.
    turns = [number for number in range(chains) for _ in range(length)]
    rng.shuffle(turns)
    left = [iter(chain) for chain in steps]
    facts = [next(left[turn]) for turn in turns]
    return Parts(
        facts,
        [
            replace(question, facts=tuple(k for k, turn in enumerate(turns) if turn == n))
            for n, question in enumerate(asked[:questions])
        ],
        NOISE,
        ordered=True,
    )


def one_hop(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Where was one of many people born?"""
    people = max(sizes["people"], questions)
    made = list(islice(_people(rng), people))
    asked = [
        Question(
            f"Question: In which town was {person} born?\n",
            f"Answer: {person} was born in the town of",
            f" {town}",
            (town,),
            Scorer.ANY,
            (number,),
        )
        for number, (person, town, _, _) in enumerate(made[:questions])
    ]
    return Parts([_birth(*one) for one in made], asked, PROSE if sizes["people"] else BIRTHS)


def two_hops(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """On which river lies the town where one of many people was born?"""
    people = max(sizes["people"], questions)
    made = list(islice(_people(rng), people))
    facts = [text for one in made for text in (_birth(*one), _river(*one))]
    asked = [
        Question(
            f"Question: On which river lies the town where {person} was born?\n",
            f"Answer: The town where {person} was born lies on the river",
            f" {river}",
            (river,),
            Scorer.ANY,
            (2 * number, 2 * number + 1),
        )
        for number, (person, _, river, _) in enumerate(made[:questions])
    ]
    return Parts(facts, asked, PROSE if sizes["people"] else RIVERS)


_Person = tuple[str, str, str, str]
"""Name, town, river and trade."""


def _birth(person: str, town: str, river: str, trade: str) -> str:
    return f"{person} was born in the town of {town} and worked as a {trade} there for many years."


def _river(person: str, town: str, river: str, trade: str) -> str:
    return f"The town of {town} lies on the river {river}, a day's walk from the sea."


def _people(rng: Random) -> Iterator[_Person]:
    """People with names, towns and rivers of their own, as long as towns last."""
    towns, rivers = list(_TOWNS), list(_RIVERS)
    rng.shuffle(towns)
    rng.shuffle(rivers)
    return (
        (person, town, river, rng.choice(words.TRADES))
        for person, town, river in zip(_names(rng), towns, rivers, strict=False)
    )


def _names(rng: Random) -> Iterator[str]:
    """Names of people, all distinct, as long as they last."""
    names = [f"{given} {family}" for given, family in product(words.GIVEN_NAMES, words.FAMILY_NAMES)]
    rng.shuffle(names)
    return iter(names)


def _variable(rng: Random) -> str:
    return "".join(rng.choice(words.LETTERS) for _ in range(5))


def _distinct(names: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            seen.add(name)
            yield name


def _apart(names: Iterator[str]) -> tuple[str, ...]:
    """Names of which none contains another, so that none is found inside another's."""
    kept: list[str] = []
    for name in sorted(names, key=len):
        if not any(short.lower() in name.lower() for short in kept):
            kept.append(name)
    return tuple(kept)


_TOWNS = _apart(map("".join, product(words.TOWN_STARTS, words.TOWN_ENDS)))
_RIVERS = _apart(map("".join, product(words.RIVER_STARTS, words.RIVER_ENDS)))


def _born(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    return (sentence(_birth(*one)) for one in _strangers(rng, instance))


def _born_by_rivers(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    told: set[str] = set()
    for one in _strangers(rng, instance):
        yield sentence(_birth(*one))
        if one[1] not in told:
            told.add(one[1])
            yield sentence(_river(*one))


def _strangers(rng: Random, instance: AuditInstance) -> Iterator[_Person]:
    """Other people in other towns on other rivers; towns are shared once there are more people."""
    own = "\n".join(fact.text for fact in instance.facts)
    places = [(town, river) for _, town, river, _ in _people(rng) if town not in own and river not in own]
    people = (name for name in _names(rng) if name not in own)
    return (
        (name, town, river, rng.choice(words.TRADES))
        for name, (town, river) in zip(people, cycle(places), strict=False)
    )


HAYS: dict[str, Hay] = {
    BIRTHS: _born,
    RIVERS: _born_by_rivers,
}
"""Haystack -> its parts."""
