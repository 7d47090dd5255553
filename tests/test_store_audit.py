"""The audit's tables in a store: where shards stand, what check finds, what may be read together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.problem import InputError
from ceiling.store import Shards, check_store, compact_store, config_id
from ceiling.store.check import Kind
from ceiling.store.layout import Place, are_apart, place_of, unit_name
from ceiling.store.schema import IDENTITY, TABLES
from tests.toy_audit import toy_audit

TASKS = ("niah_multikey_1:keys=2,values=3", "vt")
ARMS = ("agnostic", "aware-scores")
INSTANCES = 3

RECORD: dict[str, Any] = {
    **{"engine": "audit/1", "presses": ["snapkv"], "sources": {}, "budgets": ["ratio=0.5", "ratio=0.9"]},
    **{"backend": "eager", "dtype": "float32", "tokens": 1000, "seed": 0, "ceilings": "top"},
}
"""As much of a configuration's record as the store looks at."""


def write(store: Path, seed: int = 0, **changes: Any) -> str:
    """A toy audit by the presses, budgets and backend of a record; returns its configuration."""
    record = RECORD | changes
    config = config_id(record)
    frame = toy_audit(
        tasks=TASKS,
        arms=ARMS,
        instances=INSTANCES,
        seed=seed,
        budgets=record["budgets"],
        backends=(record["backend"],),
    )
    frame = frame.filter(pl.col("press").is_in(["full", *record["presses"]]))
    shards = Shards(store, frame["dump"][0])
    shards.open()
    for table, rows in (("audit", frame), ("audit_ceilings", judged(frame))):
        if table == "audit" or record["ceilings"] != "none":
            shards.write_config(record, table)
            for unit, part in rows.partition_by("task", "instance", "arm", as_dict=True).items():
                told = part.with_columns(config=pl.lit(config)).to_dict(as_series=False)
                shards.write(table, shards.path(table, *unit, config=config), told)
    return config


def judged(audit: pl.DataFrame) -> pl.DataFrame:
    """Two layers judged on the answer's rows of every record but the anchor's."""
    rows = audit.filter(pl.col("role") != "anchor").join(pl.DataFrame({"layer": [0, 1]}), how="cross")
    told = rows.with_columns(rows_of=pl.lit("answer"), error=pl.lit(0.5))
    absent = [pl.lit(None).alias(name) for name in TABLES["audit_ceilings"] if name not in told.columns]
    schema = TABLES["audit_ceilings"]
    return told.with_columns(absent).select(pl.col(name).cast(kind) for name, kind in schema.items())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path / "store")
    return tmp_path / "store"


def shards_of(store: Path, table: str = "audit", name: str = "*") -> list[Path]:
    return sorted((store / table).glob(f"dump=*/config=*/{name}.parquet"))


def told(store: Path) -> Iterator[tuple[Kind, str]]:
    """What is wrong, less the configuration's id in paths."""
    for problem in check_store(store).problems:
        yield problem.kind, problem.what


@pytest.mark.parametrize("task", ["vt", "niah_multikey_1:keys=2", "cwe:rare=5,top=2"])
def test_a_units_name_is_a_file_name_and_is_read_back(task: str):
    name = unit_name(task, 7, "aware-kvpress")
    assert not set(name) & set(':<>"/\\|?* ')
    place, in_layout = place_of(f"audit/dump=d/config=c/{name}.parquet", compacted=False)
    assert in_layout
    assert place == Place("audit", "d", "c", (task, 7, "aware-kvpress"))


@pytest.mark.parametrize("name", ["doc-00000.layer-00", "vt.7.agnostic", "vt.00007", "Vt.00007.agnostic"])
def test_other_names_are_not_of_the_layout(name: str):
    found = place_of(f"audit/dump=d/config=c/{name}.parquet", compacted=False)
    assert found == (Place("audit", "d", "c"), False)
    assert place_of("instances/dump=d/config=c/vt.00007.agnostic.parquet", compacted=False)[1] is False


def test_a_whole_audit_is_clean(store: Path):
    health = check_store(store)
    assert health.problems == []
    assert health.rows == {
        "audit": len(TASKS) * len(ARMS) * INSTANCES * 3,
        "audit_ceilings": len(TASKS) * len(ARMS) * INSTANCES * 2 * 2,
    }
    assert len(shards_of(store)) == len(TASKS) * len(ARMS) * INSTANCES


def test_holes_are_instances_below_the_last_and_arms_that_others_have(store: Path):
    for name in ("vt.00001.agnostic", "vt.00002.*", "niah*.00000.aware-scores"):
        for shard in shards_of(store, name=name):
            shard.unlink()
    assert list(told(store)) == [
        (Kind.HOLE, f"task {TASKS[0]}, arm aware-scores, instances 0: 1 missing"),
        (Kind.HOLE, "task vt, arm agnostic, instances 1-2: 2 missing"),
        (Kind.HOLE, "task vt, arm aware-scores, instances 2: 1 missing"),
    ], "the judgements show that there was a last instance"
    for shard in shards_of(store, "audit_ceilings", "vt.00002.*"):
        shard.unlink()
    holes = [what for _, what in told(store)]
    assert "task vt, arm agnostic, instances 1: 1 missing" in holes
    assert not any(what.startswith("task vt, arm aware-scores") for what in holes)


