"""A selector: a rule under a name, with where it comes from and what it needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ceiling.problem import InputError, check_budget
from ceiling.selectors.sight import Reading, Sight

Rule = Callable[..., np.ndarray]
"""``rule(sight, count, **parameters)``: `count` positions, fewer than ``sight.candidates``, out of them."""

MOST_DIGITS = 9
"""Of a parameter: more keys than any cache has."""


class Parameter(NamedTuple):
    """What a parameter of a rule is where nothing is said, and what it may be."""

    default: int | str
    least: int = 0
    odd: bool = False
    choices: tuple[str, ...] = ()

    def read(self, name: str, text: str) -> int | str:
        """The value that `text` means, or `InputError`."""
        if self.choices:
            if text not in self.choices:
                raise InputError(f"selector: {name}={text}; {name} is {' or '.join(self.choices)}")
            return text
        kind = "an odd number" if self.odd else "a whole number"
        if (
            not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS)
            or int(text) < self.least
            or (self.odd and int(text) % 2 == 0)
        ):
            raise InputError(
                f"selector: {name}={text:.40}; "
                f"{name} is {kind} >= {self.least}, of {MOST_DIGITS} digits at most"
            )
        return int(text)


@dataclass(frozen=True)
class Selector:
    """A rule under a name.

    Attributes
    ----------
    name : str
        With the parameters that are not the defaults: ``snapkv:kernel=5,pooling=avg``.
    rules : mapping of reading to Rule
        Only the readings that make sense for it.
    needs_queries : frozenset of reading
        Readings that recompute attention, so that the dump must hold query vectors.
    source : str
        Where the rule is defined.
    allowed : mapping of str to Parameter
        Parameters of the rule.
    given : mapping of str to int or str
        Those that are not at their defaults.
    least : int
        Smallest budget the rule is meant for.
    digest : str
        SHA-256 of the module of a user's rule; empty for a built-in.
    """

    name: str
    rules: Mapping[Reading, Rule]
    needs_queries: frozenset[Reading]
    source: str
    allowed: Mapping[str, Parameter] = field(default_factory=dict)
    given: Mapping[str, int | str] = field(default_factory=dict)
    least: int = 1
    digest: str = ""

    @property
    def parameters(self) -> dict[str, int | str]:
        """All parameters of the rule, those at their defaults included."""
        return {name: self.given.get(name, parameter.default) for name, parameter in self.allowed.items()}

    def keep(self, sight: Sight, s: int) -> np.ndarray:
        """The kept set at budget `s`: ascending int64 positions; all candidates where they are not more.

        In reading ``cache`` the query's own key is held, the rule is asked for ``s - 1`` others, and the
        set is for all query heads of the group. There a kept key can turn out to have no mass at the
        query, which the rule could not know: it counts for nothing in the error.

        Raises
        ------
        InputError
            When the selector has no such reading, needs queries that are not there, or is a user's and
            raises or returns something else than as many of the candidates.
        """
        rule = self.rules.get(sight.reading)
        if rule is None:
            raise InputError(
                f"reading: {self.name} has no reading {sight.reading}, only {', '.join(self.rules)}"
            )
        count = check_budget(s) - sight.appended
        if len(sight.candidates) <= count:
            kept = sight.candidates
        elif count == 0:
            kept = np.empty(0, dtype=np.int64)
        elif self.digest:
            kept = self._checked(rule, sight, count)
        else:
            kept = rule(sight, count, **self.parameters)
        return np.append(kept, sight.position + 1) if sight.appended else kept

    def _checked(self, rule: Rule, sight: Sight, count: int) -> np.ndarray:
        """What a user's rule returns, ascending, or `InputError`."""
        where = f"selector: {self.name} at position {sight.position}, {count} keys asked for"
        try:
            found = rule(sight, count)
        except (Exception, SystemExit) as error:  # the latter would end the run as if all were done
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        try:
            kept = np.sort(np.asarray(found))
        except (TypeError, ValueError):
            kept = np.empty(0)
        if kept.ndim != 1 or kept.dtype.kind not in "iu":
            raise InputError(f"{where}: returned {found!r:.60}, expected a flat array of whole numbers")
        if len(kept) != count:
            raise InputError(f"{where}: returned {len(kept)}; as many as asked for are expected")
        if (repeated := kept[1:] == kept[:-1]).any():
            raise InputError(f"{where}: returned position {kept[1:][repeated][0]} twice")
        if not (fair := np.isin(kept, sight.candidates)).all():
            raise InputError(f"{where}: returned position {kept[~fair][0]}, which is not in sight.candidates")
        return kept.astype(np.int64)
