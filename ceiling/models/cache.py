"""The user's cache: downloads, conversions and digests that need making only once."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from ceiling import durable

CACHE_VARIABLE = "CEILING_CACHE"
"""Environment variable that moves the cache to another folder."""


def cache_folder() -> Path:
    """The cache folder: ``$CEILING_CACHE``, or the platform's user cache."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_cache_dir("ceiling"))


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes `target` when the block ends well, and vanishes otherwise.

    Where another process was faster, its folder stays: both hold the same content.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield folder
        for path in folder.rglob("*"):
            if path.is_file():
                _sync(path)
        try:
            folder.rename(target)
        except OSError:
            if not target.exists():  # else another process was first
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remembered_sha256(path: Path) -> str:
    """SHA-256 of a file, looked up where path, size and modification time are those of the last look."""
    path = path.resolve()
    stat = path.stat()
    key = hashlib.sha256(f"{path}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()
    memory = cache_folder() / "sha256" / key
    with contextlib.suppress(OSError):
        remembered = memory.read_text(encoding="ascii")
        if len(remembered) == hashlib.sha256().digest_size * 2:
            return remembered
    found = durable.sha256(path)
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
        memory.parent.mkdir(parents=True, exist_ok=True)
        durable.write(memory, found.encode())
    return found


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
