"""Where the files of a store stand, and what a name says about a file's content."""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ceiling.store.schema import CONFIGURED, TABLES

_SHARD = re.compile(
    rf"(?P<table>{'|'.join(TABLES)})/dump=(?P<dump>[^/]+)(/config=(?P<config>[^/]+))?/(?P<name>[^/]+)\.parquet"
)
_RECORD = re.compile(
    rf"(?P<table>{'|'.join(CONFIGURED)})/dump=(?P<dump>[^/]+)/config=(?P<config>[^/]+)/config\.json"
)
_UNIT = re.compile(r"doc-(?P<document>\d{5,})(\.layer-(?P<layer>\d{2,}))?")
_PART = re.compile(r"part-\d{5,}")


class Place(NamedTuple):
    """What the path of a file promises.

    Attributes
    ----------
    table : str
    dump : str
    config : str or None
        In the tables `CONFIGURED` only.
    unit : tuple of int or None
        Document, and layer in those tables, where the file is named for one.
    record : bool
        Whether the file is a configuration's record, ``config.json``.
    """

    table: str
    dump: str
    config: str | None
    unit: tuple[int, ...] | None = None
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
    unit = _UNIT.fullmatch(shard["name"])
    if unit is None or (unit["layer"] is None) == (place.table in CONFIGURED):
        return place, False
    numbers = tuple(int(n) for n in (unit["document"], unit["layer"]) if n is not None)
    return place._replace(unit=numbers), shard["name"] == unit_name(*numbers)


def unit_name(document: int, layer: int | None = None) -> str:
    """Name of a unit's shard, without its suffix."""
    return f"doc-{document:05d}" + ("" if layer is None else f".layer-{layer:02d}")


def are_apart(table: str, records: Iterable[Mapping[str, Any] | None]) -> bool:
    """Whether configurations of one dump, by their records, may be read together: no two answer the same.

    Of table ``scores`` they may where they share no rule, so that a rule of one's own, scored later, stands
    beside the others.
    """
    if table != "scores":
        return False
    rules = [_rules(record) for record in records]
    return all(a and b and not a & b for a, b in combinations(rules, 2))


def _rules(record: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Selectors and allocations of a record of scores; none where it cannot be read."""
    try:
        chosen = {(each["name"], reading) for each in record["selectors"] for reading in each["readings"]}  # type: ignore[index]
        return chosen | {("allocation", name) for name in record["allocations"]}  # type: ignore[index]
    except (TypeError, KeyError):
        return set()
