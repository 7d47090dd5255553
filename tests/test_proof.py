"""Stored proofs: what is packed comes out again, and what is no proof is refused with a reason."""

import bz2
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.certify import proof
from ceiling.certify.proof import OVERHEAD, ProofError, decode, encode, skeleton
from ceiling.kernels.replay import MOST_KEPT

KEPT = np.array([1, 4, 7])
D = 2
WHOLE = np.array([3, 5, 1, 1, -7, 9, 4, -2, 2, 32767, -32767, 0, 0, 4, 5], dtype=np.int16)
"""BRANCH, FIX, SHUT, LAST, NONE."""

BONES = [3, 5, 1, 2, 4, 5]


def stored(stream=WHOLE, **options) -> bytes:
    found = encode(stream, 3, D, 9, 0.25, 0.5, KEPT, 0.5, **options)
    assert found is not None
    return found


def test_what_is_packed_comes_out_again():
    found = decode(stored(recipe=b"not needed"))
    assert (found.s, found.d, found.n, found.tau, found.rho, found.complete) == (3, D, 9, 0.25, 0.5, True)
    assert found.stream.dtype == np.int16
    assert found.stream.tolist() == WHOLE.tolist()
    assert found.recipe == b""
    assert found.digest == found.digest_of(KEPT, 0.5)


def test_a_skeleton_has_no_directions():
    assert skeleton(WHOLE, D).tolist() == BONES
    assert skeleton(WHOLE[:0], D).tolist() == []


@pytest.mark.parametrize("words", [[6], [0], [-1], [3, 1], [1, 1, 2, 3], [4, 2, 1]])
def test_what_is_no_event_is_refused(words):
    with pytest.raises(ProofError, match="break off, or have a code"):
        skeleton(np.array(words, dtype=np.int16), D)


def test_a_long_proof_is_stored_as_its_skeleton_a_longer_one_not_at_all(monkeypatch):
    rng = np.random.default_rng(0)
    events = np.full((1000, D + 3), 1, dtype=np.int16)
    events[:, 1 : 1 + D] = rng.integers(-32767, 32768, (1000, D))
    events[::2, 0] = 2
    monkeypatch.setattr(proof, "MAX_BYTES", len(stored(events.ravel())))
    assert decode(stored(events.ravel())).complete
    monkeypatch.setattr(proof, "MAX_BYTES", proof.MAX_BYTES - 1)
    found = decode(stored(events.ravel(), recipe=b"again"))
    assert not found.complete
    assert found.stream.tolist() == [2] * 500
    assert found.recipe == b"again"
    assert found.digest == found.digest_of(KEPT, 0.5)
    assert len(stored(found.stream, recipe=b"again", complete=False)) < 200
    assert stored(found.stream, recipe=b"again", complete=False) == stored(events.ravel(), recipe=b"again")
    assert encode(events.ravel(), 3, D, 9, 0.25, 0.5, KEPT, 0.5, recipe=bytes(proof.MAX_BYTES)) is None
    monkeypatch.setattr(proof, "MAX_BYTES", OVERHEAD + 5)
    assert encode(events.ravel(), 3, D, 9, 0.25, 0.5, KEPT, 0.5) is None


def test_the_digest_covers_everything():
    honest = decode(stored(recipe=b"x"))
    changes = [
        {"s": 4}, {"d": 3}, {"n": 8}, {"tau": np.nextafter(0.25, 1)}, {"rho": 0.4}, {"complete": False},
        {"recipe": b"y"}, {"stream": WHOLE[::-1]},
    ]  # fmt: skip
    digests = [replace(honest, **change).digest_of(KEPT, 0.5) for change in changes]
    digests += [honest.digest_of(KEPT + 1, 0.5), honest.digest_of(KEPT, np.nextafter(0.5, 1)), honest.digest]
    assert len(set(digests)) == len(changes) + 3


def test_budgets_and_dimensions_have_limits():
    for s, d in ((0, 2), (1025, 2), (3, 0), (3, 1 << 15)):
        with pytest.raises(ProofError, match="1024 and 32767 at most"):
            encode(WHOLE, s, d, 9, 0.25, 0.0, KEPT, 0.5)


def change(at: int, to: bytes) -> bytes:
    whole = stored()
    return whole[:at] + to + whole[at + len(to) :]


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (b"", "not a proof of this version"),
        (b"0x1.0p+0", "not a proof of this version"),
        (stored()[: OVERHEAD - 1], "not a proof of this version"),
        (change(7, b"\x01"), "not a proof of this version"),
        (change(8, b"\x00\x00"), "no proof has s 0"),
        (change(10, b"\xff\xff"), "no proof has s 3, d 65535"),
        (change(32, b"\x02"), "flag 2"),
        (change(16, np.array(np.nan).tobytes()), "of the bound nan"),
        (change(16, np.array(-1.0).tobytes()), "of the bound -1.0"),
        (change(24, np.array(1.5).tobytes()), "under the mass floor 1.5"),
        (stored()[:-1], "break off"),
        (stored() + b"x", "followed by something else"),
        (change(OVERHEAD, b"xxxx"), "cannot be unpacked"),
        (stored()[:OVERHEAD] + bz2.compress(b"xxx"), "break off"),
        (stored()[:OVERHEAD], "break off"),
    ],
)
def test_bytes_that_are_no_proof_are_refused(stored, said):
    with pytest.raises(ProofError, match=said):
        decode(stored)


def test_an_endless_proof_is_not_unpacked(monkeypatch):
    long = stored(np.full(1 << 20, 5, dtype=np.int16))
    assert len(long) < 5000
    assert len(decode(long).stream) == 1 << 20
    monkeypatch.setattr(proof, "MAX_WORDS", (1 << 20) - 1)
    with pytest.raises(ProofError, match="break off"):
        decode(long)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_a_proof_or_refused(noise, at):
    whole = stored()
    for tried in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(ProofError):
            assert 1 <= decode(tried).s <= MOST_KEPT
