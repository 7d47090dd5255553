"""Where the files of a store stand, and what a name says about a file's content."""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ceiling.store.schema import AUDITED, CONFIGURED, TABLES, UNIT

_SHARD = re.compile(
    rf"(?P<table>{'|'.join(TABLES)})/dump=(?P<dump>[^/]+)(/config=(?P<config>[^/]+))?/(?P<name>[^/]+)\.parquet"
)
_RECORD = re.compile(
    rf"(?P<table>{'|'.join(CONFIGURED)})/dump=(?P<dump>[^/]+)/config=(?P<config>[^/]+)/config\.json"
)
_UNIT = re.compile(r"doc-(?P<document>\d{5,})(\.layer-(?P<layer>\d{2,}))?")
_AUDIT_UNIT = re.compile(r"(?P<task>[a-z][a-z0-9_+=,]*)\.(?P<instance>\d{5,})\.(?P<arm>[a-z-]+)")
_PART = re.compile(r"part-\d{5,}")

Unit = tuple[Any, ...]
"""What a shard holds: see `ceiling.store.schema.UNIT`."""


class Place(NamedTuple):
    """What the path of a file promises.

    Attributes
    ----------
    table : str
    dump : str
    config : str or None
        In the tables `CONFIGURED` only.
    unit : tuple or None
        `ceiling.store.schema.UNIT` of the table, where the file is named for one.
    record : bool
        Whether the file is a configuration's record, ``config.json``.
    """

    table: str
    dump: str
    config: str | None
    unit: Unit | None = None
    record: bool = False

    @property
    def folder(self) -> str:
        """The folder such files stand in, relative to the store."""
        return f"{self.table}/dump={self.dump}" + (f"/config={self.config}" if self.config else "")


def place_of(relative: str, compacted: bool) -> tuple[Place | None, bool]:
    """What a path relative to the store promises, and whether it is as the layout has it.

    Parameters
    ----------
    relative : str
        With forward slashes.
    compacted : bool
        Whether the store is one of merged parts instead of units.

    Returns
    -------
    Place or None
        Also where only the file's own name is wrong: queries read such a file.
    bool
    """
    if record := _RECORD.fullmatch(relative):
        return Place(record["table"], record["dump"], record["config"], record=True), True
    shard = _SHARD.fullmatch(relative)
    if shard is None or (shard["table"] in CONFIGURED) != (shard["config"] is not None):
        return None, False
    place = Place(shard["table"], shard["dump"], shard["config"])
    if compacted:
        return place, _PART.fullmatch(shard["name"]) is not None
    if place.table in AUDITED:
        return _of_audit(place, shard["name"])
    unit = _UNIT.fullmatch(shard["name"])
    if unit is None or (unit["layer"] is not None) != ("layer" in UNIT[place.table]):
        return place, False
    numbers = tuple(int(n) for n in (unit["document"], unit["layer"]) if n is not None)
    return place._replace(unit=numbers), shard["name"] == unit_name(*numbers)


def unit_name(*unit: Any) -> str:
    """Name of a unit's shard, without its suffix: a file name on any system."""
    if isinstance(unit[0], str):
        task, instance, arm = unit
        return f"{str(task).replace(':', '+')}.{instance:05d}.{arm}"
    numbered = zip(_NUMBERED[: len(unit)], unit, strict=True)
    return ".".join(f"{name}-{n:0{width}d}" for (name, width), n in numbered)


_NUMBERED = (("doc", 5), ("layer", 2))


def _of_audit(place: Place, name: str) -> tuple[Place, bool]:
    """`place` with the unit that the file's name says."""
    found = _AUDIT_UNIT.fullmatch(name)
    if found is None:
        return place, False
    unit = (found["task"].replace("+", ":"), int(found["instance"]), found["arm"])
    return place._replace(unit=unit), name == unit_name(*unit)


def are_apart(table: str, records: Iterable[Mapping[str, Any] | None]) -> bool:
    """Whether configurations of one dump, by their records, may be read together: no two answer the same.

    Of table ``scores`` they may where they share no rule, so that a rule of one's own, scored later, stands
    beside the others; of ``losses`` where they share none at a budget and all else is alike; of the audit
    where they share no press at a budget on a backend in a dtype, and posed the same instances to the same
    model.
    """
    if table == "scores":
        return all(a and b and not a & b for a, b in combinations(map(_rules, records), 2))
    if table == "losses":
        return all(_lose_apart(a, b) for a, b in combinations(records, 2))
    if table in AUDITED:
        return all(_answer_apart(a, b) for a, b in combinations(records, 2))
    return False


def _answer_apart(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two records of audits pose the same and answer by other presses; no where one is not there."""
    if not one or not other or _posed(one) != _posed(other):
        return False
    a, b = _presses(one), _presses(other)
    return a is not None and b is not None and not a & b


def _lose_apart(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two records of losses are of other rules or budgets on the same continuations."""
    if not one or not other:
        return False
    alike, own = [], []
    for record in (one, other):
        alike.append({name: value for name, value in record.items() if name not in ("selectors", "budgets")})
        try:
            own.append({(each["name"], s) for each in record["selectors"] for s in record["budgets"]})
        except (TypeError, KeyError):
            return False
    return alike[0] == alike[1] and not own[0] & own[1]


def _rules(record: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Selectors and allocations of a record of scores; none where it cannot be read."""
    try:
        chosen = {(each["name"], reading) for each in record["selectors"] for reading in each["readings"]}  # type: ignore[index]
        return chosen | {("allocation", name) for name in record["allocations"]}  # type: ignore[index]
    except (TypeError, KeyError):
        return set()


def _posed(record: Mapping[str, Any]) -> dict[str, Any]:
    """All of an audit's record but by whom it was answered, and whether kept sets were judged."""
    return {name: value for name, value in record.items() if name not in _ANSWERED_BY}


_ANSWERED_BY = ("presses", "sources", "budgets", "backend", "dtype", "ceilings")


def _presses(record: Mapping[str, Any]) -> set[tuple[str, ...]] | None:
    """Presses, budgets, backend and dtype of an audit's record, less the anchor; None where it lacks them."""
    try:
        where = record["backend"], record["dtype"]
        return {(press, budget, *where) for press in record["presses"] for budget in record["budgets"]}
    except (TypeError, KeyError):
        return None
