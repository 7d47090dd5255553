"""The thirteen tasks of RULER (arXiv 2404.06654), generated anew: axes, sizes, and instances.

What an instance says follows from (task, seed, index) and the number of questions.
Nothing here knows a tokenizer, so that models can be compared instance by instance.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from ceiling.problem import InputError
from ceiling.texts import lists, multihop, needles
from ceiling.texts.parts import AuditInstance, Parts, Sizes
from ceiling.texts.tasks import Fact

RULER_GENERATOR = 1
"""Raised when an instance changes: records of another generator are of other texts."""

RETRIEVAL, AGGREGATION, MULTIHOP = "retrieval", "aggregation", "multihop"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A task: its axis, its generator, its sizes as RULER has them, and easier ones, hardest first."""

    axis: str
    make: Callable[[Random, Sizes, int], Parts]
    sizes: Sizes
    easier: tuple[str, ...] = ()


_KINDS: dict[str, _Kind] = {
    "niah_single_1": _Kind(RETRIEVAL, needles.single_in_noise, {}),
    "niah_single_2": _Kind(RETRIEVAL, needles.single, {}),
    "niah_single_3": _Kind(RETRIEVAL, needles.single_uuid, {"groups": 5}, ("groups=2",)),
    "niah_multikey_1": _Kind(RETRIEVAL, needles.several_keys, {"keys": 4}, ("keys=3", "keys=2")),
    "niah_multikey_2": _Kind(RETRIEVAL, needles.needles_only, {"keys": 0}, ("keys=12", "keys=8", "keys=5")),
    "niah_multikey_3": _Kind(
        RETRIEVAL,
        needles.uuids_only,
        {"keys": 0, "groups": 5},
        ("keys=8,groups=1", "keys=4,groups=1"),
    ),
    "niah_multivalue": _Kind(RETRIEVAL, needles.several_values, {"values": 4}, ("values=3", "values=2")),
    "niah_multiquery": _Kind(RETRIEVAL, needles.several_queries, {"queries": 4}, ("queries=3", "queries=2")),
    "cwe": _Kind(
        AGGREGATION,
        lists.common_words,
        {"top": 10, "rare": 10},
        ("top=5,rare=5", "top=3,rare=3", "top=1,rare=3"),
    ),
    "fwe": _Kind(AGGREGATION, lists.frequent_words, {"top": 3, "alpha": 2}, ("top=2", "top=1")),
    "vt": _Kind(MULTIHOP, multihop.variables, {"chains": 1, "hops": 4}, ("hops=3", "hops=2", "hops=1")),
    "qa_1": _Kind(MULTIHOP, multihop.one_hop, {"people": 0}, ("people=6", "people=2")),
    "qa_2": _Kind(MULTIHOP, multihop.two_hops, {"people": 0}, ("people=4", "people=2")),
}

RULER_TASKS = tuple(_KINDS)
"""The thirteen, by RULER's names."""

AXES: dict[str, str] = {name: kind.axis for name, kind in _KINDS.items()}
"""Task name, without sizes -> its axis."""


def audit_instance(task: str, seed: int, index: int, questions: int = 1) -> AuditInstance:
    """Generate one instance of a RULER task.

    Parameters
    ----------
    task : str
        One of `RULER_TASKS`, perhaps with sizes: ``niah_multikey_1:keys=2``.
    seed, index : int
        Any; the same give the same instance, whatever model it is for.
    questions : int
        About the same context, each about facts of its own; where the task has too few, there are more.

    Returns
    -------
    AuditInstance

    Raises
    ------
    InputError
        When there is no such task or size, or the task cannot be asked so often.
    """
    name, sizes = parse_task(task)
    if questions < 1:
        raise InputError(f"questions: {questions} is not positive")
    task = task_name(name, sizes)
    rng = _rng("facts", task, seed, index)
    parts = _KINDS[name].make(rng, sizes, questions)
    depths = sorted(rng.random() for _ in parts.facts)
    order = list(range(len(parts.facts)))
    if not parts.ordered:
        rng.shuffle(order)
    place = {fact: at for at, fact in enumerate(order)}
    asked = {fact for question in parts.questions for fact in question.facts}
    return AuditInstance(
        task,
        AXES[name],
        tuple(sizes.items()),
        seed,
        index,
        parts.opening,
        tuple(
            Fact(parts.facts[fact], depth, fact in asked) for fact, depth in zip(order, depths, strict=True)
        ),
        tuple(
            replace(question, facts=tuple(sorted(place[fact] for fact in question.facts)))
            for question in parts.questions
        ),
        parts.hay,
    )


def is_ruler(task: str) -> bool:
    """Whether a task's name, sizes or not, is one of the thirteen."""
    return task.partition(":")[0] in _KINDS


def task_name(name: str, sizes: Sizes) -> str:
    """A task's canonical name: only sizes that are not RULER's, in the order of their names.

    Examples
    --------
    >>> task_name("vt", {"hops": 2, "chains": 1})
    'vt:hops=2'
    """
    other = [f"{size}={value}" for size, value in sorted(sizes.items()) if value != _KINDS[name].sizes[size]]
    return f"{name}:{','.join(other)}" if other else name


def parse_task(task: str) -> tuple[str, dict[str, int]]:
    """A task's name without sizes, and all its sizes.

    Raises
    ------
    InputError
        Naming the tasks, the sizes of this one, or what its sizes may be.
    """
    name, colon, given = task.partition(":")
    if name not in _KINDS:
        raise InputError(f"task: {name!r} is unknown; there are {', '.join(_KINDS)}")
    sizes = dict(_KINDS[name].sizes)
    takes = ", ".join(f"{size}={value}" for size, value in sizes.items()) or "no sizes"
    for part in given.split(",") if colon else ():
        size, _, value = part.partition("=")
        if size not in sizes:
            raise InputError(f"task: {task!r} sets {size!r}; {name} takes {takes}")
        if not re.fullmatch(r"\d{1,4}", value) or not _allowed(name, size, int(value)):
            least, most = LIMITS[size]
            raise InputError(f"task: {task!r} sets {size} to {value!r}; it is from {least} to {most}")
        sizes[size] = int(value)
    return name, sizes


LIMITS: dict[str, tuple[int, int]] = {
    "groups": (1, 5),
    "keys": (1, 200),
    "values": (1, 32),
    "queries": (1, 32),
    "top": (1, 20),
    "rare": (1, 60),
    "alpha": (1, 4),
    "chains": (1, 32),
    "hops": (1, 16),
    "people": (1, 100),
}
"""Least and most of each size; 0 beside them where it is the default: as many as fit."""


def _allowed(name: str, size: str, value: int) -> bool:
    least, most = LIMITS[size]
    return least <= value <= most or value == _KINDS[name].sizes[size]


def _rng(*of: object) -> Random:
    return Random(f"ruler {'/'.join(map(str, of))}")


SIZES: dict[str, tuple[str, ...]] = {
    name: (name, *(task_name(*parse_task(f"{name}:{easier}")) for easier in kind.easier))
    for name, kind in _KINDS.items()
}
"""Task name -> the task in canonical names, from RULER's sizes to easier ones."""
