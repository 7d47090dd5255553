"""The manifest of a dump: what was captured from what, and the identity that follows from it."""

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ceiling.problem import InputError

SCHEMA = 1
"""Version of the dump format that this package reads and writes."""

MANIFEST = "manifest.json"
REGISTERED = "registered.json"
"""Bounds that were written down before the first row was captured; only beside dumps of tasks."""

PARTIAL = ".partial"
"""Suffix of a folder that is still being written; never opened as a dump."""

_FIELDS: dict[str, dict[str, type]] = {
    "model": {"id": str, "weights_sha256": str, "config_sha256": str},
    "architecture": {"layers": int, "heads": int, "kv_heads": int, "head_dim": int, "windows": list},
    "tokens": {"documents": int, "lengths": list, "sha256": str},
    "text": {"source": str, "sha256": str},
}
"""Required sections and the type of the fields the reader relies on."""

_TOP: dict[str, type] = {
    "id": str,
    "backend": str,
    "dtype": str,
    "positions": list,
    "layers": list,
    "files": list,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What determines the content of a dump; its hash is the dump's id.

    Attributes
    ----------
    weights_sha256, config_sha256, tokens_sha256 : str
        Hex digests of the model's weight files, of its configuration (the same weights attend
        differently under another rotary base or window), and of the token ids (`tokens_sha256`).
    positions : tuple of tuple of int
        Sampled query positions of each document.
    dtype, backend : str
        Numeric type the model ran in and attention implementation, e.g. ``float32``, ``sdpa``.
    """

    weights_sha256: str
    config_sha256: str
    tokens_sha256: str
    positions: tuple[tuple[int, ...], ...]
    dtype: str
    backend: str

    @property
    def id(self) -> str:
        """12 hex digits of the SHA-256 of the canonical JSON of all fields and the schema."""
        canonical = json.dumps(asdict(self) | {"schema": SCHEMA}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def tokens_sha256(documents: Iterable[np.ndarray]) -> str:
    """SHA-256 over each document's length and token ids, as little-endian int64."""
    digest = hashlib.sha256()
    for tokens in documents:
        digest.update(np.int64(len(tokens)).astype("<i8").tobytes())
        digest.update(np.ascontiguousarray(tokens, dtype="<i8").tobytes())
    return digest.hexdigest()


def document_name(index: int) -> str:
    """File name of document `index`."""
    return f"doc-{index:05d}.safetensors"


def identity_of(manifest: dict[str, Any]) -> Identity:
    """The identity that a manifest's own fields amount to."""
    return Identity(
        weights_sha256=manifest["model"]["weights_sha256"],
        config_sha256=manifest["model"]["config_sha256"],
        tokens_sha256=manifest["tokens"]["sha256"],
        positions=tuple(tuple(p) for p in manifest["positions"]),
        dtype=manifest["dtype"],
        backend=manifest["backend"],
    )


def software() -> dict[str, str]:
    """Versions of what writes a dump, without importing any of it."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("ceiling", "numpy", "torch", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check ``folder/manifest.json``.

    Raises
    ------
    InputError
        When the folder is missing or unfinished, the manifest is absent, unreadable, of another
        schema, incomplete or inconsistent.
    """
    if not folder.is_dir():
        raise InputError(f"dump: {folder} is not a folder; give a folder written by `ceiling capture`")
    if folder.resolve().name.endswith(PARTIAL):
        raise InputError(f"dump: {folder} is unfinished; run its `ceiling capture` again to complete it")
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"dump: {folder} has no {MANIFEST}; it is not a complete dump") from None
    except (OSError, ValueError) as error:
        raise InputError(f"dump: cannot read {path} ({error})") from None
    _check(manifest, path)
    return manifest


