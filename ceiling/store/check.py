"""The health of a store: what is damaged, foreign, repeated or missing, file by file."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

from ceiling.problem import InputError
from ceiling.store.examine import examine, shared_rows
from ceiling.store.layout import Place, Unit, are_apart, place_of, unit_name
from ceiling.store.schema import AUDITED, CONFIGURED, UNIT
from ceiling.store.shards import COMPACTED, config_id, is_abandoned


class Kind(StrEnum):
    """What can be wrong with a store."""

    UNREADABLE = "unreadable"  # cut short, garbled
    FOREIGN = "foreign"  # not of the layout, of another schema, or not of its place
    LEFTOVER = "leftover"  # a temporary that nobody will finish
    DUPLICATE = "duplicate"  # rows that are there already
    HOLE = "hole"  # a unit without a shard, or with too few rows
    CONFIGURATIONS = "configurations"  # several of one dump, none named


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes
    ----------
    kind : Kind
    where : str
        File or folder, relative to the store.
    what : str
    dump, config : str or None
        Whose results it concerns, where that is known.
    rerun : bool
        Whether enumerating the dump again mends it ...
    remove : bool
        ... once the file at `where` is gone: as it is, it would be taken for done.
    """

    kind: Kind
    where: str
    what: str
    dump: str | None = None
    config: str | None = None
    rerun: bool = False
    remove: bool = False


class Wanted(NamedTuple):
    """What a dump gives rise to: its id, and the query rows of every (document, layer)."""

    dump: str
    rows: dict[Unit, int]


@dataclass
class Health:
    """What `check_store` found.

    Attributes
    ----------
    problems : list of Problem
    records : dict of (str, str) to dict
        What every configuration of every dump stands for, where its record is sound.
    compacted : bool
        Whether the store is a compacted one, which nothing is enumerated into.
    rows : Counter of str to int
        Rows of every table.
    files, unsealed : int
        Parquet files, and those of an older version without a digest.
    """

    problems: list[Problem] = field(default_factory=list)
    records: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    compacted: bool = False
    rows: Counter[str] = field(default_factory=Counter)
    files: int = 0
    unsealed: int = 0


def check_store(store: str | Path, config: str | None = None, wanted: Iterable[Wanted] = ()) -> Health:
    """Look at every file of a store, one at a time.

    Parameters
    ----------
    store : str or Path
    config : str, optional
        Look at this configuration only, where the store holds several.
    wanted : iterable of Wanted
        Dumps to look for. Of others, holes are what the store itself shows: documents without a layer
        that another document has, or without their part of the small tables.

    Returns
    -------
    Health

    Raises
    ------
    InputError
        When there is no such folder, or nothing of that configuration in it.

    Notes
    -----
    Shards that appear meanwhile count as missing. A garbled file of an older version, without a digest,
    is found only where decoding stumbles over it.
    """
    if not (store := Path(store)).is_dir():
        raise InputError(f"store: no folder {store}; `ceiling enumerate --store` makes one")
    scan = _Scan(store, config)
    for path in _files(store):
        scan.take(path)
    if config is not None and not any(place.config == config for place in scan.units):
        known = ", ".join(sorted({place.config for place in scan.others if place.config})) or "none"
        raise InputError(f"config: {config!r} is not in {store}; there is {known}")
    scan.compare_files()
    scan.find_configurations()
    scan.find_holes({each.dump: each.rows for each in wanted})
    scan.health.problems.sort(key=lambda p: (list(Kind).index(p.kind), p.where, p.what))
    return scan.health


