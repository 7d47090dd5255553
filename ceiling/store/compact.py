"""Merging the shards of a store into few large files that scan fast."""

import glob
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from ceiling import durable
from ceiling.problem import InputError
from ceiling.store.check import Kind, check_store
from ceiling.store.reader import scan
from ceiling.store.schema import IDENTITY, SCHEMA_VERSION, TABLES
from ceiling.store.seal import sealed
from ceiling.store.shards import COMPACTED, is_abandoned, scratch

PART_ROWS = 500_000
"""Rows from which a part is closed: about 100 MB on disk, and about 1 GB in memory while it is sorted."""

PART_BYTES = 2**30
"""In memory, from which a part is closed whatever its rows: proofs of certificates are up to 1 MB each."""

GROUP_ROWS = 16_384
"""Rows of a row group: enough that a scan is not all overhead, few enough that a filter on documents or
layers skips most of a part by its statistics."""

GROUP_BYTES = 2**26
"""In memory, from which a row group has fewer rows: reading one proof decodes the proofs of its group."""

_REFUSED = (Kind.UNREADABLE, Kind.FOREIGN, Kind.DUPLICATE)
"""What would change answers, or be lost; holes, leftovers and several configurations stay what they are."""


class Compacted(NamedTuple):
    """How many parquet files became how many, their bytes, and the rows of all tables."""

    shards: int
    parts: int
    bytes_before: int
    bytes: int
    rows: int


def compact_store(store: str | Path, out: str | Path) -> Compacted:
    """Write a new store that answers every query as `store` does, from few files.

    Parameters
    ----------
    store : str or Path
        Is only read. Shards that appear meanwhile are left out.
    out : str or Path
        Must not exist; appears whole or not at all. `Shards` refuses to write to it.

    Returns
    -------
    Compacted

    Raises
    ------
    InputError
        When `out` exists or lies in the store, the store is missing or compacted already, or files of
        it are unreadable, foreign or repeat each other's rows; they are named.

    Notes
    -----
    One part a table, dump and configuration, or several of about `PART_ROWS` rows, sorted by `IDENTITY`.
    Columns that this version does not know are left out, as they are by queries.
    """
    store, out = Path(store), Path(out)
    _check(store, out)
    _remove_abandoned(out)
    temporary = out.with_name(f".{out.name}.{scratch('part')}")
    try:
        done = [
            _merge(table, source, temporary / source.relative_to(store)) for table, source in _folders(store)
        ]
        total = Compacted(*map(sum, zip(*done, (0,) * 5, strict=True)))
        _write(temporary / COMPACTED, json.dumps({"schema": SCHEMA_VERSION, **total._asdict()}).encode())
        for folder, _, _ in os.walk(temporary):
            durable.sync_folder(Path(folder))
        if out.exists():
            raise InputError(f"out: {out} appeared meanwhile; name another folder")
        temporary.rename(out)
        durable.sync_folder(out.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return total


def _check(store: Path, out: Path) -> None:
    if (store / COMPACTED).exists():
        raise InputError(f"store: {store} is compacted already")
    if out.exists() or out.is_symlink():
        raise InputError(f"out: {out} exists; name a new folder")
    if out.resolve().is_relative_to(store.resolve()):
        raise InputError(f"out: {out} lies in the store {store}; name a folder outside")
    wrong = [problem for problem in check_store(store).problems if problem.kind in _REFUSED]
    if wrong:
        named = "; ".join(f"{p.kind} {p.where}: {p.what}" for p in wrong)
        raise InputError(f"store: {len(wrong)} problems, see `ceiling store check`: {named}")


def _remove_abandoned(out: Path) -> None:
    """What killed compactions into `out` left."""
    for left in out.parent.glob(f".{glob.escape(out.name)}.*-part"):
        if is_abandoned(left, left.name.removeprefix(f".{out.name}.")):
            shutil.rmtree(left, ignore_errors=True)


def _folders(store: Path) -> Iterator[tuple[str, Path]]:
    """Every folder of shards, with its table."""
    for table in TABLES:
        for pattern in ("dump=*", "dump=*/config=*"):
            yield from ((table, f) for f in sorted((store / table).glob(pattern)) if any(f.glob("*.parquet")))


def _merge(table: str, source: Path, target: Path) -> Compacted:
    """The shards of one folder as parts of another, and the configuration's record with them."""
    if (record := source / "config.json").exists():
        _write(target / record.name, record.read_bytes())
    shards = sorted(source.glob("*.parquet"), key=_unit)
    parts, size, rows = 0, 0, 0
    for frame in _batches(table, shards):
        content = sealed(frame.sort(IDENTITY[table]), _group_rows(frame))
        _write(target / f"part-{parts:05d}.parquet", content)
        parts, size, rows = parts + 1, size + len(content), rows + frame.height
    return Compacted(len(shards), parts, sum(s.stat().st_size for s in shards), size, rows)


def _group_rows(frame: pl.DataFrame) -> int:
    return max(1, min(GROUP_ROWS, GROUP_BYTES * frame.height // max(int(frame.estimated_size()), 1)))


def _unit(shard: Path) -> list[str | int]:
    """A shard's name, its numbers in the order of numbers: layer 10 comes after layer 9."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", shard.name)]


def _batches(table: str, shards: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """Whole shards, joined up to about `PART_ROWS` rows or `PART_BYTES`."""
    frames: list[pl.DataFrame] = []
    for shard in shards:
        frames.append(scan(table, [shard]).collect())
        rows, size = sum(frame.height for frame in frames), sum(frame.estimated_size() for frame in frames)
        if rows >= PART_ROWS or size >= PART_BYTES:
            yield pl.concat(frames)
            frames = []
    if frames:
        yield pl.concat(frames)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write(path, content)
    except OSError as error:
        raise OSError(
            error.errno, f"out: cannot write {path} ({error.strerror}); nothing of it is kept"
        ) from error
