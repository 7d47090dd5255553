"""One parquet file of a store: whole, of the schema, of its place, without repetitions?"""

from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ceiling.store.layout import Place, Unit
from ceiling.store.schema import IDENTITY, TABLES, UNIT
from ceiling.store.seal import is_intact
from ceiling.store.shards import is_whole


@dataclass
class Examined:
    """What a file turned out to be.

    Attributes
    ----------
    unreadable : str or None
        Why it cannot be read.
    foreign : list of str
        What disagrees with the schema or with the file's place.
    units : dict of tuple to int
        Rows by unit: `ceiling.store.schema.UNIT`.
    repeated : int
        Rows that repeat another of the same file.
    sealed : bool
        Whether the file carries its digest.
    """

    unreadable: str | None = None
    foreign: list[str] = field(default_factory=list)
    units: Counter[Unit] = field(default_factory=Counter)
    repeated: int = 0
    sealed: bool = True


def examine(path: Path, place: Place) -> Examined:
    """Read one file, at once: an intact seal vouches for all bytes, without one every column is decoded."""
    found = Examined()
    try:
        content = path.read_bytes()
        if not is_whole(path):
            found.unreadable = "cut short"
            return found
        found.sealed = (intact := is_intact(content)) is not None
        if intact is False:
            found.unreadable = "its bytes are not those that were written (SHA-256)"
            return found
        schema = pl.read_parquet_schema(BytesIO(content))
        needed = _needed(place)
        found.foreign = _of_another_schema(schema, place.table, needed)
        if found.foreign:
            needed = [name for name in needed if name in schema]
        frame = pl.read_parquet(BytesIO(content), columns=needed if intact else None)
    except (OSError, ValueError, MemoryError, PolarsError, PanicException) as error:
        found.unreadable = " ".join(str(error).split())[:200] or type(error).__name__
        return found
    if not found.foreign:
        _compare(frame, place, found)
    return found


def shared_rows(table: str, one: Path, other: Path) -> int:
    """How many rows of `other` stand in `one` too."""
    identity = list(IDENTITY[table])
    first, second = (pl.read_parquet(path, columns=identity, glob=False) for path in (one, other))
    return second.join(first, on=identity, how="semi").height


def _needed(place: Place) -> list[str]:
    return ["dump", *(["config"] if place.config else []), *IDENTITY[place.table]]


def _of_another_schema(schema: dict[str, pl.DataType], table: str, needed: list[str]) -> list[str]:
    missing = [f"no column {name}" for name in needed if name not in schema]
    return missing + [
        f"column {name} is {schema[name]}, not {dtype}"
        for name, dtype in TABLES[table].items()
        if name in schema and schema[name] != dtype
    ]


def _compare(frame: pl.DataFrame, place: Place, found: Examined) -> None:
    """Rows against the path, and against each other."""
    identity = frame.select(IDENTITY[place.table])
    units = list(UNIT[place.table])
    elsewhere = {"dump": place.dump} | ({"config": place.config} if place.config else {})
    promised = elsewhere | dict(zip(units, place.unit or (), strict=False))
    wrong = {name: _first_other(frame[name], value) for name, value in promised.items()}
    found.foreign = [
        f"column {name} holds {value[0]!r}, its path says {promised[name]!r}"
        for name, value in wrong.items()
        if value
    ]
    if nulls := [name for name in identity.columns if identity[name].null_count()]:
        found.foreign.append(f"column {nulls[0]} holds nulls")
    if not frame.height:
        found.foreign.append("it has no rows")
    found.repeated = identity.height - identity.n_unique()
    if not nulls and not any(wrong[name] for name in elsewhere):  # else it tells nothing about this dump
        found.units.update({row[:-1]: row[-1] for row in identity.group_by(units).len().iter_rows()})


def _first_other(column: pl.Series, value: str | int) -> list[object]:
    """The first entry that is not `value`, if any."""
    return column.filter(column.ne_missing(value)).head(1).to_list()
