"""The safetensors header: where each tensor of a file lies, read and written without torch.

Format: 8 bytes little-endian header length, that many bytes of JSON, then the payload without
holes (https://github.com/huggingface/safetensors, "Format").  numpy has no bfloat16, so this
module keeps BF16 as its uint16 bits and `widen` makes float32 of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ceiling.problem import InputError

STORAGE: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}
"""safetensors dtype -> the numpy dtype that holds its bits; widest first keeps every tensor aligned."""

MAX_HEADER = 100_000_000
"""Bytes; the limit of the safetensors format itself, so a foreign file cannot ask for all memory."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file: its safetensors dtype, shape and byte offset from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of payload."""
        return prod(self.shape) * STORAGE[self.dtype].itemsize


def lay_out(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, dict[str, Tensor], int]:
    """Place named tensors in one file, widest dtype first.

    Parameters
    ----------
    tensors : mapping of str to (dtype, shape)
        safetensors dtype names, see `STORAGE`.

    Returns
    -------
    head : bytes
        Length prefix and JSON header, padded to 8 bytes.
    placed : dict of str to Tensor
    size : int
        Bytes of the whole file.
    """
    order = list(STORAGE)
    names = sorted(tensors, key=lambda name: order.index(tensors[name][0]))
    entries, relative, at = {}, {}, 0
    for name in names:
        dtype, shape = tensors[name]
        relative[name] = at
        end = at + Tensor(dtype, shape).nbytes
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    placed = {name: Tensor(*tensors[name], offset=len(head) + relative[name]) for name in names}
    return head, placed, len(head) + at


def read_header(file: BinaryIO, path: Path, size: int) -> dict[str, Tensor]:
    """Read and check the header of an open safetensors file of `size` bytes.

    Raises
    ------
    InputError
        When it is no safetensors file, or a tensor reaches outside the file.
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MAX_HEADER, size - 8):
        raise InputError(f"{path}: not a safetensors file (header length {length} in {size} bytes)")
    try:
        entries = json.loads(file.read(length))
        tensors = {name: _tensor(entry, 8 + length) for name, entry in entries.items() if name[:2] != "__"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: unreadable safetensors header ({error!r})") from None
    for name, tensor in tensors.items():
        if tensor.offset + tensor.nbytes > size:
            raise InputError(f"{path}: tensor {name} ends after the file's {size} bytes; truncated?")
    return tensors


def widen(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return stored floats as float32: exact for BF16 and F16, no copy for F32."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.float32, copy=False)


def _tensor(entry: dict, payload: int) -> Tensor:
    dtype, shape = entry["dtype"], tuple(int(n) for n in entry["shape"])
    start, stop = entry["data_offsets"]
    if dtype not in STORAGE:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(STORAGE)}")
    tensor = Tensor(dtype, shape, payload + start)
    if min(shape, default=0) < 0 or start < 0 or stop - start != tensor.nbytes:
        raise ValueError(f"shape {list(shape)} does not fill offsets {start}..{stop}")
    return tensor