def _files(store: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(store):
        folders.sort()
        yield from (Path(folder) / name for name in sorted(names))


class _Scan:
    """What was seen of a store so far."""

    def __init__(self, store: Path, config: str | None) -> None:
        self.store, self.config = store, config
        self.health = Health(compacted=(store / COMPACTED).exists())
        self.units: dict[Place, Counter[Unit]] = defaultdict(Counter)  # rows that are there, by folder
        self.broken: dict[Place, set[Unit]] = defaultdict(set)  # unreadable, and reported as such
        self.owners: dict[tuple[Place, Unit], str] = {}  # the first file with rows of a unit
        self.overlaps: dict[tuple[str, str], Place] = {}  # files with rows of the same unit
        self.others: set[Place] = set()  # left out: of another configuration than the one named

    @property
    def again(self) -> dict[str, bool]:
        """What mends a bad file that is a unit's: nothing is enumerated into a compacted store."""
        return {} if self.health.compacted else {"rerun": True, "remove": True}

    def report(self, kind: Kind, where: str, what: str, place: Place | None = None, **fix: bool) -> None:
        dump, config = (place.dump, place.config) if place else (None, None)
        self.health.problems.append(Problem(kind, where, what, dump, config, **fix))

    def take(self, path: Path) -> None:
        """One file, whatever it is."""
        where = path.relative_to(self.store).as_posix()
        top = where.split("/")[0]
        if top == ".tmp":
            if is_abandoned(path):
                self.report(Kind.LEFTOVER, where, "nobody is writing this any more; delete it")
            return
        if top == ".log" or where == COMPACTED:
            return
        place, in_layout = place_of(where, self.health.compacted)
        if place and place.config and self.config not in (None, place.config):
            self.others.add(place._replace(unit=None))
            return
        if not in_layout:
            self.report(Kind.FOREIGN, where, "not of the store's layout; move it away", place)
        if place and place.record:
            self.take_record(path, where, place)
        elif place:
            self.take_shard(path, where, place)

    def take_shard(self, path: Path, where: str, place: Place) -> None:
        found = examine(path, place)
        folder = place._replace(unit=None)
        self.health.files += 1
        self.health.unsealed += not found.sealed
        if found.unreadable:
            self.report(Kind.UNREADABLE, where, found.unreadable, place, **(self.again if place.unit else {}))
            self.broken[folder].update([place.unit] if place.unit else [])
        for what in found.foreign:
            self.report(Kind.FOREIGN, where, f"{what}; move it away", place)
        if found.repeated:
            self.report(Kind.DUPLICATE, where, f"{found.repeated} rows stand in it twice", place)
        self.units[folder].update(found.units)
        self.health.rows[place.table] += found.units.total()
        for unit in found.units:
            owner = self.owners.setdefault((folder, unit), where)
            if owner != where:
                self.overlaps[owner, where] = place

    def take_record(self, path: Path, where: str, place: Place) -> None:
        """A configuration's record, which must hash to the id it stands under."""
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(record, dict) or not record:
                raise ValueError("it says nothing")
            found = config_id(record)
            if place.table == "instances":
                _ = {int(s): int(extra) for s, extra in record["extras"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.report(Kind.UNREADABLE, where, f"not a record ({error!r})", place, **self.again)
            return
        if found != place.config:
            what = f"its content is configuration {found}, its path says {place.config}"
            self.report(Kind.FOREIGN, where, what, place, **self.again)
            return
        self.health.records[place.dump, found] = record

    def compare_files(self) -> None:
        """Rows that two files share."""
        for (one, other), place in self.overlaps.items():
            if rows := shared_rows(place.table, self.store / one, self.store / other):
                self.report(Kind.DUPLICATE, other, f"{rows} rows are also in {one}", place)

    def configurations(self, table: str, dump: str) -> list[str]:
        """Those that `dump` has shards of in `table`, readable or not."""
        mine = (p for p in {**self.units, **self.broken} if (p.table, p.dump) == (table, dump))
        return sorted({p.config for p in mine if p.config})

    def find_configurations(self) -> None:
        for table, dump in sorted({(p.table, p.dump) for p in self.units if p.config}):
            configs = self.configurations(table, dump)
            records = [self.health.records.get((dump, config)) for config in configs]
            if len(configs) > 1 and not are_apart(table, records):
                described = ", ".join(f"{config}{self.budgets(dump, config)}" for config in configs)
                what = f"{len(configs)} configurations ({described}); name one with --config"
                self.report(Kind.CONFIGURATIONS, f"{table}/dump={dump}", what)
            for config in configs:
                place = Place(table, dump, config)
                if not (self.store / place.folder / "config.json").exists():
                    what = "missing: what the configuration stands for is not known"
                    again = not self.health.compacted
                    self.report(Kind.HOLE, f"{place.folder}/config.json", what, place, rerun=again)

    def budgets(self, dump: str, config: str) -> str:
        extras = self.health.records.get((dump, config), {}).get("extras", {})
        pools = (f"{s}+{extras[s]}" for s in sorted(extras, key=int))
        return f": s+extra {' '.join(pools)}" if extras else ""

    def find_holes(self, wanted: dict[str, dict[Unit, int]]) -> None:
        everywhere = sorted({p.config for p in self.units if p.config and p.table == "instances"})
        absent = any(p.config for p in self.units) and not everywhere  # a store of other results only
        every = {**self.units, **self.broken}
        for dump, config in sorted({(p.dump, p.config or "") for p in every if p.table in AUDITED}):
            self.find_missing_answers(dump, config)
        seen = {place.dump for place in every if place.table not in AUDITED}
        for dump in sorted(seen | set(wanted)):
            units = set(wanted.get(dump, ())) or self.shown(dump)
            mine = [place for place in every if place.dump == dump and place.table not in AUDITED]
            found = {unit for place in mine for unit in (*self.units[place], *self.broken[place])}
            for table in ("documents", "rows"):  # which all results have, not those of instances alone
                self.find_missing(Place(table, dump, None), {unit[:1] for unit in units or found})
            self.find_other_holes(dump, set(wanted.get(dump, ())))
            if absent:
                continue
            configs = self.configurations("instances", dump) or everywhere
            if not configs and units:
                what = f"none of {len(units)} units (document x layer) is there"
                self.report(
                    Kind.HOLE, f"instances/dump={dump}", what, Place("instances", dump, None), rerun=True
                )
            for config in configs:
                place = Place("instances", dump, config)
                self.find_missing(place, units)
                if dump in wanted:
                    self.compare_counts(place, wanted[dump])

    def find_other_holes(self, dump: str, wanted: set[Unit]) -> None:
        """Units of a dump that is there, or layers that another document has, in results besides instances.

        A record that names a manifest says that only some of them were wanted.
        """
        for table in (t for t in CONFIGURED[1:] if t not in AUDITED):
            for config in self.configurations(table, dump):
                if "layer" not in UNIT[table]:  # how many documents were wanted, no record says
                    place = Place(table, dump, config)
                    there = {*self.units.get(place, ()), *self.broken.get(place, ())}
                    self.find_missing(place, {(n,) for n in range(max(there, default=(0,))[0])})
                elif not self.health.records.get((dump, config), {}).get("manifest"):
                    self.find_missing(Place(table, dump, config), wanted or self.shown(dump, table))

    def shown(self, dump: str, of: str = "instances") -> set[Unit]:
        """Every document with every layer that table `of` holds anything of."""
        mine = [(p, {*self.units[p], *self.broken[p]}) for p in {**self.units, **self.broken}]
        units = [(p.table, unit) for p, found in mine if p.dump == dump for unit in found]
        layers = {unit[1] for table, unit in units if table == of}
        return {(document, layer) for document in {unit[0] for _, unit in units} for layer in layers}

    def find_missing_answers(self, model: str, config: str) -> None:
        """Of an audit: every task's instances up to its last, in every arm that any task was run in.

        How many were wanted, no record says: a run goes on by asking for more. Where kept sets were judged,
        the judgements are looked for as the records are.
        """
        judged = self.health.records.get((model, config), {}).get("ceilings", "none") != "none"
        places = [Place(table, model, config) for table in (AUDITED if judged else AUDITED[:1])]
        there = {place: {*self.units.get(place, ()), *self.broken.get(place, ())} for place in places}
        every = set().union(*there.values())
        last = {task: max(n for name, n, _ in every if name == task) for task, _, _ in every}
        for place in places:
            for task, arm in product(sorted(last), sorted({arm for _, _, arm in every})):
                if missing := [n for n in range(last[task] + 1) if (task, n, arm) not in there[place]]:
                    what = f"task {task}, arm {arm}, instances {ranges(missing)}: {len(missing)} missing"
                    self.report(Kind.HOLE, place.folder, what, place, rerun=not self.health.compacted)

    def find_missing(self, place: Place, units: set[Unit]) -> None:
        """One problem for all documents that miss the same layers."""
        missing = sorted(units - set(self.units.get(place, ())) - self.broken.get(place, set()))
        layers: dict[int, Unit] = defaultdict(tuple)
        for document, *layer in missing:
            layers[document] += tuple(layer)
        alike: dict[Unit, list[int]] = defaultdict(list)
        for document, absent in layers.items():
            alike[absent].append(document)
        for absent, documents in alike.items():
            of = f", layers {ranges(absent)}" if absent else ""
            count = len(documents) * max(len(absent), 1)
            what = f"documents {ranges(documents)}{of}: {count} shard{'s' * (count > 1)} missing"
            self.report(Kind.HOLE, place.folder, what, place, rerun=not self.health.compacted)

    def compare_counts(self, place: Place, rows: dict[Unit, int]) -> None:
        """Units that are there, with another number of rows than the dump's rows and budgets make."""
        budgets = len(self.health.records.get((place.dump, place.config or ""), {}).get("extras", ()))
        for unit, count in sorted(self.units[place].items()):
            where = f"{place.folder}/{unit_name(*unit)}.parquet"
            if unit not in rows:
                self.report(Kind.FOREIGN, where, "the dump has no such document or layer", place)
            elif budgets and count < rows[unit] * budgets:
                what = f"{count} of {rows[unit] * budgets} instances"
                self.report(Kind.HOLE, where, what, place, **self.again)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending whole numbers in few characters: ``0-3, 7``."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    found = [[n for _, n in run] for _, run in runs]
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
