"""Check of stored certificates: is what table ``certificates`` says true of the dump it names?"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ceiling.certify import ENGINE, Certificate
from ceiling.certify.manifest import find_manifest, read_manifest
from ceiling.dump import Document, Dump, open_dump, tokens_sha256
from ceiling.objective import forced_error
from ceiling.problem import InputError, Row, Status, check_budget
from ceiling.stages.certify import measured
from ceiling.store import config_id
from ceiling.store.examine import examine
from ceiling.store.layout import Place, place_of
from ceiling.store.reader import configurations, scan
from ceiling.store.schema import IDENTITY
from ceiling.store.shards import COMPACTED

SAMPLE = 40
"""Proofs replayed unless more are asked for: a replay takes about as long as the search did."""

SAME = 1e-9
"""How far a stored statistic may lie from the one computed again, relative, and absolutely in the units of
`SCALES`: all are float64 sums of at most some thousand terms, 1e-12 apart on another machine."""

SCALES = {"e_top": "sigma", "dropped_mass": None, "closable_lower": None, "closable_upper": None}
"""Statistics that cancel: what their rounding is relative to, where that is not 1."""

ROUNDING = 1e-12
"""How far a kept set's error may lie from `es_upper` beyond `SAME`, in units of its farthest value's distance
from the dense output, and sigma: what float64 leaves of a sum that cancels, with room for its order."""

UNCHECKED = ("nodes", "seconds", "stopped_by")
"""Columns that tell how the search went, which nothing can show afterwards."""

NULLABLE = ("decile", "closable_lower", "closable_upper", "proof", "proof_bytes")
"""Columns that may be null."""

KEY = IDENTITY["certificates"]

Key = tuple[Any, ...]
"""Values of `KEY`."""


class Checked(NamedTuple):
    """One certificate (or file, or unit), and what is wrong with it; None where nothing is."""

    where: str
    wrong: str | None


class Chosen(NamedTuple):
    """What is to be checked.

    Attributes
    ----------
    dump : Dump
    files : tuple of Path
        Shards that can be read.
    record : dict
        What their configuration stands for.
    deciles : dict or None
        Of a manifest's instances, by all of `KEY` but the floor. None without a manifest, or where its file
        does not lie beside the store.
    certificates, proved : int
        How many there are, and how many carry a proof.
    proofs : frozenset
        Keys of those whose proof is replayed.
    wrong : tuple of Checked
        Shards that cannot be read, and certificates that are missing or stand there twice.
    """

    dump: Dump
    files: tuple[Path, ...]
    record: dict[str, Any]
    deciles: dict[Key, int] | None
    certificates: int
    proved: int
    proofs: frozenset[Key]
    wrong: tuple[Checked, ...]

    @property
    def unlisted(self) -> bool:
        """Whether the manifest was not found, so that nothing tells what is missing."""
        return self.record["manifest"] is not None and self.deciles is None


def choose(
    dump: str | Path,
    store: str | Path,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    config: str | None = None,
    verify: bool = False,
) -> Chosen:
    """Look through the shards, and choose the proofs to replay.

    Parameters
    ----------
    dump, store : str or Path
    sample : int or None
        How many proofs, at most, drawn with `seed`; None for all. Everything else is checked of all
        certificates.
    seed : int
    config : str, optional
        Configuration, where the store holds several.
    verify : bool
        Also compare the dump's files with the digests in its manifest.

    Raises
    ------
    InputError
        When the store holds no certificate of the dump, or not what its configuration stands for.
    """
    if sample is not None:
        check_budget(sample, field="sample")
    if seed < 0:
        raise InputError(f"seed: {seed} is negative; a whole number from 0 on is needed")
    opened, store = open_dump(dump, verify), Path(store)
    folder = _folder(store, opened, config)
    record = _record(folder)
    files, wrong, told, frames = (
        [],
        [],
        set(),
        [scan("certificates", ()).select(*KEY, "proof_bytes").collect()],
    )
    for path in sorted(folder.glob("*.parquet")):
        where = path.relative_to(store).as_posix()
        place, _ = place_of(where, (store / COMPACTED).exists())
        if unusable := _unusable(path, place):
            wrong.append(Checked(where, f"{unusable}; delete it and run `ceiling certify` again"))
            told.add(place.unit if place else None)
        else:
            files.append(path)
            frames.append(scan("certificates", [path]).select(frames[0].columns).collect())
    found = pl.concat(frames)
    if twice := int(found.select(KEY).is_duplicated().sum()):
        wrong.append(Checked(folder.relative_to(store).as_posix(), f"{twice} rows repeat each other"))
    deciles = _deciles(store, opened, record["manifest"])
    if record["manifest"] is None or deciles is not None:
        wrong += _absent(opened, record, deciles, found, told)
    proofs = found.filter(pl.col("proof_bytes").is_not_null()).select(KEY).sort(KEY)
    drawn = proofs if sample is None else proofs.sample(min(sample, proofs.height), seed=seed)
    counts = found.height, proofs.height
    return Chosen(opened, tuple(files), record, deciles, *counts, frozenset(drawn.rows()), tuple(wrong))


def replay(chosen: Chosen) -> Iterator[Checked]:
    """Check every certificate, and the chosen proofs with arithmetic that shares nothing with the search.

    What `choose` found wrong comes first.
    """
    yield from chosen.wrong
    judge = _Judge(chosen)
    for path in chosen.files:
        for record in scan("certificates", [path]).collect().sort(KEY).iter_rows(named=True):
            yield Checked(_words(KEY, [record[name] for name in KEY]), judge(record))


def _folder(store: Path, dump: Dump, config: str | None) -> Path:
    """Where the certificates of a dump stand, of the only or the named configuration."""
    known = configurations(store, "certificates", dump.id)
    if not known:
        raise InputError(f"store: {store} holds no certificate of dump {dump.path} ({dump.id})")
    if config is None and len(known) > 1:
        raise InputError(
            f"store: {store} holds {len(known)} configurations of certificates of dump {dump.id} "
            f"({', '.join(known)}); name one with --config"
        )
    if config is not None and config not in known:
        raise InputError(f"config: {config!r} has no certificates in {store}; there is {', '.join(known)}")
    return store / "certificates" / f"dump={dump.id}" / f"config={config or known[0]}"


def _record(folder: Path) -> dict[str, Any]:
    """What a configuration stands for, of its record, which must hash to its id."""
    path = folder / "config.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _ = float(record["gap"]), record["manifest"], record["engine"]
        _ = [int(s) for s in record["budgets"]], [float(floor) for floor in record["mass_floors"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"store: cannot read the record {path} ({error!r})") from None
    if (found := config_id(record)) != folder.name.removeprefix("config="):
        raise InputError(f"store: the record {path} is of configuration {found}: it was changed")
    return record


def _unusable(path: Path, place: Place | None) -> str | None:
    """Why a shard cannot be checked row by row."""
    if place is None:
        return "not of the store's layout"
    found = examine(path, place)
    repeated = [f"{found.repeated} rows stand in it twice"] if found.repeated else []
    return found.unreadable or next(iter([*found.foreign, *repeated]), None)


def _deciles(store: Path, dump: Dump, digest: str | None) -> dict[Key, int] | None:
    """The instances of a manifest, where its file lies beside the store."""
    path = find_manifest(store, digest) if digest else None
    if path is None:
        return None
    instances = read_manifest(path, [dump]).of(dump.id)
    return {(i.document, i.layer, i.head, i.position, i.s): i.decile for i in instances}


def _absent(
    dump: Dump, record: dict[str, Any], deciles: dict[Key, int] | None, found: pl.DataFrame, told: set[Any]
) -> Iterator[Checked]:
    """A line for every unit that misses certificates of its configuration."""
    there = found.select(KEY).partition_by("document", "layer", as_dict=True)
    listed: dict[Key, list[Key]] = {}
    for instance in deciles or ():
        listed.setdefault(instance[:2], []).append(instance)
    for document in range(dump.n_documents):
        positions = dump.document(document).query_positions.tolist()
        for layer in dump.layers:
            unit = (document, layer)
            if deciles is None:
                rows = [(h, position) for h in range(dump.heads) for position in positions]
                listed[unit] = [(*unit, *row, s) for row in rows for s in record["budgets"]]
            wanted = {(*i, floor) for i in listed.pop(unit, ()) for floor in record["mass_floors"]}
            missing = wanted - set(there[unit].rows() if unit in there else ())
            if missing and unit not in told:
                first = "" if unit not in there else f", first {_words(KEY[2:], min(missing)[2:])}"
                what = f"{len(missing)} of {len(wanted)} certificates are missing{first}"
                yield Checked(_words(KEY[:2], unit), what)


def _words(names: tuple[str, ...], values: Any) -> str:
    return ", ".join(f"{n.replace('_', ' ')} {v:g}" for n, v in zip(names, values, strict=True))


class _Judge:
    """Says what is wrong with one certificate; the last document and row stay open for the next."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen, self.dump, self.asked = chosen, chosen.dump, chosen.record
        self.document: Document | None = None
        self.text_id = ""
        self.at: Key = ()
        self.row: Row | None = None

    def __call__(self, record: dict[str, Any]) -> str | None:
        """What is wrong with a row of table ``certificates``."""
        if nulls := [name for name, value in record.items() if value is None and name not in NULLABLE]:
            return f"{nulls[0]}: null"
        try:
            r, row = self.find(record)
        except InputError as error:
            return str(error)
        return self.misplaced(record) or _misfit(record, row) or self.disproved(record, r, row)

    def find(self, record: dict[str, Any]) -> tuple[int, Row]:
        """The dump's row and its index, or `InputError`."""
        if self.document is None or self.document.index != record["document"]:
            self.document = self.dump.document(record["document"])
            self.text_id = tokens_sha256([self.document.tokens])[:12]
        positions = self.document.query_positions.tolist()
        if record["position"] not in positions:
            raise InputError(f"the dump has no row at position {record['position']}")
        r = positions.index(record["position"])
        at = tuple(record[name] for name in KEY[:4])
        if self.row is None or self.at != at:
            self.at, self.row = at, self.document.row(record["layer"], record["head"], r)
        return r, self.row

    def misplaced(self, record: dict[str, Any]) -> str | None:
        """What disagrees with the dump or the configuration."""
        for name, allowed in (("s", "budgets"), ("mass_floor", "mass_floors")):
            if record[name] not in self.asked[allowed]:
                return f"{name}: {record[name]} is none of the configuration's, {self.asked[allowed]}"
        expected = {
            "model": self.dump.model,
            "text_id": self.text_id,
            "kv_head": record["head"] // (self.dump.heads // self.dump.kv_heads),
            "engine": self.asked["engine"],
        }
        if self.chosen.deciles is not None:
            instance = tuple(record[name] for name in KEY[:5])
            if instance not in self.chosen.deciles:
                return "the manifest has no such instance"
            expected["decile"] = self.chosen.deciles[instance]
        elif self.asked["manifest"] is None:
            expected["decile"] = None
        for name, value in expected.items():
            if record[name] != value:
                return f"{name}: {record[name]!r}, expected {value!r}"
        return None

    def disproved(self, record: dict[str, Any], r: int, row: Row) -> str | None:
        """What is wrong with the bounds, and with what is computed from them."""
        kept, floor = np.array(record["kept"], dtype=np.int64), record["mass_floor"]
        lower, upper = record["es_lower"], record["es_upper"]
        if tuple(record[name] for name in KEY) in self.chosen.proofs and record["proof"] is not None:
            from ceiling.certify.check import check_proof

            assert self.document is not None
            stored = self.document.masses(record["layer"])[record["head"], r, : len(row.masses)]
            masses = stored.astype(np.float64)  # not divided by their sum
            if wrong := check_proof(
                masses, row.values, record["s"], lower, upper, kept, floor or None, record["proof"]
            ):
                made = self.asked["engine"]  # another one may not find again what its proofs leave out
                return wrong if made == ENGINE else f"{wrong} (made by {made}; this is {ENGINE})"
        status = Status(record["status"])
        if status == Status.OPTIMAL and not upper <= lower * (1 + self.asked["gap"]):
            return f"called optimal, with bounds {lower!r} .. {upper!r}"
        bounds = Certificate(lower, upper, kept, status, 0, 0.0, "", floor or None, record["proof"])
        again = measured(row, record["s"], bounds)
        if wrong := _another_error(row, kept, upper, again["sigma"]):
            return wrong
        for name, value in again.items():
            unit = SCALES.get(name, "")
            scale = 0.0 if unit == "" else 1.0 if unit is None else again[unit]
            if name not in UNCHECKED and not _same(record[name], value, scale):
                return f"{name}: {record[name]!r}, its bounds and its row give {value!r}"
        if again["top_share"] < floor * (1 - SAME):
            return f"kept: {again['top_share']!r} of the top-mass set's mass misses the floor {floor:g}"
        return None


