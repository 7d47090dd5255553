"""Files and folders that appear whole or not at all, and their digests."""

import hashlib
import os
from pathlib import Path


def write(path: Path, content: bytes, temporary: Path | None = None) -> None:
    """Write a file under a temporary name, push it to the disk and rename it into place.

    Parameters
    ----------
    path : Path
        In an existing folder.
    content : bytes
    temporary : Path, optional
        On the same file system; by default a hidden name beside `path`.

    Raises
    ------
    OSError
        Of the system, such as a full disk; neither file is then there.
    """
    temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Push a folder's entries to the disk, so that a rename in it survives a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
