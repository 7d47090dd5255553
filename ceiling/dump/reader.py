"""A dump opened for reading: memory-mapped documents, checked as far as they are used."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ceiling.dump.header import STORAGE, Tensor, read_header, widen
from ceiling.dump.manifest import document_name, read_manifest, read_registered, tokens_sha256
from ceiling.durable import sha256
from ceiling.problem import InputError, Row


def open_dump(path: str | Path, verify: bool = False) -> "Dump":
    """Open a dump folder.

    Parameters
    ----------
    path : str or Path
        Folder written by ``ceiling capture``.
    verify : bool
        Also compare the SHA-256 of every file, and of the tokens, with the manifest.

    Returns
    -------
    Dump

    Raises
    ------
    InputError
        When the folder is missing, unfinished, foreign, truncated or (with `verify`) altered.
    """
    dump = Dump(Path(path))
    if verify:
        dump.verify()
    return dump


class Dump:
    """One captured model on one text.

    Attributes
    ----------
    path : Path
    manifest : dict
        As on disk.
    id : str
        12 hex digits.
    model : str
    n_documents, n_layers, heads, kv_heads, head_dim : int
    layers : tuple of int
        Captured layers, ascending; all ``n_layers`` of the model unless a subset was asked for.
    windows : tuple of int or None
        Keys a query sees at most, by layer of the model; None where it sees all before it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = read_manifest(path)
        architecture = self.manifest["architecture"]
        self.id: str = self.manifest["id"]
        self.model: str = self.manifest["model"]["id"]
        self.n_documents: int = self.manifest["tokens"]["documents"]
        self.n_layers: int = architecture["layers"]
        self.heads: int = architecture["heads"]
        self.kv_heads: int = architecture["kv_heads"]
        self.head_dim: int = architecture["head_dim"]
        self.layers: tuple[int, ...] = tuple(self.manifest["layers"])
        self.windows: tuple[int | None, ...] = tuple(architecture["windows"])
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise InputError(f"dump: {path}: {self.heads} heads do not divide into {self.kv_heads} KV heads")
        for index, entry in enumerate(self.manifest["files"]):
            _check_size(path / document_name(index), entry)

    def __repr__(self) -> str:
        return f"Dump({self.id}, {self.model}, {self.n_documents} documents, {self.n_layers} layers)"

    def document(self, index: int) -> "Document":
        """Document `index`, memory-mapped; InputError when there is none."""
        if not 0 <= index < self.n_documents:
            raise InputError(f"document: {index} is outside 0..{self.n_documents - 1} of dump {self.path}")
        return Document(self, index)

    @cached_property
    def scaling(self) -> tuple[float, ...]:
        """Factor on ``q·k``, by layer of the model; InputError where the manifest does not say."""
        found = self.manifest["architecture"].get("scaling")
        if not (isinstance(found, list) and len(found) == self.n_layers and all(map(_positive, found))):
            raise InputError(
                f"dump: {self.path}: architecture.scaling is {found!r}, expected {self.n_layers} positive "
                "numbers; without them no row can be recomputed from queries and keys"
            )
        return tuple(float(factor) for factor in found)

    @cached_property
    def soft_cap(self) -> float | None:
        """Bound ``c`` of a model whose logits are ``c·tanh(q·k·scaling / c)``; None where there is none."""
        found = self.manifest["architecture"].get("soft_cap")
        if found is not None and not _positive(found):
            raise InputError(
                f"dump: {self.path}: architecture.soft_cap is {found!r}, not a positive number or null"
            )
        return None if found is None else float(found)

    def verify(self) -> None:
        """Compare the SHA-256 of every file and of the tokens with the manifest, or raise `InputError`."""
        for index, entry in enumerate(self.manifest["files"]):
            name = self.path / document_name(index)
            if (found := sha256(name)) != entry["sha256"]:
                raise InputError(f"dump: {name} is altered: sha256 {found}, manifest says {entry['sha256']}")
        read_registered(self.path, self.manifest)
        found = tokens_sha256(self.document(i).tokens for i in range(self.n_documents))
        if found != self.manifest["tokens"]["sha256"]:
            raise InputError(f"dump: {self.path}: the tokens are not those of the manifest (sha256 {found})")


