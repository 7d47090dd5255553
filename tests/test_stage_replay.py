"""Replay of stored certificates: what is accepted, and every kind of tampering that is not."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import certify as stage
from ceiling.stages import replay
from ceiling.store import Shards
from tests.toy_certify import toy_certify, toy_check
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture
def store(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the toy solver, whose proofs the toy checker reads."""
    monkeypatch.setattr(stage, "certify", toy_certify)
    monkeypatch.setitem(sys.modules, "ceiling.certify.check", SimpleNamespace(check_proof=toy_check))
    list(stage.run(stage.plan(dump, tmp_path / "store", (2, 20), limits=stage.Limits(floors=(0.0, 0.5)))))
    return tmp_path / "store"


def wrong(dump: Path, store: Path) -> list[str]:
    """What is wrong with the certificates of a store."""
    return [done.wrong for done in replay.replay(replay.choose(dump, store, sample=None)) if done.wrong]


def tamper(dump: Path, store: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the first certificate that carries a proof, and seal its shard anew."""
    shards = Shards(store, open_dump(dump).id)
    path = min(store.glob("certificates/**/*.parquet"))
    records = pl.read_parquet(path).to_dicts()
    at = next(k for k, record in enumerate(records) if record["proof"] is not None)
    records[at] |= change(records[at])
    shards.write("certificates", path, {name: [record[name] for record in records] for name in records[0]})


def test_honest_proofs_are_accepted(dump: Path, store: Path):
    chosen = replay.choose(dump, store, sample=None)
    done = list(replay.replay(chosen))
    assert [each for each in done if each.wrong] == []
    assert len(done) == len({each.where for each in done}) == chosen.proved == len(chosen.wanted)
    assert 2 * LAYERS * HEADS * ROWS * 2 < chosen.proved < 2 * LAYERS * HEADS * ROWS * 4  # some are trivial
    assert done[0].where.startswith("document 0, layer 0, head 0, position ")
    assert done[0].where.endswith(", s 2, mass floor 0")


def test_a_sample_is_drawn_by_its_seed(dump: Path, store: Path):
    first, same, other = (replay.choose(dump, store, sample=9, seed=seed).wanted for seed in (0, 0, 1))
    assert len(first) == 9
    assert first.equals(same)
    assert not first.equals(other)
    assert len(replay.choose(dump, store, sample=10**6).wanted) == replay.choose(dump, store).proved


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: {"es_lower": r["es_lower"] * 1.001}, "the proof is of another bound"),
        (lambda r: {"proof": b"0x1.0p+0"}, "the proof is of another bound"),
        (lambda r: {"es_upper": r["es_upper"] * 0.999}, "the kept set has error"),
        (lambda r: {"kept": [0, 1]}, "the kept set has error"),
        (lambda r: {"kept": r["kept"][::-1]}, "kept: not ascending"),
        (lambda r: {"kept": [-1, 0]}, "kept: not ascending positions"),
        (lambda r: {"kept": [0, 48]}, "kept: not ascending positions"),
        (lambda r: {"kept": []}, "kept: not ascending positions"),
        (lambda r: {"status": "optimal"}, "called optimal, with bounds"),
        (lambda r: {"status": "optimal", "proof": None, "proof_bytes": None}, "optimal, without a proof"),
        (lambda r: {"closable_upper": r["closable_upper"] - 0.01}, "closable_upper: "),
        (lambda r: {"closable_lower": 0.01}, "closable_lower: "),
        (lambda r: {"e_top": r["e_top"] * (1 + 1e-6)}, "e_top: "),
        (lambda r: {"kept_mass": 0.99}, "kept_mass: 0.99, its bounds and its row give "),
        (lambda r: {"position": 0}, "the dump has no row at position 0"),
        (lambda r: {"head": 9}, "head: 9 is outside"),
    ],
)
def test_what_was_tampered_with_is_rejected(dump: Path, store: Path, change: Callable, said: str):
    tamper(dump, store, change)
    (found,) = wrong(dump, store)
    assert said in found


def test_bounds_without_a_proof_are_counted(dump: Path, store: Path):
    before = replay.choose(dump, store).proved
    tamper(dump, store, lambda record: {"proof": None, "proof_bytes": None})
    chosen = replay.choose(dump, store)
    assert (chosen.proved, chosen.unproved) == (before - 1, 1)


def test_a_store_without_proofs_is_refused(dump: Path, store: Path, tmp_path: Path):
    other = write_toy_dump(tmp_path / "other", seed=3)
    with pytest.raises(InputError, match="holds no proof of dump"):
        replay.choose(other, store)
    with pytest.raises(InputError, match="sample: 0 is not positive"):
        replay.choose(dump, store, sample=0)
    next(store.glob("certificates/**/config.json")).unlink()
    with pytest.raises(InputError, match="cannot read the record"):
        replay.choose(dump, store)


def test_the_solvers_own_proofs_are_accepted(dump: Path, tmp_path: Path):
    pytest.importorskip("ceiling.certify.check")
    limits = stage.Limits(200, 5.0, floors=(0.0, 0.9))
    list(stage.run(stage.plan(dump, tmp_path, (2, 4), limits=limits)))
    assert wrong(dump, tmp_path) == []
