"""What is scored of every row of a dump: rules in their readings, budgets, allocations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ceiling.dump import Dump
from ceiling.objective import EXTRA_CAP, default_extra
from ceiling.problem import InputError, check_budgets
from ceiling.search import DEGENERATE
from ceiling.search import ENGINE as SEARCH_ENGINE
from ceiling.selectors import READINGS, SELECTORS, Reading, Selector, resolve
from ceiling.stages.scoring import BALANCING, TOP_MASS, UNIFORM, Entry, has_queries
from ceiling.stages.spread import ALLOCATIONS
from ceiling.stages.units import check_visible, visible_keys
from ceiling.store import SCHEMA_VERSION

BUDGETS = (4, 8, 16, 32)
"""Keys kept: the budgets of the paper's comparison."""

NATIVE = (64, 128, 256)
"""Keys kept: budgets that caches use, at which top-mass and balancing alone are measured."""

NATIVE_EXTRA = EXTRA_CAP
"""Candidates of balancing beside the top-mass set there, where nothing is enumerated."""

SPECIAL = (TOP_MASS, BALANCING)
"""Scored at the native budgets too."""

ENGINE = "score/1"
"""Raised when a built-in rule, an allocation or the arithmetic of scores changes."""


@dataclass(frozen=True)
class Choice:
    """A selector as plain data: what a configuration records of it, and what a worker finds it by.

    Attributes
    ----------
    name : str
        As `ceiling.selectors.resolve` takes it; or ``balancing``.
    readings : tuple of Reading
        Those it is scored in.
    parameters : tuple of (str, int or str)
    digest : str
        SHA-256 of the module of a user's rule; empty for a built-in.
    """

    name: str
    readings: tuple[Reading, ...]
    parameters: tuple[tuple[str, int | str], ...] = ()
    digest: str = ""

    def selector(self) -> Selector:
        """What it stands for; InputError where that has another source or other parameters by now."""
        found = resolve(self.name)
        if (found.digest, tuple(found.parameters.items())) != (self.digest, self.parameters):
            raise InputError(f"selector: {self.name} has changed since the run was planned; start it again")
        return found


@dataclass(frozen=True)
class Panel:
    """What is scored of every row.

    Attributes
    ----------
    choices : tuple of Choice
    budgets : tuple of int
        Of all selectors and the allocations.
    native : tuple of int
        Further budgets of top-mass and balancing alone.
    allocations : tuple of str
        How the keys of top-mass sets are spread over heads, besides uniformly.
    layers : tuple of int
        Those that allocations spread over, where they are not all of the model's: a dump's id is the same
        whichever were captured.
    """

    choices: tuple[Choice, ...]
    budgets: tuple[int, ...]
    native: tuple[int, ...]
    allocations: tuple[str, ...]
    layers: tuple[int, ...] = ()

    @property
    def extras(self) -> dict[int, int]:
        """Candidates of balancing beside the top-mass set, by budget."""
        return {s: default_extra(s) for s in self.budgets} | dict.fromkeys(self.native, NATIVE_EXTRA)

    @property
    def configuration(self) -> dict[str, Any]:
        """All that determines the content of a shard beside the dump."""
        some = {"layers": list(self.layers)} if self.layers else {}
        return some | {
            "schema": SCHEMA_VERSION,
            "engine": ENGINE,
            "search": SEARCH_ENGINE,
            "degenerate": DEGENERATE,
            "budgets": list(self.budgets),
            "native": list(self.native),
            "candidates": {str(s): extra for s, extra in self.extras.items()},
            "allocations": list(self.allocations),
            "selectors": [
                {
                    "name": each.name,
                    "readings": list(each.readings),
                    "parameters": dict(each.parameters),
                    "digest": each.digest,
                }
                for each in self.choices
            ],
        }

    def entries(self) -> list[Entry]:
        """The sets of a row, in order; InputError where a user's rule is not what it was any more."""
        found = []
        for choice in self.choices:
            special = choice.name in SPECIAL
            selector = None if special else choice.selector()
            for reading in choice.readings:
                for s in self.budgets + (self.native if special else ()):
                    if selector is None or s >= selector.least:
                        found.append(Entry(choice.name, reading, s, selector=selector))
        for allocation in self.allocations:
            found += [Entry(TOP_MASS, "per-query", s, allocation) for s in self.budgets]
        return found


