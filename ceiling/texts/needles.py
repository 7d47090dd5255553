"""Needles: codes of places, one or many, hidden in noise, in prose or among other needles."""

from collections.abc import Iterator
from itertools import count, islice, product
from random import Random
from uuid import UUID

from ceiling.texts import words
from ceiling.texts.answers import Question, listed
from ceiling.texts.parts import PROSE, AuditInstance, Hay, Item, Parts, Sizes, sentence
from ceiling.texts.tasks import LARGEST, SMALLEST

NOISE, CODES, UUIDS = "noise", "codes", "uuids"
"""Haystacks: a few sentences over and over, needles of places and numbers, needles of UUIDs."""

_NOISE = (
    "The rain falls softly on the roof.",
    "The road goes up the hill and down again.",
    "Birds come in the morning and leave in the evening.",
    "Then the wind turns and the day begins once more.",
)


def single_in_noise(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """One number, in a few sentences that repeat."""
    return _one_each(list(_pairs(_places(rng), _numbers(rng), questions)), questions, NOISE)


def single(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """One number, in prose."""
    return _one_each(list(_pairs(_places(rng), _numbers(rng), questions)), questions)


def single_uuid(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """One UUID, in prose."""
    return _one_each(list(_pairs(_places(rng), _uuids(rng, sizes["groups"]), questions)), questions)


def several_keys(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Several numbers of which one is asked for, in prose."""
    keys = max(sizes["keys"], questions)
    return _one_each(list(_pairs(_places(rng), _numbers(rng), keys)), questions)


def needles_only(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """One number among as many others as fit, or as many as `keys` in prose."""
    return _among_needles(_places(rng), _numbers(rng), sizes["keys"], questions, CODES)


def uuids_only(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """The same of UUIDs, which are the keys as well."""
    groups = sizes["groups"]
    keys = (f"room {uuid}" for uuid in _uuids(rng, groups))
    return _among_needles(keys, _uuids(rng, groups), sizes["keys"], questions, UUIDS)


def several_values(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """Several numbers of one place, in prose."""
    places, numbers = _places(rng), _numbers(rng)
    facts: list[str] = []
    asked: list[Question] = []
    for _ in range(questions):
        place, values = next(places), list(islice(numbers, sizes["values"]))
        start = len(facts)
        facts += [f"One of the access codes of {place} is {value}." for value in values]
        asked.append(
            Question(
                f"Question: What are all the access codes of {place}?\n",
                f"Answer: One of the access codes of {place} is",
                f" {', another is '.join(values)}",
                tuple(values),
                facts=tuple(range(start, len(facts))),
            )
        )
    return Parts(facts, asked)


def several_queries(rng: Random, sizes: Sizes, questions: int) -> Parts:
    """The numbers of several places, in prose."""
    asked_at_once = sizes["queries"]
    pairs = list(_pairs(_places(rng), _numbers(rng), asked_at_once * questions))
    asked = []
    for start in range(0, len(pairs), asked_at_once):
        places, values = zip(*pairs[start : start + asked_at_once], strict=True)
        links = ["", *(f", {_is(place).lower()}" for place in places[1:])]
        asked.append(
            Question(
                f"Question: What are the access codes of {listed(places)}?\n",
                f"Answer: {_is(places[0])}",
                "".join(f"{link} {value}" for link, value in zip(links, values, strict=True)),
                values,
                facts=tuple(range(start, start + asked_at_once)),
            )
        )
    return Parts([_fact(*pair) for pair in pairs], asked)


def _one_each(pairs: list[tuple[str, str]], questions: int, hay: str = PROSE) -> Parts:
    """A question about each of the first pairs; the others distract."""
    asked = [
        Question(
            f"Question: What is the access code of {key}?\n",
            f"Answer: {_is(key)}",
            f" {value}",
            (value,),
            facts=(number,),
        )
        for number, (key, value) in enumerate(pairs[:questions])
    ]
    return Parts([_fact(*pair) for pair in pairs], asked, hay)


def _among_needles(
    keys: Iterator[str], values: Iterator[str], others: int, questions: int, hay: str
) -> Parts:
    needles = list(_pairs(keys, values, max(others, questions)))
    return _one_each(needles, questions, PROSE if others else hay)


def _is(key: str) -> str:
    return f"The access code of {key} is"


def _fact(key: str, value: str) -> str:
    return f"{_is(key)} {value}."


def _pairs(keys: Iterator[str], values: Iterator[str], n: int) -> Iterator[tuple[str, str]]:
    return islice(zip(keys, values, strict=False), n)


def _places(rng: Random) -> Iterator[str]:
    """Places, all distinct, as long as they last."""
    adjectives, places = (
        words.ADJECTIVES + words.MORE_ADJECTIVES,
        words.PLACES + words.MORE_PLACES,
    )
    pairs = [f"the {adjective} {place}" for adjective, place in product(adjectives, places)]
    rng.shuffle(pairs)
    return iter(pairs)


def _numbers(rng: Random) -> Iterator[str]:
    """Seven-digit numbers, all distinct."""
    seen: set[int] = set()
    while True:
        number = rng.randrange(SMALLEST, LARGEST)
        if number not in seen:
            seen.add(number)
            yield str(number)


def _uuids(rng: Random, groups: int) -> Iterator[str]:
    """The first so many groups of UUIDs, all distinct."""
    seen: set[str] = set()
    while True:
        uuid = "-".join(str(UUID(int=rng.getrandbits(128), version=4)).split("-")[:groups])
        if uuid not in seen:
            seen.add(uuid)
            yield uuid


def _noise(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    return (((f"{_NOISE[line % len(_NOISE)]}\n",), False) for line in count())


def _codes(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    return _others(_places(rng), _numbers(rng), instance)


def _uuid_codes(rng: Random, instance: AuditInstance) -> Iterator[Item]:
    groups = instance.size("groups")
    keys = (f"room {uuid}" for uuid in _uuids(rng, groups))
    return _others(keys, _uuids(rng, groups), instance)


def _others(keys: Iterator[str], values: Iterator[str], instance: AuditInstance) -> Iterator[Item]:
    """Needles that share neither key nor value with the instance's own."""
    own = "\n".join(fact.text for fact in instance.facts)
    fresh = (key for key in keys if key not in own), (value for value in values if value not in own)
    return (sentence(_fact(key, value)) for key, value in zip(*fresh, strict=False))


HAYS: dict[str, Hay] = {
    NOISE: _noise,
    CODES: _codes,
    UUIDS: _uuid_codes,
}
"""Haystack -> its parts."""
