"""Compaction: the same rows and answers from few files, whole or not at all, read only."""

import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from ceiling.problem import InputError
from ceiling.stages import enumerate as stage
from ceiling.store import TABLES, check_store, compact_store, open_store, run_sql
from ceiling.store.schema import IDENTITY
from ceiling.store.shards import COMPACTED
from tests.toy_dump import LAYERS, write_toy_dump

DOCUMENTS, BUDGETS = 3, (2, 4)

QUERIES = (
    "SELECT s, count(*) AS n, median(closable) AS c, sum(e_pool) AS e FROM instances GROUP BY s ORDER BY s",
    "SELECT head, kept_pool FROM instances WHERE document < 1 AND s = 4 ORDER BY dump, layer, position, head",
    "SELECT r.row, count(*) AS n FROM instances i JOIN rows r ON i.dump = r.dump AND i.document = r.document "
    "AND i.position = r.position GROUP BY r.row ORDER BY r.row",
    "SELECT document, tokens, text_sha256 FROM documents ORDER BY document",
    "SELECT status, count(*) AS n FROM instances GROUP BY status ORDER BY status",
)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy", documents=DOCUMENTS)


@pytest.fixture(scope="module")
def store(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two dumps; never written to."""
    store = tmp_path_factory.mktemp("stores") / "store"
    other = write_toy_dump(tmp_path_factory.mktemp("dumps") / "other", seed=1)
    for each in (dump, other):
        list(stage.run(stage.plan(each, store, BUDGETS)))
    return store


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def assert_same_rows(one: Path, other: Path, config: str | None = None) -> None:
    for table, identity in IDENTITY.items():
        keys = ["dump", *identity]
        frames = [open_store(path, config).table(table).sort(keys).collect() for path in (one, other)]
        assert frames[0].height > 0 or table not in ("instances", "documents", "rows")
        assert_frame_equal(*frames, check_exact=True)


def test_a_compacted_store_holds_the_same_rows_and_answers_alike(store: Path, tmp_path: Path):
    before = {path: path.read_bytes() for path in files(store)}
    done = compact_store(store, tmp_path / "new")
    assert (tmp_path / "new" / COMPACTED).exists()
    assert (done.shards, done.parts) == (5 * (LAYERS + 2), 6)
    assert_same_rows(store, tmp_path / "new")
    for sql in QUERIES:
        assert_frame_equal(*(run_sql(open_store(path), sql) for path in (store, tmp_path / "new")))
    assert {path: path.read_bytes() for path in files(store)} == before
    assert check_store(tmp_path / "new").problems == []
    for record in store.rglob("config.json"):
        assert (tmp_path / "new" / record.relative_to(store)).read_bytes() == record.read_bytes()


def test_parts_are_sorted_bounded_and_carry_statistics(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ceiling.store.compact.PART_ROWS", 40)
    monkeypatch.setattr("ceiling.store.compact.GROUP_ROWS", 16)
    compact_store(store, tmp_path / "new")
    assert_same_rows(store, tmp_path / "new")
    assert check_store(tmp_path / "new").problems == []
    parts = sorted((tmp_path / "new" / "instances").rglob("*.parquet"))
    assert len(parts) == 3 + 2  # two units of 24 rows each
    for folder in {part.parent for part in parts}:
        frame = pl.concat([pl.read_parquet(p, glob=False) for p in sorted(folder.glob("*.parquet"))])
        assert frame.select(IDENTITY["instances"]).equals(frame.select(IDENTITY["instances"]).sort(pl.all()))
    metadata = pq.ParquetFile(parts[0]).metadata
    assert metadata.num_row_groups > 1
    assert all(metadata.row_group(0).column(c).is_stats_set for c in range(11))  # the identity


def test_units_are_joined_in_the_order_of_their_numbers(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """By name, layer 100 comes before layer 99."""
    many = shutil.copytree(store, tmp_path / "many")
    for folder in (many / "instances").glob("*/*"):
        for layer in (99, 100):
            old = folder / f"doc-00000.layer-{layer - 99:02d}.parquet"
            pl.read_parquet(old, glob=False).with_columns(layer=pl.lit(layer, pl.Int64)).write_parquet(
                folder / f"doc-00000.layer-{layer}.parquet"
            )
    monkeypatch.setattr("ceiling.store.compact.PART_ROWS", 1)
    compact_store(many, tmp_path / "new")
    (folder, *_) = sorted((tmp_path / "new" / "instances").glob("*/*"))
    parts = sorted(folder.glob("*.parquet"))
    assert [pl.read_parquet(p, glob=False)["layer"][0] for p in parts][:4] == [0, 1, 99, 100]


def test_several_configurations_stay_apart(store: Path, dump: Path, tmp_path: Path):
    several = shutil.copytree(store, tmp_path / "several")
    plan = stage.plan(dump, several, (8,))
    list(stage.run(plan))
    compact_store(several, tmp_path / "new")
    with pytest.raises(InputError, match="2 configurations"):
        open_store(tmp_path / "new")
    assert_same_rows(several, tmp_path / "new", plan.config)


def test_a_shard_of_an_older_version_gets_the_columns_it_lacks(store: Path, tmp_path: Path):
    old = shutil.copytree(store, tmp_path / "old")
    path = next((old / "instances").rglob("*.parquet"))
    pl.read_parquet(path, glob=False).drop("e_leverage").with_columns(later=1).write_parquet(path)
    compact_store(old, tmp_path / "new")
    assert_same_rows(old, tmp_path / "new")


def test_holes_and_an_empty_store_are_no_reason_to_refuse(store: Path, tmp_path: Path):
    holes = shutil.copytree(store, tmp_path / "holes")
    next((holes / "instances").rglob("*.parquet")).unlink()
    shutil.rmtree(holes / "documents")
    compact_store(holes, tmp_path / "new")
    assert open_store(tmp_path / "new").instances.collect().height > 0
    assert open_store(tmp_path / "new").documents.collect().schema == TABLES["documents"]
    (tmp_path / "empty").mkdir()
    assert compact_store(tmp_path / "empty", tmp_path / "nothing").rows == 0
    assert open_store(tmp_path / "nothing").instances.collect().height == 0


def test_enumerate_refuses_a_compacted_store(store: Path, dump: Path, tmp_path: Path):
    """Its units are not to be seen, so all would be computed again."""
    compact_store(store, tmp_path / "new")
    before = files(tmp_path / "new")
    with pytest.raises(InputError, match="is compacted, to be read only"):
        stage.plan(dump, tmp_path / "new", BUDGETS)
    assert files(tmp_path / "new") == before


def test_places_that_are_none(store: Path, tmp_path: Path):
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there exists"):
        compact_store(store, tmp_path / "there")
    with pytest.raises(InputError, match="lies in the store"):
        compact_store(store, store / "instances" / "new")
    with pytest.raises(InputError, match="no folder"):
        compact_store(tmp_path / "nowhere", tmp_path / "new")
    compact_store(store, tmp_path / "new")
    with pytest.raises(InputError, match="compacted already"):
        compact_store(tmp_path / "new", tmp_path / "newer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]


def test_damage_is_refused_by_name(store: Path, tmp_path: Path):
    damaged = shutil.copytree(store, tmp_path / "damaged")
    cut, garbled, copied = sorted((damaged / "instances").rglob("*.parquet"))[:3]
    cut.write_bytes(cut.read_bytes()[:-9])
    content = garbled.read_bytes()
    garbled.write_bytes(content[:500] + bytes(99) + content[599:])
    shutil.copy(copied, copied.with_name("copy.parquet"))
    with pytest.raises(InputError, match="4 problems, see `ceiling store check`") as caught:
        compact_store(damaged, tmp_path / "new")
    for path in (cut, garbled, copied.with_name("copy.parquet")):
        assert path.relative_to(damaged).as_posix() in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged"]


def test_a_full_disk_leaves_nothing(store: Path, tmp_path: Path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limit[1]))
    try:
        with pytest.raises(OSError, match="cannot write"):
            compact_store(store, tmp_path / "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.iterdir()) == []


RUN = """
import sys, time
from ceiling.store import compact
write = compact.durable.write
def slowly(*arguments):
    write(*arguments)
    time.sleep(0.2)
compact.durable.write = slowly
compact.compact_store(*sys.argv[1:])
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_compaction_leaves_no_store_and_the_next_cleans_up(
    store: Path, tmp_path: Path, blow: signal.Signals
):
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(store), str(tmp_path / "new")], stderr=subprocess.DEVNULL
    )
    while not list(tmp_path.glob(".new.*/instances/**/part-*.parquet")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(blow)
    process.wait()
    left = [path.name for path in tmp_path.iterdir()]
    assert left == [] if blow == signal.SIGINT else "new" not in left
    compact_store(store, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert_same_rows(store, tmp_path / "new")
