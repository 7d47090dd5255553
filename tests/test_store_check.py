"""The health of a store: every kind of damage is found and named; what is sound is not."""

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import enumerate as stage
from ceiling.store import Problem, Wanted, check_store
from ceiling.store.check import Kind, ranges
from ceiling.store.seal import is_intact, sealed
from ceiling.store.shards import WRITE_SECONDS
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump

DOCUMENTS, BUDGETS = 3, (2, 4)
INSTANCES = HEADS * ROWS * len(BUDGETS)

ZSTD = bytes.fromhex("28b52ffd")
"""The first bytes of a compressed page."""


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy", documents=DOCUMENTS)


@pytest.fixture(scope="module")
def sound(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stores") / "sound"
    list(stage.run(stage.plan(dump, store, BUDGETS)))
    return store


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(sound, tmp_path / "store")


@pytest.fixture(scope="module")
def wanted(dump: Path) -> Wanted:
    opened = open_dump(dump)
    units = [(d, layer) for d in range(DOCUMENTS) for layer in opened.layers]
    return Wanted(opened.id, dict.fromkeys(units, HEADS * ROWS))


def shard(store: Path, document: int = 1, layer: int = 1) -> Path:
    (path,) = store.glob(f"instances/*/*/doc-{document:05d}.layer-{layer:02d}.parquet")
    return path


def rewrite(path: Path, *changes: pl.Expr, **columns: pl.Expr) -> None:
    path.write_bytes(sealed(pl.read_parquet(path, glob=False).with_columns(*changes, **columns)))


def only(store: Path, kind: Kind, where: Path, *wanted: Wanted) -> Problem:
    """The one problem of `kind`, which is all there is but for holes, and is at `where`."""
    problems = check_store(store, None, wanted).problems
    assert {p.kind for p in problems} <= {kind, Kind.HOLE}
    (problem,) = [p for p in problems if p.kind == kind]
    assert problem.where == where.relative_to(store).as_posix()
    return problem


def test_a_sound_store_has_no_problems(store: Path, wanted: Wanted):
    for dumps in ((), (wanted,)):
        health = check_store(store, None, dumps)
        assert health.problems == []
    assert health.files == DOCUMENTS * (LAYERS + 2)
    assert health.rows["instances"] == DOCUMENTS * LAYERS * INSTANCES
    assert set(health.rows) == {"instances", "documents", "rows"}
    assert health.unsealed == 0


def test_an_empty_store_has_no_problems_but_a_dump_that_should_be_there(tmp_path: Path, wanted: Wanted):
    assert check_store(tmp_path).problems == []
    kinds = {p.where: p for p in check_store(tmp_path, None, [wanted]).problems}
    assert kinds[f"instances/dump={wanted.dump}"].what == "none of 6 units (document x layer) is there"
    assert {p.kind for p in kinds.values()} == {Kind.HOLE}


def test_a_missing_store_or_configuration_is_named(store: Path, tmp_path: Path):
    with pytest.raises(InputError, match="no folder"):
        check_store(tmp_path / "nowhere")
    with pytest.raises(InputError, match="'00000000' is not in"):
        check_store(store, "00000000")


@pytest.mark.parametrize("table", ["instances", "rows", "documents"])
def test_a_file_cut_short_is_named(store: Path, table: str):
    path = sorted((store / table).rglob("*.parquet"))[0]
    for content in (b"", path.read_bytes()[:-9]):
        path.write_bytes(content)
        problem = only(store, Kind.UNREADABLE, path)
        assert problem.what == "cut short"
        assert problem.rerun
        assert problem.remove


def test_a_file_garbled_anywhere_is_named(store: Path):
    """Most such damage decodes without an error, into other numbers."""
    path, rng = shard(store), random.Random(0)
    content = path.read_bytes()
    for size in (1, 16, 256):
        for at in rng.sample(range(len(content) - size - 4), 12):
            garbage = bytes(byte ^ rng.randrange(1, 256) for byte in content[at : at + size])
            path.write_bytes(content[:at] + garbage + content[at + size :])
            only(store, Kind.UNREADABLE, path)
    path.write_bytes(content)
    assert check_store(store).problems == []


def test_without_a_digest_every_column_is_decoded(store: Path):
    path = shard(store)
    frame = pl.read_parquet(path, glob=False)
    frame.write_parquet(path)
    health = check_store(store)
    assert (health.problems, health.unsealed) == ([], 1)
    content = path.read_bytes()
    last = content.rindex(ZSTD)  # a page of the last column, which tells no rows apart
    path.write_bytes(content[:last] + bytes(4) + content[last + 4 :])
    only(store, Kind.UNREADABLE, path)


@given(st.lists(st.integers(), min_size=1, max_size=5), st.data())
def test_a_seal_vouches_for_every_byte(numbers: list[int], data: st.DataObject):
    content = sealed(pl.DataFrame({"a": numbers}, schema={"a": pl.Int128()}))
    assert pl.read_parquet(BytesIO(content))["a"].to_list() == numbers
    assert is_intact(content)
    at = data.draw(st.integers(0, len(content) - 1))
    bit = data.draw(st.integers(0, 7))
    garbled = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    with contextlib.suppress(pl.exceptions.PolarsError):  # where even the metadata are gone
        assert not is_intact(garbled)


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "instances/stray.parquet",
        "instances/dump=d/doc-00000.parquet",
        "instances/dump=d/config=c/deeper/doc-00000.layer-00.parquet",
        "rows/dump=d/config=c/doc-00000.parquet",
        "certificates/dump=d/doc-00000.parquet",
    ],
)
def test_files_outside_the_layout_are_foreign(store: Path, name: str):
    path = store / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert "not of the store's layout" in only(store, Kind.FOREIGN, path).what


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (pl.lit("0" * 12).alias("dump"), "column dump holds '000000000000', its path says"),
        (pl.lit("abcdabcd").alias("config"), "column config holds 'abcdabcd', its path says"),
        (pl.lit(0).cast(pl.Int64).alias("document"), "column document holds 0, its path says 1"),
        (pl.lit(None, dtype=pl.Int64).alias("layer"), "column layer holds None, its path says 1"),
        (pl.lit(None, dtype=pl.Int64).alias("head"), "column head holds nulls"),
        (pl.col("s").cast(pl.Int32), "column s is Int32, not Int64"),
        (pl.col("kept_top").cast(pl.List(pl.String)), "column kept_top is List(String), not List(Int64)"),
    ],
)
def test_content_that_is_not_of_its_place_or_schema_is_foreign(store: Path, change: pl.Expr, what: str):
    rewrite(shard(store), change)
    problems = check_store(store).problems
    assert any(p.kind == Kind.FOREIGN and what in p.what for p in problems), problems
    (relative,) = {p.where for p in problems if p.kind == Kind.FOREIGN}
    assert relative == shard(store).relative_to(store).as_posix()