def read_registered(folder: Path, manifest: dict[str, Any]) -> dict[str, float] | None:
    """The bounds registered before a capture; None where there are none.

    Parameters
    ----------
    folder : Path
        Of the dump.
    manifest : dict
        Its manifest.

    Raises
    ------
    InputError
        When the file is missing, or is not the one the manifest has the SHA-256 of.
    """
    if "registered" not in manifest:
        return None
    path = folder / REGISTERED
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"dump: cannot read {path} ({error.strerror})") from None
    if (found := hashlib.sha256(content).hexdigest()) != manifest["registered"]["sha256"]:
        raise InputError(
            f"dump: {path} is altered: sha256 {found}, not the manifest's; bounds stay as written"
        )
    bounds: dict[str, float] = json.loads(content)
    return bounds


def _check(manifest: Any, path: Path) -> None:
    if not isinstance(manifest, dict) or "schema" not in manifest:
        raise InputError(f"dump: {path} names no schema; it is not the manifest of a dump")
    if manifest["schema"] != SCHEMA:
        raise InputError(f"dump: {path} has schema {manifest['schema']!r}; this version reads {SCHEMA}")
    for field, kind in _TOP.items():
        _check_field(manifest, field, kind, path)
    for section, fields in _FIELDS.items():
        _check_field(manifest, section, dict, path)
        for field, kinds in fields.items():
            _check_field(manifest[section], field, kinds, path, f"{section}.")
    n_documents, n_layers = manifest["tokens"]["documents"], manifest["architecture"]["layers"]
    counts = (
        (n_documents, "files", manifest["files"]),
        (n_documents, "positions", manifest["positions"]),
        (n_documents, "tokens.lengths", manifest["tokens"]["lengths"]),
        (n_layers, "architecture.windows", manifest["architecture"]["windows"]),
    )
    for count, field, entries in counts:
        if len(entries) != count:
            raise InputError(f"dump: {path}: {field} has {len(entries)} entries, expected {count}")
    for field, entries, low, high in (
        ("layers", manifest["layers"], 0, n_layers),
        ("tokens.lengths", manifest["tokens"]["lengths"], 1, None),
        *((f"positions[{i}]", p, 0, None) for i, p in enumerate(manifest["positions"])),
    ):
        if not _whole(entries, low, high):
            raise InputError(f"dump: {path}: {field} is {entries!r}, not a list of whole numbers in range")
        if field != "tokens.lengths" and any(one >= next_ for one, next_ in pairwise(entries)):
            raise InputError(f"dump: {path}: {field} is {entries!r}; they must ascend, each once")
    _check_tags(manifest, path)
    if (computed := identity_of(manifest).id) != manifest["id"]:
        raise InputError(f"dump: {path}: id {manifest['id']!r} does not follow from its fields ({computed})")


def _check_tags(manifest: dict[str, Any], path: Path) -> None:
    """What only dumps of tasks have: tagged positions and registered bounds."""
    if "registered" in manifest:
        _check_field(manifest, "registered", dict, path)
        _check_field(manifest["registered"], "sha256", str, path, "registered.")
    if manifest.get("tags") is None:
        return
    _check_field(manifest, "tags", list, path)
    lengths = manifest["tokens"]["lengths"]
    if len(manifest["tags"]) != len(lengths):
        raise InputError(f"dump: {path}: tags has {len(manifest['tags'])} entries, expected {len(lengths)}")
    for i, (tags, n) in enumerate(zip(manifest["tags"], lengths, strict=True)):
        named = isinstance(tags, dict) and all(
            positions == [] or _whole(positions, 0, n) for positions in tags.values()
        )
        if not named:
            raise InputError(f"dump: {path}: tags[{i}] is no table of names and positions in 0..{n - 1}")


def _whole(entries: Any, low: int, high: int | None) -> bool:
    """Whether `entries` is a non-empty list of ints in low..high-1."""
    if not isinstance(entries, list) or not entries:
        return False
    return all(type(n) is int and n >= low and (high is None or n < high) for n in entries)


def _check_field(
    table: dict, field: str, kind: type | tuple[type, ...], path: Path, prefix: str = ""
) -> None:
    if field not in table:
        raise InputError(f"dump: {path}: field {prefix}{field} is missing")
    if not isinstance(table[field], kind):
        raise InputError(f"dump: {path}: field {prefix}{field} is {table[field]!r}, of the wrong type")
