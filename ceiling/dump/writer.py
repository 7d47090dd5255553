"""A dump being written: tensors stream into a temporary folder that becomes the dump in one rename."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ceiling import durable
from ceiling.dump.header import STORAGE, Tensor, lay_out
from ceiling.dump.manifest import (
    MANIFEST,
    PARTIAL,
    REGISTERED,
    SCHEMA,
    Identity,
    document_name,
    read_manifest,
    software,
)
from ceiling.durable import sha256
from ceiling.problem import InputError

Layout = Mapping[str, tuple[str, tuple[int, ...]]]
"""Tensor name -> (safetensors dtype, shape)."""


class DumpWriter:
    """Writes one dump; use it as a context manager and end with `commit`.

    The temporary folder lies beside the target and is named after everything that determines the
    content, so a killed run finds its finished documents again.

    Parameters
    ----------
    target : Path
        Folder to appear; parents are made where they are missing.
    identity : Identity
    layers : tuple of int
        Captured layers.
    queries : bool
        Whether query tensors are written too.
    device : str
        Where the model runs; documents of another device are not resumed from.

    Attributes
    ----------
    records : dict of int to dict
        Name, bytes, sha256 and note of each finished document, by its index.

    Raises
    ------
    InputError
        When the target exists, or another process is writing the same dump.
    OSError
        When the disk is full or not writable; finished documents are kept, and a rerun continues.
    """

    def __init__(
        self, target: Path, identity: Identity, *, layers: tuple[int, ...], queries: bool, device: str
    ) -> None:
        self.target = target
        self.identity = identity
        self.layers = layers
        self.queries = queries
        variant = json.dumps([list(layers), queries, device])
        key = hashlib.sha256(variant.encode()).hexdigest()[:8]
        self.folder = target.parent / f".{target.name}.{identity.id}-{key}{PARTIAL}"
        self._lock: int | None = None
        self._registered: str | None = None
        self.records: dict[int, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        if self.target.exists():
            raise InputError(f"out: {self.target} exists already; name a new folder")
        with _named(self.target):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.folder, os.O_RDONLY)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._unlock()
                raise InputError(f"out: another process is writing {self.target}; wait for it") from None
            for stray in self.folder.glob("*.part"):
                stray.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unlock()

    def done(self, index: int) -> dict[str, Any] | None:
        """The record of document `index` when an earlier run finished it and its bytes are intact."""
        path = self.folder / document_name(index)
        try:
            record = json.loads(_sidecar(path).read_text(encoding="utf-8"))
            intact = path.stat().st_size == record["bytes"] and sha256(path) == record["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not intact:
            return None
        self.records[index] = record
        return record

    def register(self, bounds: Mapping[str, float]) -> None:
        """Write down, before the first document, the bounds that the dump's results will be held against.

        Parameters
        ----------
        bounds : mapping
            Name -> number. A resumed run keeps what the first one wrote.

        Raises
        ------
        InputError
            When the first run wrote others, or documents without any.
        """
        path, content = self.folder / REGISTERED, _json(bounds)
        redo = f"remove {self.folder} and capture anew"
        if path.exists():
            if path.read_bytes() != content:
                raise InputError(f"registered: {self.target} was begun under other bounds ({path}); {redo}")
        elif next(self.folder.glob("*.safetensors"), None) is not None:
            raise InputError(f"registered: {self.target} was begun without bounds; {redo}")
        else:
            with _named(path):
                durable.write(path, content)
        self._registered = hashlib.sha256(content).hexdigest()

    @contextlib.contextmanager
    def document(self, index: int, layout: Layout) -> Iterator["DocumentFile"]:
        """Open document `index` for writing; it counts once the block ends without an exception."""
        path = self.folder / document_name(index)
        part = path.with_suffix(".part")
        try:
            with DocumentFile(part, layout) as file:
                yield file
                file.finish()
            with _named(path):
                record = {
                    "name": path.name,
                    "bytes": file.size,
                    "sha256": sha256(part),
                    "note": file.note,
                }
                os.replace(part, path)
                _write_json(_sidecar(path), record)
            self.records[index] = record
        finally:
            part.unlink(missing_ok=True)

    def commit(self, manifest: Mapping[str, Any], documents: int) -> None:
        """Complete the manifest, write it last and rename the folder into place.

        Parameters
        ----------
        manifest : mapping
            Everything but what follows from what was written (``id``, ``positions``, ``dtype``, ``backend``,
            ``layers``, ``queries``, ``registered``, ``files``) and from here and now (``schema``,
            ``created``, ``software``).
        documents : int
            How many documents the dump has; each must have been written, or found by `done`.
        """
        records = [self.records[index] for index in range(documents)]
        files = [{field: record[field] for field in ("name", "bytes", "sha256")} for record in records]
        full = {
            "schema": SCHEMA,
            "id": self.identity.id,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **manifest,
            "software": software(),
            "backend": self.identity.backend,
            "dtype": self.identity.dtype,
            "positions": [list(p) for p in self.identity.positions],
            "layers": list(self.layers),
            "queries": self.queries,
            **({} if self._registered is None else {"registered": {"sha256": self._registered}}),
            "files": files,
        }
        with _named(self.target):
            _write_json(self.folder / MANIFEST, full)
            os.rename(self.folder, self.target)
            durable.sync_folder(self.target.parent)
            for index in range(documents):
                _sidecar(self.target / document_name(index)).unlink()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # closing releases the lock
            self._lock = None


class DocumentFile:
    """One document's tensors, written in any order into their places.

    Attributes
    ----------
    note : dict
        Anything JSON that should come back with the record, e.g. the fidelity of each layer.
    size : int
        Bytes of the finished file.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        head, self._placed, self.size = lay_out(layout)
        self._missing = set(self._placed)
        self.note: dict[str, Any] = {}
        self._path = path
        with _named(path):
            self._file = path.open("wb")
            self._file.write(head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _named(self._path):
            self._file.close()  # flushes what is buffered

    def write(self, name: str, array: np.ndarray) -> None:
        """Write tensor `name`; its bytes must have the declared dtype (BF16 as uint16) and shape."""
        tensor: Tensor = self._placed[name]
        if array.shape != tensor.shape or array.dtype != STORAGE[tensor.dtype]:
            found = f"{array.dtype} {list(array.shape)}"
            raise ValueError(f"{name}: {found} does not fit the declared {tensor.dtype} {list(tensor.shape)}")
        with _named(self._path):
            self._file.seek(tensor.offset)
            self._file.write(np.ascontiguousarray(array).data)
        self._missing.discard(name)

    def finish(self) -> None:
        """Check that every tensor came, and push the bytes to the disk."""
        if self._missing:
            raise ValueError(f"tensors {', '.join(sorted(self._missing))} were declared but not written")
        with _named(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())


def same_dump(target: Path, identity: Identity, *, layers: tuple[int, ...], queries: bool) -> bool:
    """Whether `target` already is this very dump; InputError when something else is there."""
    if not target.exists():
        return False
    try:
        manifest = read_manifest(target)
    except InputError:
        raise InputError(f"out: {target} exists and is no complete dump; name a new folder") from None
    if manifest["id"] != identity.id:
        raise InputError(f"out: {target} holds another dump ({manifest['id']}); name a new folder")
    if manifest["layers"] != list(layers) or manifest.get("queries") != queries:
        raise InputError(f"out: {target} holds other layers or queries of this dump; name a new folder")
    return True


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an OSError say what could not be written, and that a rerun continues."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno, f"out: cannot write {path}: {reason}; finished documents are kept"
        ) from error


def _sidecar(path: Path) -> Path:
    """The record beside a finished document of an unfinished dump; its presence is the completion mark."""
    return path.with_suffix(".json")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    durable.write(path, _json(content))


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(dict(content), indent=1, allow_nan=False) + "\n").encode()