def test_identity_columns_are_needed_and_others_may_come_and_go(store: Path):
    frame = pl.read_parquet(shard(store), glob=False)
    shard(store).write_bytes(sealed(frame.drop("e_leverage").with_columns(later=1)))
    assert check_store(store).problems == []
    shard(store).write_bytes(sealed(frame.drop("head")))
    assert only(store, Kind.FOREIGN, shard(store)).what == "no column head; move it away"


def test_a_shard_without_rows_is_foreign(store: Path):
    shard(store).write_bytes(sealed(pl.read_parquet(shard(store), glob=False).clear()))
    assert only(store, Kind.FOREIGN, shard(store)).what == "it has no rows; move it away"


def test_a_record_that_is_not_what_its_folder_says(store: Path):
    (path,) = store.rglob("config.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"engine": "other"}))
    assert "its content is configuration" in only(store, Kind.FOREIGN, path).what
    path.write_text("{")
    assert "not a record" in only(store, Kind.UNREADABLE, path).what
    path.unlink()
    assert "missing" in only(store, Kind.HOLE, path).what


def test_what_nobody_is_writing_any_more_is_a_leftover(store: Path):
    host, others = socket.gethostname(), "elsewhere-1-doc-00000.parquet"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = store / ".tmp" / f"{host}-{ended.pid}-doc-00000.layer-00.parquet"
    alive = store / ".tmp" / f"{host}-{os.getpid()}-doc-00000.layer-00.parquet"
    for path in (dead, alive, store / ".tmp" / others):
        path.write_bytes(b"")
    assert "delete it" in only(store, Kind.LEFTOVER, dead).what
    dead.unlink()
    old = (store / ".tmp" / others).stat().st_mtime - WRITE_SECONDS - 1
    os.utime(store / ".tmp" / others, (old, old))
    only(store, Kind.LEFTOVER, store / ".tmp" / others)


def test_logs_belong_to_a_store(store: Path):
    (store / ".log").mkdir()
    (store / ".log" / "enumerate.jsonl").write_text("{}\n")
    assert check_store(store).problems == []


def test_a_shard_copied_under_another_name_is_foreign_and_a_duplicate(store: Path):
    copy = shard(store).with_name("doc-00001.layer-01 (1).parquet")
    shutil.copy(shard(store), copy)
    problems = check_store(store).problems
    assert {(p.kind, p.where) for p in problems} == {
        (Kind.FOREIGN, copy.relative_to(store).as_posix()),
        (Kind.DUPLICATE, shard(store).relative_to(store).as_posix()),  # a space sorts before the dot
    }
    assert f"{INSTANCES} rows are also in" in next(p for p in problems if p.kind == Kind.DUPLICATE).what


def test_rows_that_stand_twice_in_a_file_are_counted(store: Path):
    frame = pl.read_parquet(shard(store), glob=False)
    shard(store).write_bytes(sealed(pl.concat([frame, frame.head(3)])))
    assert only(store, Kind.DUPLICATE, shard(store)).what == "3 rows stand in it twice"


def test_holes_show_against_the_store_itself(store: Path):
    shard(store, 0, 1).unlink()
    shard(store, 2, 1).unlink()
    (problem,) = check_store(store).problems
    assert problem.what == "documents 0, 2, layers 1: 2 shards missing"
    assert problem.rerun
    assert not problem.remove
    next(store.glob("rows/*/doc-00001.parquet")).unlink()
    assert [p.what for p in check_store(store).problems][1] == "documents 1: 1 shard missing"


def test_holes_show_against_a_dump(store: Path, wanted: Wanted):
    for layer in range(LAYERS):
        shard(store, 2, layer).unlink()
    for table in ("documents", "rows"):
        next(store.glob(f"{table}/*/doc-00002.parquet")).unlink()
    assert check_store(store).problems == []  # nothing shows that there was a third document
    problems = check_store(store, None, [wanted]).problems
    assert [(p.where.split("/")[0], p.what) for p in problems] == [
        ("documents", "documents 2: 1 shard missing"),
        ("instances", "documents 2, layers 0-1: 2 shards missing"),
        ("rows", "documents 2: 1 shard missing"),
    ]


def test_a_unit_with_too_few_or_unknown_rows(store: Path, wanted: Wanted):
    frame = pl.read_parquet(shard(store), glob=False)
    shard(store).write_bytes(sealed(frame.head(5)))
    problem = only(store, Kind.HOLE, shard(store), wanted)
    assert problem.what == f"5 of {INSTANCES} instances"
    assert problem.remove
    shard(store).write_bytes(sealed(frame))
    fewer = wanted._replace(rows={unit: n for unit, n in wanted.rows.items() if unit != (1, 1)})
    assert "no such document" in only(store, Kind.FOREIGN, shard(store), fewer).what


def test_several_configurations_are_a_problem_until_one_is_named(store: Path, dump: Path, wanted: Wanted):
    other = stage.plan(dump, store, (4,))
    list(stage.run(other))
    (problem,) = check_store(store, None, [wanted]).problems
    assert problem.kind == Kind.CONFIGURATIONS
    assert f"{other.config}: s+extra 4+24" in problem.what
    assert check_store(store, other.config, [wanted]).problems == []
    next(store.glob(f"instances/*/config={other.config}/*.parquet")).unlink()
    (hole,) = check_store(store, other.config, [wanted]).problems
    assert hole.config == other.config


def test_ranges():
    assert ranges([0, 1, 2, 3, 7, 9, 10]) == "0-3, 7, 9-10"