def test_missing_judgements_are_holes_where_the_record_says_that_there_were(store: Path, tmp_path: Path):
    for shard in shards_of(store, "audit_ceilings"):
        shard.unlink()
    assert len(list(told(store))) == len(TASKS) * len(ARMS)
    assert {kind for kind, _ in told(store)} == {Kind.HOLE}
    write(tmp_path / "unjudged", ceilings="none")
    assert list(told(tmp_path / "unjudged")) == []


def test_damage_is_named_and_mended_by_the_command_that_made_it(store: Path):
    cut, garbled, foreign = shards_of(store, name="vt.*.agnostic")
    cut.write_bytes(cut.read_bytes()[:-9])
    content = bytearray(garbled.read_bytes())
    content[100] ^= 255
    garbled.write_bytes(content)
    foreign.rename(foreign.with_name("vt.00002.aware-kvpress.parquet"))
    health = check_store(store)
    where = {(problem.kind, Path(problem.where).name) for problem in health.problems}
    assert {
        (Kind.UNREADABLE, cut.name),
        (Kind.UNREADABLE, garbled.name),
        (Kind.FOREIGN, "vt.00002.aware-kvpress.parquet"),
    } <= where
    assert all(problem.rerun for problem in health.problems if problem.kind is Kind.UNREADABLE)
    with pytest.raises(InputError, match=r"cut short; `ceiling audit` again"):
        open_store(store).audit  # noqa: B018


def test_a_record_in_two_shards_is_a_duplicate(store: Path):
    (one,) = shards_of(store, name="vt.00000.agnostic")
    one.with_name("vt.00003.agnostic.parquet").write_bytes(one.read_bytes())
    kinds = {kind for kind, _ in told(store)}
    assert {Kind.DUPLICATE, Kind.FOREIGN} <= kinds


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({"presses": ["tova"]}, True),
        ({"budgets": ["ratio=0.25"]}, True),
        ({"backend": "sdpa", "ceilings": "none"}, True),
        ({"dtype": "bfloat16"}, True),
        ({"presses": []}, True),  # the anchor alone
        ({"presses": ["tova", "snapkv"]}, False),
        ({"presses": ["tova"], "tokens": 2000}, False),
        ({"presses": ["tova"], "seed": 1}, False),
        ({"presses": ["tova"], "engine": "audit/2"}, False),
        ({"presses": None}, False),
    ],
)
def test_audits_by_other_presses_stand_beside_each_other(changes: dict[str, Any], apart: bool):
    for table in ("audit", "audit_ceilings"):
        assert are_apart(table, [RECORD, RECORD | changes]) is apart
        assert not are_apart(table, [RECORD, None])
    assert not are_apart("certificates", [RECORD, RECORD | changes])


def test_mixed_configurations_hold_the_anchor_once(store: Path):
    first = open_store(store).audit.collect()
    write(store, presses=["tova"])
    both = open_store(store).audit.collect()
    counts = both.group_by("press").len()
    assert dict(counts.iter_rows()) == {"full": 12, "snapkv": 24, "tova": 24}
    anchors = [frame.filter(pl.col("press") == "full").drop("config", "seconds") for frame in (first, both)]
    assert_frame_equal(*anchors, check_row_order=False)
    write(store, backend="sdpa", ceilings="none")
    by_backend = open_store(store).audit.filter(press="full").group_by("backend").len().collect()
    assert dict(by_backend.iter_rows()) == {"eager": 12, "sdpa": 12}, "of each backend its own"
    assert list(told(store)) == []


def test_configurations_that_answer_the_same_must_be_chosen_among(store: Path):
    (first,) = open_store(store).configurations("audit")
    other = write(store, tokens=2000)
    with pytest.raises(InputError, match=rf"2 configurations .*{first}: snapkv on eager.*--config"):
        open_store(store).audit  # noqa: B018
    assert open_store(store, other).audit.select("config").unique().collect().item() == other
    assert Kind.CONFIGURATIONS in {kind for kind, _ in told(store)}


def test_a_copy_that_only_polars_reaches_is_read(store: Path):
    (first,) = open_store(store).configurations("audit")
    for config in (None, first):
        assert_frame_equal(
            open_store(f"file://{store}", config).audit.collect(),
            open_store(store, config).audit.collect(),
            check_row_order=False,
        )
    write(store, presses=["tova"])
    with pytest.raises(InputError, match="several configurations"):
        open_store(f"file://{store}").audit  # noqa: B018
    assert open_store(f"file://{store}", first).audit.collect().height == 36
    with pytest.raises(InputError, match="no instances of configuration 00000000"):
        open_store(f"file://{store}", "00000000")


def test_a_compacted_store_answers_alike(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ceiling.store.compact.PART_ROWS", 7)
    compact_store(store, tmp_path / "new")
    assert check_store(tmp_path / "new").problems == []
    for table in ("audit", "audit_ceilings"):
        key = list(IDENTITY[table])
        one, other = (open_store(path).table(table).collect() for path in (store, tmp_path / "new"))
        assert_frame_equal(one.sort(key), other.sort(key))
        parts = shards_of(tmp_path / "new", table)
        assert len(parts) > 2
        for part in parts:
            frame = pl.read_parquet(part, glob=False)
            assert_frame_equal(frame, frame.sort(key))