class Document:
    """One document of a dump; arrays are read from disk when touched.

    Attributes
    ----------
    index : int
    tags : dict of str to list of int
        Tagged positions (needles, retrieval rows), empty where the text has none.
    """

    def __init__(self, dump: Dump, index: int) -> None:
        self.dump = dump
        self.index = index
        self.path = dump.path / document_name(index)
        tags = dump.manifest.get("tags")
        self.tags: dict[str, list[int]] = tags[index] if tags else {}
        size = dump.manifest["files"][index]["bytes"]
        try:
            with self.path.open("rb") as file:
                self._tensors = read_header(file, self.path, size)
            self._bytes = np.memmap(self.path, dtype=np.uint8, mode="r", shape=(size,))
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"dump: cannot read {self.path} ({error})") from None
        if self.query_positions.tolist() != dump.manifest["positions"][index]:
            raise InputError(f"dump: {self.path}: query_positions are not those of the manifest")

    @cached_property
    def query_positions(self) -> np.ndarray:
        """Sampled query positions, int64 [rows], ascending."""
        rows = len(self.dump.manifest["positions"][self.index])
        positions, _ = self._array("query_positions", (rows,), ("I64",))
        n = self.dump.manifest["tokens"]["lengths"][self.index]
        if rows == 0 or positions.min() < 0 or positions.max() >= n:
            raise InputError(f"dump: {self.path}: query_positions {positions.tolist()} leave 0..{n - 1}")
        return positions

    @cached_property
    def tokens(self) -> np.ndarray:
        """Token ids, int64 [N]."""
        n = self.dump.manifest["tokens"]["lengths"][self.index]
        return self._array("tokens", (n,), ("I64",))[0]

    def masses(self, layer: int) -> np.ndarray:
        """Attention masses of the sampled rows, float32 [heads, rows, N]; 0 outside the visible keys."""
        shape = (self.dump.heads, len(self.query_positions), len(self.tokens))
        return self._array(f"masses.{layer}", shape, ("F32",))[0]

    def values(self, layer: int) -> np.ndarray:
        """Value vectors, float32 [kv_heads, N, head_dim]."""
        return self._floats(f"values.{layer}", self.dump.kv_heads)

    def keys(self, layer: int) -> np.ndarray:
        """Key vectors after rotary embedding, float32 [kv_heads, N, head_dim]."""
        return self._floats(f"keys.{layer}", self.dump.kv_heads)

    def queries(self, layer: int) -> np.ndarray:
        """Query vectors after rotary embedding, float32 [heads, N, head_dim]; only with ``--queries``."""
        return self._floats(f"queries.{layer}", self.dump.heads)

    def row(self, layer: int, head: int, r: int) -> Row:
        """The validated row of one query head at the `r`-th sampled position.

        Parameters
        ----------
        layer, head, r : int
            Layer and query head of the model, and the index into `query_positions`.

        Returns
        -------
        Row
            Masses and values at positions ``0 .. query_positions[r]``; the values are those of KV
            head ``head // (heads // kv_heads)``.

        Raises
        ------
        InputError
            When there is no such row, or its masses or values are not those of a softmax row;
            it names document, layer, head and row.
        """
        rows = len(self.query_positions)
        for field, value, stop in (("head", head, self.dump.heads), ("row", r, rows)):
            if not 0 <= value < stop:
                raise InputError(f"{field}: {value} is outside 0..{stop - 1} of dump {self.dump.path}")
        n = int(self.query_positions[r]) + 1
        kv_head = head // (self.dump.heads // self.dump.kv_heads)
        try:
            return Row(
                self.masses(layer)[head, r, :n],
                self._floats(f"values.{layer}", self.dump.kv_heads, kv_head)[:n],
            )
        except InputError as error:
            where = f"document {self.index}, layer {layer}, head {head}, row {r}"
            raise InputError(f"dump {self.dump.path}, {where}: {error}") from None

    def _floats(self, name: str, heads: int, only: int | None = None) -> np.ndarray:
        """Tensor `name` widened to float32; of one head where `only` says so."""
        bits, dtype = self._array(name, (heads, len(self.tokens), self.dump.head_dim), ("F32", "BF16", "F16"))
        return widen(bits if only is None else bits[only], dtype)

    def _array(self, name: str, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> tuple[np.ndarray, str]:
        tensor = self._tensor(name)
        if tensor.shape != shape or tensor.dtype not in dtypes:
            found = f"{tensor.dtype} {list(tensor.shape)}"
            raise InputError(
                f"dump: {self.path}: {name} is {found}, expected {' or '.join(dtypes)} {list(shape)}"
            )
        raw = self._bytes[tensor.offset : tensor.offset + tensor.nbytes]
        return np.asarray(raw).view(STORAGE[tensor.dtype]).reshape(shape), tensor.dtype

    def _tensor(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            layers = ", ".join(map(str, self.dump.layers))
            raise InputError(f"dump: {self.path} has no {name}; captured layers: {layers}") from None


def _positive(number: Any) -> bool:
    return type(number) in (int, float) and 0 < number < math.inf


def _check_size(path: Path, entry: dict[str, Any]) -> None:
    try:
        size = path.stat().st_size
    except OSError:
        raise InputError(f"dump: {path} is missing") from None
    if entry.get("name") != path.name or not isinstance(entry.get("bytes"), int) or "sha256" not in entry:
        raise InputError(f"dump: the manifest beside {path} describes {entry!r} in its place")
    if size != entry["bytes"]:
        raise InputError(
            f"dump: {path} has {size} bytes, the manifest says {entry['bytes']}; it is truncated or foreign"
        )
