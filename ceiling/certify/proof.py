"""A stored proof: a header, a digest of all that it is about, and the compressed events of a refutation.

The events are `ceiling.kernels.replay`'s. Where they are too long to store, their skeleton is: what was
branched on and how nodes ended, without directions; and what the search has to be told to find these again,
its recipe. Whoever checks it has that done, and compares.
"""

import bz2
import math
import struct
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from ceiling.kernels.replay import MOST_KEPT, bones

MAX_BYTES = 1_000_000
"""Longest proof that is stored."""

MAX_WORDS = 1 << 26
"""Longest stream that is unpacked, 128 MB; a proof of `MAX_BYTES` could name a thousand times its size."""

MAX_DIMENSION = (1 << 15) - 1
"""So that the components of a direction sum to less than 2^30 (`ceiling.kernels.whole`)."""

MAGIC = b"ceiling\x02"
HEADER = struct.Struct("<8sHHIddBI")
DIGEST = 32
OVERHEAD = HEADER.size + DIGEST
CHUNK = 1 << 20
"""Bytes compressed at a time, so that what becomes too long is given up early."""


class ProofError(ValueError):
    """Bytes that are no proof, or events that are none: says what is wrong."""


@dataclass(frozen=True, eq=False, slots=True)
class Proof:
    """What is stored.

    Attributes
    ----------
    s, d, n : int
        Budget, dimension of the values, keys of positive mass.
    tau : float
        No admissible set has a smaller error.
    rho : float
        Mass floor; 0 is none.
    complete : bool
        Whether `stream` is all events, or their skeleton.
    stream : ndarray of int16
    recipe : bytes
        For the search, where `stream` is a skeleton.
    digest : bytes
        As stored; `digest_of` gives what it should be.
    """

    s: int
    d: int
    n: int
    tau: float
    rho: float
    complete: bool
    stream: np.ndarray
    recipe: bytes = b""
    digest: bytes = b""

    @property
    def header(self) -> bytes:
        """The first bytes."""
        fields = self.s, self.d, self.n, self.tau, self.rho, self.complete, len(self.recipe)
        return HEADER.pack(MAGIC, *fields)

    def digest_of(self, kept: np.ndarray, upper: float) -> bytes:
        """SHA-256 of header, recipe, kept set, its error and the events."""
        parts = self.header, self.recipe, np.asarray(kept, "<i8").tobytes(), struct.pack("<d", upper)
        return sha256(b"".join(parts) + self.stream.astype("<i2").tobytes()).digest()


def encode(
    stream: np.ndarray,
    s: int,
    d: int,
    n: int,
    tau: float,
    rho: float,
    kept: np.ndarray,
    upper: float,
    recipe: bytes = b"",
    complete: bool = True,
) -> bytes | None:
    """Pack a proof for storage.

    Parameters
    ----------
    stream : ndarray of int16
        Events of the refutation.
    s, d, n : int
        Budget, dimension of the values, keys of positive mass.
    tau : float
        The bound that is proved, in the units of the values.
    rho : float
        Mass floor; 0 is none.
    kept : ndarray of int64, shape (s,)
        Best set known, ascending positions of the row.
    upper : float
        Its error.
    recipe : bytes
        What the search needs to write the events again; stored with a skeleton only.
    complete : bool
        Whether `stream` is all events, or their skeleton already.

    Returns
    -------
    bytes or None
        The events, or their skeleton where they need more than `MAX_BYTES`; None where that does, too.

    Raises
    ------
    ProofError
        Where `stream` is no sequence of events, or `s` or `d` is more than a proof can be of.
    """
    if not (1 <= s <= MOST_KEPT and 1 <= d <= MAX_DIMENSION):
        raise ProofError(f"no proof of {s} keys in {d} dimensions: {MOST_KEPT} and {MAX_DIMENSION} at most")
    proof = Proof(s, d, n, tau, rho, complete, stream, b"" if complete else recipe)
    if (stored := _stored(proof, kept, upper)) is None and complete:
        proof = replace(proof, complete=False, stream=skeleton(stream, d), recipe=recipe)
        stored = _stored(proof, kept, upper)
    return stored


def decode(stored: bytes) -> Proof:
    """Unpack a stored proof; its digest is not compared yet.

    Raises
    ------
    ProofError
        Saying what is wrong with the bytes.
    """
    if len(stored) < OVERHEAD or not stored.startswith(MAGIC):
        raise ProofError(f"not a proof of this version: it begins with {stored[:8]!r}")
    _, s, d, n, tau, rho, complete, length = HEADER.unpack_from(stored)
    if not (1 <= s <= MOST_KEPT and 1 <= d <= MAX_DIMENSION and complete in (0, 1)):
        raise ProofError(f"no proof has s {s}, d {d}, flag {complete}")
    if not (0 <= tau < math.inf and 0 <= rho <= 1):
        raise ProofError(f"no proof is of the bound {tau!r} under the mass floor {rho!r}")
    digest, recipe = stored[HEADER.size : OVERHEAD], stored[OVERHEAD : OVERHEAD + length]
    packed = bz2.BZ2Decompressor()
    try:
        raw = packed.decompress(stored[OVERHEAD + length :], 2 * MAX_WORDS)
    except OSError as error:
        raise ProofError(f"its events cannot be unpacked ({error})") from None
    if not packed.eof or packed.unused_data or len(raw) % 2:
        raise ProofError("its events break off, or are followed by something else")
    stream = np.frombuffer(raw, "<i2").astype(np.int16)
    return Proof(s, d, n, tau, rho, bool(complete), stream, recipe, digest)


def skeleton(stream: np.ndarray, d: int) -> np.ndarray:
    """The events of a refutation in `d` dimensions without FIX, and SHUT without its direction.

    Raises
    ------
    ProofError
        Where `stream` is no sequence of events.
    """
    out = np.empty(len(stream), dtype=np.int16)
    words = bones(stream, d, out)
    if words < 0:
        raise ProofError("its events break off, or have a code that is none")
    return out[:words].copy()


def _stored(proof: Proof, kept: np.ndarray, upper: float) -> bytes | None:
    """The bytes of a proof; None where they are too many.

    Sorting blocks, as bz2 does, packs what was branched on into 0.7 of what deflate needs.
    """
    raw, packer = memoryview(proof.stream.astype("<i2").tobytes()), bz2.BZ2Compressor()
    stored = bytearray(proof.header + proof.digest_of(kept, upper) + proof.recipe)
    for start in range(0, len(raw), CHUNK):
        stored += packer.compress(raw[start : start + CHUNK])
        if len(stored) > MAX_BYTES:
            return None
    stored += packer.flush()
    return bytes(stored) if len(stored) <= MAX_BYTES else None
