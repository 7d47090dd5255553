"""Where the files of a store stand, and what a name says about a file's content."""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ceiling.store.schema import AUDITED, CONFIGURED, TABLES

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
"""What a shard holds: document and perhaps layer; of the audit a task, its instance and an arm."""


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
    if unit is None or (unit["layer"] is None) == (place.table in CONFIGURED):
        return place, False
    numbers = tuple(int(n) for n in (unit["document"], unit["layer"]) if n is not None)
    return place._replace(unit=numbers), shard["name"] == unit_name(*numbers)


def unit_name(*unit: Any) -> str:
    """Name of a unit's shard, without its suffix: a file name on any system."""
    if isinstance(unit[0], str):
        task, instance, arm = unit
        return f"{str(task).replace(':', '+')}.{instance:05d}.{arm}"
    return ".".join(f"{name}-{n:0{width}d}" for (name, width), n in zip(_NUMBERED, unit, strict=False))


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
    beside the others; of the audit where they share no press at a budget.
    """
    if table != "scores" and table not in AUDITED:
        return False
    named = _presses if table in AUDITED else _rules
    rules = [named(record) for record in records]
    return all(a and b and not a & b for a, b in combinations(rules, 2))


def _rules(record: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Selectors and allocations of a record of scores; none where it cannot be read."""
    try:
        chosen = {(each["name"], reading) for each in record["selectors"] for reading in each["readings"]}  # type: ignore[index]
        return chosen | {("allocation", name) for name in record["allocations"]}  # type: ignore[index]
    except (TypeError, KeyError):
        return set()


def _presses(record: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Presses and budgets of an audit's record, less the anchor; none where it cannot be read."""
    try:
        return {(press, budget) for press in record["presses"] for budget in record["budgets"]}  # type: ignore[index]
    except (TypeError, KeyError):
        return set()
