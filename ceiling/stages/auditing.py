"""What an audit checks before it starts: the words, the presses in every cell, that every instance fits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from ceiling import models, texts
from ceiling.audit.budget import Arm, Budget
from ceiling.audit.ceilings import BALANCE, CERTIFY
from ceiling.audit.ceilings import ENGINES as JUDGES
from ceiling.audit.ladder import PILOT_SEED
from ceiling.audit.press import Press
from ceiling.audit.refusals import ModelFacts, note, refusal
from ceiling.objective import MAX_POOL
from ceiling.problem import InputError
from ceiling.texts.posing import Posed, pose
from ceiling.texts.ruler import audit_instance

BACKENDS, ENGINES, MODES = ("eager", "sdpa"), ("shared", "native"), ("none", *JUDGES)

SWAPPING = (BALANCE, CERTIFY)
"""Modes that balance rows: all inner products of the keys of each."""

T = TypeVar("T")


class Posing:
    """Instances in the model's tokens.

    Parameters
    ----------
    folder : ModelFolder
        Of its tokenizer.
    text : str
        The haystack.
    seed, questions, tokens : int
        See `ceiling.texts.audit_instance` and `ceiling.texts.pose`.
    """

    def __init__(self, folder: models.ModelFolder, text: str, seed: int, questions: int, tokens: int) -> None:
        coder = models.tokenizer(folder)
        self.seed, self.questions, self.tokens = seed, questions, tokens
        self.hay = texts.open_text(text)
        self.encode, self.start = models.encoder(coder), models.start_tokens(coder)

    def __call__(self, task: str, number: int) -> Posed:
        instance = audit_instance(task, self.seed, number, self.questions)
        return pose(instance, self.encode, self.hay, self.tokens, self.start)

    def lengths(self, task: str, number: int) -> set[tuple[int, int]]:
        """Context and question length of each question of an instance."""
        posed = self(task, number)
        return {(len(posed.context_ids), len(question.question_ids)) for question in posed.questions}


@dataclass(frozen=True)
class Cells:
    """Where presses are to run.

    Attributes
    ----------
    about : ModelFacts
    backend, dtype : str
    arms : tuple of Arm
    budgets : tuple of Budget
    alone : bool
        kvpress itself runs them.
    """

    about: ModelFacts
    backend: str
    dtype: str
    arms: tuple[Arm, ...]
    budgets: tuple[Budget, ...]
    alone: bool

    def reason(self, press: Press, lengths: Iterable[tuple[int, int]]) -> str | None:
        """The first reason not to run a press in any of them; None where it can."""
        where = (self.about, self.backend, self.dtype)
        for (context, question), arm, budget in product(lengths, self.arms, self.budgets):
            if reason := refusal(press, *where, arm, budget, context, question, native=self.alone):
                return f"{reason} (arm {arm})"
        return None

    def notes(self, presses: Iterable[Press], lengths: Iterable[tuple[int, int]]) -> tuple[str, ...]:
        """What to know about presses that run, one line a press and budget."""
        found: dict[tuple[str, str], str] = {}
        for press, (context, question), arm, budget in product(presses, lengths, self.arms, self.budgets):
            if said := note(press, arm, budget, context, question):
                found.setdefault((press.label, str(budget)), f"{press.label} at {budget} {said} (arm {arm})")
        return tuple(found.values())

    def check(self, units: Iterable[tuple[str, int]], posing: Posing, presses: Sequence[Press]) -> None:
        """Pose every unit, a task and an instance.

        Raises
        ------
        InputError
            Where one does not fit into its tokens, or is too short for a press or a budget.
        """
        seen: set[tuple[int, int]] = set()
        for task, number in units:
            new = posing.lengths(task, number) - seen
            for press in presses if new else ():
                if reason := self.reason(press, new):
                    of = f"task {task}, instance {number}"
                    raise InputError(f"presses: {press.label} is refused at {of}: {reason}")
            seen |= new


def able(cells: Cells, roster: Iterable[Press], lengths: Iterable[tuple[int, int]]) -> Iterator[Press | str]:
    """Of a roster, the presses that can run; in place of the others the reason, by name."""
    lengths = sorted(lengths)
    for press in roster:
        reason = cells.reason(press, lengths)
        yield press if reason is None else f"{press.label}: {reason}"


def distinct(field: str, given: Iterable[T]) -> tuple[T, ...]:
    """What is given, each once; InputError where it is nothing or repeats itself in other words."""
    found = tuple(given)
    if not found:
        raise InputError(f"{field}: none; name one at least")
    for each in found:
        if found.count(each) > 1:
            raise InputError(f"{field}: {getattr(each, 'label', each)} is repeated; name each once")
    return found


def named_arm(name: str) -> Arm:
    """The arm of that name."""
    try:
        return Arm(name)
    except ValueError:
        raise InputError(f"arms: {name!r} is unknown; there are {', '.join(Arm)}") from None


def check_words(
    backend: str,
    engine: str,
    ceilings: str | None,
    instances: int,
    questions: int,
    tokens: int,
    seed: int,
) -> None:
    """`InputError` where one is none of its kind, or cannot be had beside the others."""
    words = (("backend", backend, BACKENDS), ("engine", engine, ENGINES), ("ceilings", ceilings, MODES))
    for field, value, known in words:
        if value is not None and value not in known:
            raise InputError(f"{field}: {value!r} is unknown; there are {', '.join(known)}")
    if ceilings in JUDGES and (backend, engine) != ("eager", "shared"):
        raise InputError(
            f"ceilings: {ceilings} needs attention rows; backend {backend} with engine {engine} gives none"
        )
    if ceilings in SWAPPING and tokens > MAX_POOL:
        raise InputError(f"ceilings: {ceilings} takes {MAX_POOL} tokens at most, not {tokens}; use top")
    for name, number in (("instances", instances), ("questions", questions)):
        if number < 1:
            raise InputError(f"{name}: {number} is not positive")
    if seed == PILOT_SEED:
        raise InputError(f"seed: {seed} is that of the instances by which default tasks were chosen")
