"""The store: its layout, its schema, what it refuses."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling.problem import InputError
from ceiling.store import TABLES, Shards, config_id, open_store, run_sql

ROW: dict[str, list[Any]] = {
    "dump": ["d"],
    "document": [0],
    "row": [0],
    "position": [7],
    "tags": [["needle"]],
}


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    shards = Shards(tmp_path / "store", "d")
    shards.open()
    return shards


def instance(**columns: object) -> dict[str, list[Any]]:
    """One instance row: nulls but for `columns`."""
    return {name: [columns.get(name)] for name in TABLES["instances"]}


def test_an_empty_store_gives_empty_frames_of_the_schema(shards: Shards):
    store = open_store(shards.store)
    for name, schema in TABLES.items():
        assert store.table(name).collect().schema == schema


def test_shards_stand_where_the_layout_says(shards: Shards):
    assert shards.path("instances", 3, 7, config="0a1b2c3d").relative_to(shards.store) == Path(
        "instances/dump=d/config=0a1b2c3d/doc-00003.layer-07.parquet"
    )
    assert shards.path("rows", 3).relative_to(shards.store) == Path("rows/dump=d/doc-00003.parquet")


def test_what_is_written_is_read(shards: Shards):
    shards.write("rows", shards.path("rows", 0), ROW)
    assert open_store(shards.store).rows.collect().to_dict(as_series=False) == ROW
    assert list((shards.store / ".tmp").iterdir()) == []


def test_columns_of_an_older_or_newer_shard_are_inserted_or_ignored(shards: Shards):
    path = shards.path("rows", 0)
    path.parent.mkdir(parents=True)
    frame = pl.DataFrame({**ROW, "later": [1]}, schema=TABLES["rows"] | {"later": pl.Int64()}).drop("tags")
    frame.write_parquet(path)
    read = open_store(shards.store).rows.collect()
    assert read.columns == list(TABLES["rows"])
    assert read["tags"].to_list() == [None]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_undefined_numbers_never_reach_the_disk(shards: Shards, value: float):
    path = shards.path("instances", 0, 0, config="c")
    with pytest.raises(ArithmeticError, match=r"kappa .* not finite"):
        shards.write("instances", path, instance(kappa=value))
    assert not path.exists()
    shards.write("instances", path, instance(kappa=None))
    assert path.exists()


def test_two_configurations_of_a_dump_must_be_told_apart(shards: Shards):
    for config in ("aaaaaaaa", "bbbbbbbb"):
        shards.write("instances", shards.path("instances", 0, 0, config=config), instance(config=config))
    with pytest.raises(InputError, match=r"2 configurations of dump=d \(aaaaaaaa, bbbbbbbb\)"):
        open_store(shards.store)
    assert open_store(shards.store, "bbbbbbbb").instances.collect()["config"].to_list() == ["bbbbbbbb"]
    with pytest.raises(InputError, match="'cccccccc' is not in"):
        open_store(shards.store, "cccccccc")


def test_a_run_that_wrote_no_shard_is_no_configuration(shards: Shards):
    """Its config.json once made a second configuration that had to be told apart."""
    shards.write("instances", shards.path("instances", 0, 0, config="aaaaaaaa"), instance(config="aaaaaaaa"))
    shards.write_config({"stopped": True})
    assert open_store(shards.store).instances.collect().height == 1


def test_a_store_may_lie_anywhere(tmp_path: Path):
    """Brackets in a path once were read as a pattern, and the store as empty."""
    shards = Shards(tmp_path / "a [1] * ?" / "störe", "d")
    shards.open()
    shards.write("rows", shards.path("rows", 0), ROW)
    assert open_store(shards.store).rows.collect().height == 1


def test_a_missing_store_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=f"no folder {tmp_path / 'nowhere'}"):
        open_store(tmp_path / "nowhere")


@pytest.mark.parametrize("uri", ["s3://bucket/store", "file:///tmp/store", "gs:/bucket"])
def test_nothing_is_written_to_a_uri(uri: str):
    """A folder called s3: was made where the command ran."""
    with pytest.raises(InputError, match="is a URI, to be read only"):
        Shards(Path(uri), "d")


def test_an_unwritable_store_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write to"):
        Shards(tmp_path / "file" / "store", "d").open()


def test_a_configuration_is_known_by_its_content_not_its_order():
    assert config_id({"a": 1, "b": 2}) == config_id({"b": 2, "a": 1})
    assert config_id({"a": 1, "b": 2}) != config_id({"a": 1, "b": 3})
    assert len(config_id({})) == 8


def test_sql_reads_the_tables(shards: Shards):
    shards.write("rows", shards.path("rows", 0), ROW)
    store = open_store(shards.store)
    assert run_sql(store, "SELECT count(*) AS n FROM rows;").item() == 1
    assert run_sql(store, "WITH r AS (SELECT * FROM rows) SELECT position FROM r -- done").item() == 7
    assert run_sql(store, "SELECT 'DROP' AS word FROM rows").item() == "DROP"


def test_a_copy_is_read_at_its_uri(shards: Shards):
    """As polars reads object stores; its own file:// takes the same way."""
    uri = f"file://{shards.store}"
    with pytest.raises(InputError, match="no instances at file://"):
        open_store(uri)
    shards.write("rows", shards.path("rows", 0), ROW)
    for document in (0, 1):
        shards.write(
            "instances", shards.path("instances", document, 0, config="c0"), instance(dump="d", config="c0")
        )
    here, there = open_store(shards.store), open_store(uri + "/")
    for name in ("instances", "rows", "documents"):
        assert_frame_equal(here.table(name).collect(), there.table(name).collect(), check_row_order=False)
    shards.write("instances", shards.path("instances", 0, 0, config="c1"), instance(dump="d", config="c1"))
    with pytest.raises(InputError, match=r"several configurations of a dump \(c0, c1\)"):
        open_store(uri)
    assert open_store(uri, "c1").instances.collect().height == 1
    with pytest.raises(InputError, match="no instances of configuration c2 at file://"):
        open_store(uri, "c2")


