"""Writing a store: a shard that exists is done, and it appears whole or not at all."""

import hashlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from ceiling import durable
from ceiling.problem import InputError
from ceiling.store.layout import unit_name
from ceiling.store.schema import TABLES
from ceiling.store.seal import sealed

COMPACTED = "compacted.json"
"""Marks a store that ``ceiling store compact`` wrote: units are merged, none can be told missing or done."""

WRITE_SECONDS = 3600.0
"""Age from which another machine's temporary is taken for a leftover: a shard is written in far less."""

_PARQUET = b"PAR1"  # the last bytes of every parquet file


def config_id(config: dict[str, Any]) -> str:
    """Eight hex digits of what determines a result's content."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]


def is_whole(path: Path) -> bool:
    """Whether a shard exists and ends as a parquet file does: one cut short by others is no result."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_PARQUET), os.SEEK_END)
            return file.read() == _PARQUET
    except OSError:
        return False


def scratch(name: str) -> str:
    """A name for a temporary of this process, which `is_abandoned` understands."""
    return f"{socket.gethostname()}-{os.getpid()}-{name}"


def is_abandoned(path: Path, name: str | None = None) -> bool:
    """Whether the process that made a temporary is gone, or was on another machine and long ago.

    `name` is what `scratch` gave, where the file's own name has more to it.
    """
    name, own = name or path.name, f"{socket.gethostname()}-"
    process = name.removeprefix(own).split("-")[0]
    if name.startswith(own) and process.isdecimal():
        try:
            os.kill(int(process), 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass  # it runs, as someone else
        return False
    try:
        return time.time() - path.stat().st_mtime > WRITE_SECONDS
    except FileNotFoundError:
        return False


class Shards:
    """The shards of one dump in a store, for writing.

    Parameters
    ----------
    store : str or Path
        Folder of the store; made if missing.
    dump : str
        Dump id.

    Raises
    ------
    InputError
        When the store is a compacted one.
    """

    def __init__(self, store: str | Path, dump: str) -> None:
        self.store = Path(store)
        if any(part.endswith(":") and len(part) > 2 for part in self.store.parts):  # no drive letter
            raise InputError(f"store: {store} is a URI, to be read only; write to a folder")
        if (self.store / COMPACTED).exists():
            raise InputError(
                f"store: {store} is compacted, to be read only; name the store it was made from, or a new one"
            )
        self.dump = dump

    def open(self) -> None:
        """Make the store's folders; InputError where they cannot be written."""
        try:
            (self.store / ".tmp").mkdir(parents=True, exist_ok=True)
            probe = self._temporary("probe")
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"store: cannot write to {self.store} ({error.strerror})") from None

    def path(self, table: str, *unit: int | str, config: str | None = None) -> Path:
        """Where a unit's shard stands: ``<table>/dump=<id>[/config=<hash>]/doc-00000[.layer-00].parquet``."""
        folder = self.store / table / f"dump={self.dump}"
        if config is not None:
            folder /= f"config={config}"
        return folder / f"{unit_name(*unit)}.parquet"

    def write(self, table: str, path: Path, columns: dict[str, list[Any]]) -> None:
        """Write one shard of `table`, with the table's schema, durably and at once."""
        frame = pl.DataFrame(columns, schema=TABLES[table])
        for column in frame.select(cs.float()):
            if not column.is_finite().all():
                raise ArithmeticError(f"store: {column.name} of {path.name} is not finite; undefined is null")
        self._commit(path, sealed(frame))

    def write_config(self, config: dict[str, Any], table: str = "instances") -> None:
        """Keep what a config id stands for beside the shards that carry it."""
        path = self.store / table / f"dump={self.dump}" / f"config={config_id(config)}" / "config.json"
        if not path.exists():
            self._commit(path, f"{json.dumps(config, indent=2, sort_keys=True)}\n".encode())

    def _commit(self, path: Path, data: bytes) -> None:
        """Write `data` under a temporary name, fsync, rename: the shard is whole or absent."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write(path, data, self._temporary(path.name))
        except OSError as error:
            raise OSError(
                error.errno, f"store: cannot write {path} ({error.strerror}); finished shards are kept"
            ) from error

    def _temporary(self, name: str) -> Path:
        return self.store / ".tmp" / scratch(name)
