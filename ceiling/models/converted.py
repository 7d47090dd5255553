"""Converted models in the cache: where each lies, and the record that says where it came from."""

import json
from pathlib import Path

from ceiling.models.cache import cache_folder

RECORD = "ceiling.json"
"""File in a converted folder that says where the model came from."""

_DIGITS = 12  # of the GGUF's digest in the folder's name: another file is another folder


def folder_of(name: str, digest: str) -> Path:
    """Where the model converted from the file of that SHA-256 lies, whether or not it is there yet."""
    return cache_folder() / "models" / f"{name}-{digest[:_DIGITS]}"


def record(folder: Path, name: str, licence: str | None, source: str, digest: str) -> None:
    """Write the record of a converted model into its folder."""
    entries = {"name": name, "licence": licence, "source": source, "source_sha256": digest}
    (folder / RECORD).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def recorded_licence(folder: Path) -> str | None:
    """The licence in the record of a converted model."""
    licence: str | None = json.loads((folder / RECORD).read_text(encoding="utf-8"))["licence"]
    return licence