def choose(
    dump: Dump,
    selectors: Sequence[str] | None,
    reading: str | None,
    budgets: Sequence[int],
    native: Sequence[int] | None,
    allocations: Sequence[str] | None,
) -> tuple[Panel, tuple[str, ...]]:
    """A panel that a dump allows, and what of the default one it does not; arguments as of `score.plan`.

    Raises
    ------
    InputError
        Naming what cannot be scored.
    """
    checked = check_budgets(budgets)
    check_visible(dump, "budgets", checked)
    if reading not in (None, *READINGS):
        raise InputError(f"reading: {reading!r} is none of {', '.join(READINGS)}")
    choices, left_out = _choices(dump, selectors, reading, max(checked))
    special = any(choice.name in SPECIAL for choice in choices)
    if allocations is None:
        allocations = ALLOCATIONS if selectors is None and reading != "cache" else ()
    spread = _allocations(allocations)
    layers = dump.layers if spread and len(dump.layers) < dump.n_layers else ()
    return Panel(choices, checked, _native(dump, checked, native, special), spread, layers), left_out


def _choices(
    dump: Dump, named: Sequence[str] | None, reading: str | None, most: int
) -> tuple[tuple[Choice, ...], tuple[str, ...]]:
    """What is scored, and what the dump does not allow; `InputError` where that was asked for by name."""
    choices: list[Choice] = []
    left_out: list[str] = []
    if named is not None and not named:
        raise InputError("selector: none given; leave the option out for all built-in ones")
    built_in = (*SELECTORS, BALANCING)
    for text in built_in if named is None else named:
        choice, needy, least = _choice(text)
        asked = tuple(each for each in choice.readings if reading in (None, each))
        able = tuple(each for each in asked if each not in needy or has_queries(dump))
        if named is not None:
            _check_named(dump, choice, asked, able, reading, least, most)
            if any(each.name == choice.name for each in choices):
                raise InputError(f"selector: {choice.name} is repeated; name each once")
        if not able and asked:
            left_out.append(choice.name)
        left_out += [f"{choice.name} in reading {each}" for each in asked if able and each not in able]
        if able and least <= most:
            choices.append(replace(choice, readings=able))
    # Listed in another order, or one by one, they are the same rules: built-in ones first, as listed here.
    ranks = {name: rank for rank, name in enumerate(built_in)}
    choices.sort(key=lambda choice: (ranks.get(choice.name, len(ranks)), choice.name))
    return tuple(choices), tuple(left_out)


def _choice(text: str) -> tuple[Choice, frozenset[Reading], int]:
    """What a name stands for: all its readings, those that need queries, and the least budget."""
    if text == BALANCING:
        return Choice(BALANCING, ("per-query",)), frozenset(), 1
    selector = resolve(text)
    parameters = tuple(selector.parameters.items())
    choice = Choice(selector.name, tuple(selector.rules), parameters, selector.digest)
    return choice, selector.needs_queries, selector.least


def _check_named(
    dump: Dump,
    choice: Choice,
    asked: tuple[Reading, ...],
    able: tuple[Reading, ...],
    reading: str | None,
    least: int,
    most: int,
) -> None:
    """`InputError` where what was asked for by name cannot be scored."""
    if not asked:
        has = ", ".join(choice.readings)
        function = choice.name.partition(":")[2]
        own = f'; set {function}.reading = "both" in its module' if choice.digest else ""
        raise InputError(f"reading: {choice.name} has no reading {reading}, only {has}{own}")
    if not able or (reading is not None and able != asked):
        raise InputError(
            f"selector: {choice.name} needs query vectors, and dump {dump.path} has none; "
            "`ceiling capture --queries` keeps them"
        )
    if least > most:
        raise InputError(f"budgets: {choice.name} takes budgets from {least} on; the largest is {most}")


def _native(
    dump: Dump, budgets: Sequence[int], native: Sequence[int] | None, special: bool
) -> tuple[int, ...]:
    """Budgets of top-mass and balancing alone; by default those that rows are long enough for."""
    if native is None:
        return tuple(s for s in NATIVE if s not in budgets and s < visible_keys(dump)) if special else ()
    if not native:
        return ()
    if not special:
        raise InputError(f"native: of {' and '.join(SPECIAL)} alone, and neither is asked for")
    checked = check_budgets(native)
    if both := sorted(set(checked) & set(budgets)):
        raise InputError(f"native: {both[0]} is among the budgets too; name it once")
    check_visible(dump, "native", checked)
    return checked


def _allocations(named: Sequence[str]) -> tuple[str, ...]:
    """Known ones, each once, in the order of `ALLOCATIONS`; ``uniform`` is what everything else is."""
    for name in named:
        if name not in (*ALLOCATIONS, UNIFORM):
            raise InputError(f"allocation: {name!r} is none of {', '.join((*ALLOCATIONS, UNIFORM))}")
        if list(named).count(name) > 1:
            raise InputError(f"allocation: {name} is repeated; name each once")
    return tuple(name for name in ALLOCATIONS if name in named)