def test_a_copy_may_hold_scores_of_several_configurations_that_share_no_rule(shards: Shards):
    def add(config: str, **rule: str) -> None:
        row = {"dump": "d", "config": config, "reading": "cache", "allocation": "uniform"} | rule
        columns = {name: [row.get(name)] for name in TABLES["scores"]}
        shards.write("scores", shards.path("scores", 0, 0, config=config), columns)

    shards.write("instances", shards.path("instances", 0, 0, config="c0"), instance(dump="d", config="c0"))
    add("c0", selector="h2o")
    add("c1", selector="tova")
    store = open_store(f"file://{shards.store}")
    assert sorted(store.scores.collect()["selector"]) == ["h2o", "tova"]
    add("c2", selector="tova")
    with pytest.raises(InputError, match=r"several configurations of a dump \(c1, c2\)"):
        store.scores.collect()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DROP TABLE rows", "DROP is refused"),
        ("drop table rows", "drop is refused"),
        ("EXPLAIN DROP TABLE rows", "DROP is refused"),
        ("CREATE TABLE t AS SELECT * FROM rows", "CREATE is refused"),
        ("WITH r AS (SELECT 1) DELETE FROM rows", "DELETE is refused"),
        ("SELECT * FROM read_parquet('/etc/x')", r"read_parquet\(\) is refused"),
        ("SELECT * FROM read_csv ('x')", r"read_csv\(\) is refused"),
        ("SELECT * FROM `read_parquet`('x')", r"read_parquet`\(\) is refused"),
        ("SELECT * FROM \"read_csv\"('x')", r'read_csv"\(\) is refused'),
        ("SELECT /* ) */ * FROM scan_csv/**/('x')", r"scan_csv\(\) is refused"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SHOW TABLES", "SHOW is refused"),
        ("SELECT positon FROM rows", "did you mean position"),
        ("SELECT * FROM instance", "no table 'instance'; did you mean instances"),
        ("SELECT * FROM", "sql parser error"),
        ("  -- nothing", "empty"),
        ("SELECT max(position FROM rows", "sql: "),
        ("SELECT sqrt(tags) FROM rows", "sql: "),
    ],
)
def test_sql_that_writes_reads_files_or_is_wrong_is_refused(shards: Shards, sql: str, why: str):
    shards.write("rows", shards.path("rows", 0), ROW)
    with pytest.raises(InputError, match=why) as caught:
        run_sql(open_store(shards.store), sql)
    assert "\n" not in str(caught.value)
    assert shards.path("rows", 0).exists()