def _misfit(record: dict[str, Any], row: Row) -> str | None:
    """Why a certificate is none at all, whatever the row's values."""
    s, lower, upper, status = (record[name] for name in ("s", "es_lower", "es_upper", "status"))
    kept = np.array(record["kept"], dtype=np.int64)
    if len(kept) == 0 or kept.min() < 0 or kept.max() >= len(row.masses) or not (np.diff(kept) > 0).all():
        return "kept: not ascending positions of the row"
    if len(kept) != min(s, row.n_keys) or not (row.masses[kept] > 0).all():
        return f"kept: not {min(s, row.n_keys)} keys of positive mass"
    if not 0 <= lower <= upper < math.inf:
        return f"es_lower, es_upper: {lower!r} .. {upper!r} is no interval"
    if status not in (Status.OPTIMAL, Status.GAP, Status.TRIVIAL):
        return f"status: {status!r} is no end of a certification"
    if (status == Status.TRIVIAL) != (row.n_keys <= s):
        return f"status: {status!r}, with {row.n_keys} keys and a budget of {s}"
    if record["proof"] is None and status == Status.OPTIMAL:
        return "optimal, without a proof"
    if record["proof"] is None and lower > 0:
        return f"es_lower: {lower!r}, without a proof"
    return None


def _another_error(row: Row, kept: np.ndarray, upper: float, sigma: float) -> str | None:
    """The kept set's error, where it is not `upper`."""
    dense = row.masses @ row.values / row.masses.sum()
    reach = float(np.linalg.norm(row.values[kept] - dense, axis=1).max()) + sigma
    error = forced_error(row, kept)
    if math.isclose(error, upper, rel_tol=SAME, abs_tol=ROUNDING * reach):
        return None
    return f"es_upper: {upper!r}, the kept set has error {error!r}"


def _same(stored: Any, value: Any, scale: float) -> bool:
    if isinstance(value, float) and isinstance(stored, float):
        return math.isclose(stored, value, rel_tol=SAME, abs_tol=SAME * scale)
    return bool(stored == value)
