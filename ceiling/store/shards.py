"""Writing a store: a shard that exists is done, and it appears whole or not at all."""

import hashlib
import json
import os
import socket
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from ceiling import durable
from ceiling.problem import InputError
from ceiling.store.schema import TABLES

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


class Shards:
    """The shards of one dump in a store, for writing.

    Parameters
    ----------
    store : str or Path
        Folder of the store; made if missing.
    dump : str
        Dump id.
    """

    def __init__(self, store: str | Path, dump: str) -> None:
        self.store = Path(store)
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

    def path(self, table: str, document: int, layer: int | None = None, config: str | None = None) -> Path:
        """Where a unit's shard stands: ``<table>/dump=<id>[/config=<hash>]/doc-00000[.layer-00].parquet``."""
        folder = self.store / table / f"dump={self.dump}"
        if config is not None:
            folder /= f"config={config}"
        unit = f"doc-{document:05d}" + ("" if layer is None else f".layer-{layer:02d}")
        return folder / f"{unit}.parquet"

    def write(self, table: str, path: Path, columns: dict[str, list[Any]]) -> None:
        """Write one shard of `table`, with the table's schema, durably and at once."""
        frame = pl.DataFrame(columns, schema=TABLES[table])
        for column in frame.select(cs.float()):
            if not column.is_finite().all():
                raise ArithmeticError(f"store: {column.name} of {path.name} is not finite; undefined is null")
        data = BytesIO()
        frame.write_parquet(data, compression="zstd")
        self._commit(path, data.getvalue())

    def write_config(self, config: dict[str, Any]) -> None:
        """Keep what a config id stands for beside the shards that carry it."""
        path = self.store / "instances" / f"dump={self.dump}" / f"config={config_id(config)}" / "config.json"
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
        return self.store / ".tmp" / f"{socket.gethostname()}-{os.getpid()}-{name}"
