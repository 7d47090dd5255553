"""Replay of stored certificates: what is accepted, and every kind of tampering that is not."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ceiling import forced_error
from ceiling.certify import Certificate
from ceiling.certify.manifest import draw_manifest
from ceiling.dump import open_dump
from ceiling.problem import InputError, Status
from ceiling.stages import certify as stage
from ceiling.stages import replay
from ceiling.store import Shards, compact_store
from tests.toy_certify import toy_certify, toy_check
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump

EVERY = 2 * LAYERS * HEADS * ROWS * 4
"""Certificates of the toy store: two documents; two budgets under two floors."""


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
    assert len(done) == len({each.where for each in done}) == chosen.certificates == EVERY
    assert len(chosen.proofs) == chosen.proved
    assert 2 * LAYERS * HEADS * ROWS * 2 < chosen.proved < 2 * LAYERS * HEADS * ROWS * 4  # some are trivial
    assert done[0].where.startswith("document 0, layer 0, head 0, position ")
    assert done[0].where.endswith(", s 2, mass floor 0")


def test_a_sample_is_drawn_by_its_seed(dump: Path, store: Path):
    first, same, other = (replay.choose(dump, store, sample=9, seed=seed).proofs for seed in (0, 0, 1))
    assert len(first) == 9
    assert first == same
    assert first != other
    assert len(replay.choose(dump, store, sample=10**6).proofs) == replay.choose(dump, store).proved


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
        (lambda r: {"proof_bytes": r["proof_bytes"] + 1}, "proof_bytes: "),
        (lambda r: {"proof": None}, "es_lower: "),
        (lambda r: {"es_lower": r["es_upper"] * 1.1}, " is no interval"),
        (lambda r: {"es_lower": None}, "es_lower: null"),
        (lambda r: {"status": "trivial"}, "status: 'trivial', with "),
        (lambda r: {"status": "exact"}, "status: 'exact' is no end"),
        (lambda r: {"model": "other"}, "model: 'other', expected 'toy'"),
        (lambda r: {"text_id": "0" * 12}, "text_id: "),
        (lambda r: {"kv_head": 9}, "kv_head: 9"),
        (lambda r: {"engine": "other"}, "engine: 'other'"),
        (lambda r: {"decile": 3}, "decile: 3, expected None"),
        (lambda r: {"n_keys": r["n_keys"] + 1}, "n_keys: "),
    ],
)
def test_what_was_tampered_with_is_rejected(dump: Path, store: Path, change: Callable, said: str):
    tamper(dump, store, change)
    (found,) = wrong(dump, store)
    assert said in found


UNPROVED = {"proof": None, "proof_bytes": None, "es_lower": 0.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: {}, None),
        (lambda r: {"es_lower": 1e-9}, "es_lower: 1e-09, without a proof"),
        (lambda r: {"es_upper": r["es_upper"] * (1 + 1e-8)}, "es_upper: "),
        (lambda r: {"kept": [0, 1]}, "es_upper: "),
        (lambda r: {"kept": [1]}, "kept: not 2 keys"),
        (lambda r: {"closable_lower": 0.1}, "closable_lower: 0.1"),
        (lambda r: {"mass_floor": 0.25}, "mass_floor: 0.25 is none of"),
    ],
)
def test_a_certificate_without_a_proof_is_checked_too(
    dump: Path, store: Path, change: Callable, said: str | None
):
    """Whatever the sample."""
    tamper(dump, store, lambda r: UNPROVED | {"closable_upper": 1.0} | change(r))
    found = [done.wrong for done in replay.replay(replay.choose(dump, store, sample=1)) if done.wrong]
    assert len(found) == (0 if said is None else 2 if "mass_floor" in said else 1)
    assert said is None or said in " ".join(found)


def test_a_kept_set_below_its_floor_is_rejected(dump: Path, store: Path):
    """Its numbers are all its own: only the floor speaks against it."""
    shards = Shards(store, open_dump(dump).id)
    path = min(store.glob("certificates/**/*.parquet"))
    records = pl.read_parquet(path).to_dicts()
    at = next(k for k, r in enumerate(records) if r["mass_floor"] == 0.5 and r["status"] == "gap")
    one = records[at]
    document = open_dump(dump).document(one["document"])
    row = document.row(one["layer"], one["head"], document.query_positions.tolist().index(one["position"]))
    kept = np.sort(np.flatnonzero(row.masses > 0)[np.argsort(row.masses[row.masses > 0])[: one["s"]]])
    light = Certificate(0.0, forced_error(row, kept), kept, Status.GAP, 0, 0.0, "nodes", 0.5, None)
    records[at] = one | stage.measured(row, one["s"], light)
    shards.write("certificates", path, {name: [r[name] for r in records] for name in records[0]})
    (found,) = wrong(dump, store)
    assert "of the top-mass set's mass misses the floor 0.5" in found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"position": 0}, "the dump has no row at position 0"),
        ({"head": 9}, "head: 9 is outside"),
        ({"s": 3}, "s: 3 is none of the configuration's"),
    ],
)
def test_a_certificate_of_nothing_also_leaves_a_gap(dump: Path, store: Path, change: dict, said: str):
    tamper(dump, store, lambda record: change)
    missing, found = wrong(dump, store)
    assert said in found
    assert missing.startswith(f"1 of {EVERY // 4} certificates are missing, first head ")


def test_a_bad_shard_and_a_lost_one_are_a_line_each(dump: Path, store: Path):
    garbled, lost, *_ = sorted(store.glob("certificates/**/*.parquet"))
    garbled.write_bytes(garbled.read_bytes()[:-9])
    lost.unlink()
    chosen = replay.choose(dump, store)
    done = [each for each in replay.replay(chosen) if each.wrong]
    assert done[0].where.endswith("doc-00000.layer-00.parquet")
    assert done[0].wrong == "cut short; delete it and run `ceiling certify` again"
    assert done[1:] == [("document 0, layer 1", f"{EVERY // 4} of {EVERY // 4} certificates are missing")]
    assert chosen.certificates == EVERY // 2


def test_a_manifest_says_what_is_missing(dump: Path, store: Path, tmp_path: Path):
    manifest = draw_manifest([open_dump(dump)], (2,), 20)
    new = tmp_path / "drawn"
    list(stage.run(stage.plan(dump, new, manifest=manifest)))
    assert replay.choose(dump, new).unlisted
    manifest.write(tmp_path / "instances.csv")
    assert not replay.choose(dump, new).unlisted
    assert wrong(dump, new) == []
    tamper(dump, new, lambda record: {"decile": record["decile"] % 10 + 1})
    assert wrong(dump, new)[0].startswith("decile: ")
    gone = min(new.glob("certificates/**/*.parquet"))
    count = pl.read_parquet(gone).height
    gone.unlink()
    assert wrong(dump, new)[0] == f"{count} of {count} certificates are missing"


def test_a_compact_copy_is_checked_alike(dump: Path, store: Path, tmp_path: Path):
    compact_store(store, tmp_path / "new")
    assert wrong(dump, tmp_path / "new") == []
    assert replay.choose(dump, tmp_path / "new").certificates == EVERY


def test_a_store_without_proofs_is_refused(dump: Path, store: Path, tmp_path: Path):
    other = write_toy_dump(tmp_path / "other", seed=3)
    with pytest.raises(InputError, match="holds no certificate of dump"):
        replay.choose(other, store)
    with pytest.raises(InputError, match="sample: 0 is not positive"):
        replay.choose(dump, store, sample=0)
    record = next(store.glob("certificates/**/config.json"))
    content = record.read_text()
    record.write_text(content.replace('"gap": 1e-06', '"gap": 0.5'))
    with pytest.raises(InputError, match="it was changed"):
        replay.choose(dump, store)
    record.unlink()
    with pytest.raises(InputError, match="cannot read the record"):
        replay.choose(dump, store)


def test_the_solvers_own_proofs_are_accepted(dump: Path, tmp_path: Path):
    limits = stage.Limits(200, 5.0, floors=(0.0, 0.9))
    list(stage.run(stage.plan(dump, tmp_path, (2, 4), limits=limits)))
    assert wrong(dump, tmp_path) == []
