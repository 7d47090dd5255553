"""Enumeration of a dump: every column against the definitions, resumption, bad input."""

import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from math import comb
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling import best_in_pool, free_error, open_store
from ceiling.dump import open_dump
from ceiling.objective import centre, frank_wolfe, ridge_leverage
from ceiling.problem import InputError
from ceiling.stages import enumerate as stage
from tests.toy_dump import HEADS, KV_HEADS, LAYERS, ROWS, write_toy_dump

BUDGETS = (2, 4, 20)
KEY = ["document", "layer", "head", "position", "s"]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


def enumerate_all(plan: stage.Plan) -> list[stage.Done]:
    return list(stage.run(plan))


def instances(store: Path) -> pl.DataFrame:
    return open_store(store).instances.sort(KEY).collect()


@pytest.fixture(scope="module")
def frame(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    store = tmp_path_factory.mktemp("store")
    enumerate_all(stage.plan(dump, store, BUDGETS))
    return instances(store)


def test_every_instance_is_there_once(frame: pl.DataFrame):
    assert len(frame) == 2 * LAYERS * HEADS * ROWS * len(BUDGETS)
    assert frame.select(KEY).is_unique().all()


def test_instances_agree_with_the_front_door(frame: pl.DataFrame, dump: Path):
    document = open_dump(dump).document(1)
    chosen = frame.filter(document=1, status="exact")
    assert {0, 1} == set(chosen["layer"])
    for got in chosen.iter_rows(named=True):
        r = document.query_positions.tolist().index(got["position"])
        row = document.row(got["layer"], got["head"], r)
        best = best_in_pool(row, got["s"])
        assert got["e_pool"] == pytest.approx(best.error, rel=1e-12)
        assert (got["kept_pool"], got["ties"], got["subsets"]) == (
            best.kept.tolist(),
            best.ties,
            best.subsets,
        )
        assert got["kv_head"] == got["head"] // (HEADS // KV_HEADS)
        assert got["n_keys"] == row.n_keys
        assert got["subsets"] == comb(got["pool_size"], got["s"])
        assert got["free_pool"] == pytest.approx(free_error(row, best.kept), abs=1e-10 * got["sigma"])
        assert got["ef_fw"] == pytest.approx(frank_wolfe(centre(row), got["s"])[1][-1])


def test_leverage_reads_the_visible_keys_only(frame: pl.DataFrame, dump: Path):
    document = open_dump(dump).document(0)
    for got in frame.filter(document=0, layer=1, s=4).iter_rows(named=True):  # windowed to 16 keys
        visible = slice(max(0, got["position"] - 15), got["position"] + 1)
        assert got["n_keys"] == visible.stop - visible.start
        scores = ridge_leverage(document.keys(1)[got["kv_head"], visible].astype(float))
        kept = visible.start + np.argsort(-scores, kind="stable")[:4]
        row = document.row(1, got["head"], document.query_positions.tolist().index(got["position"]))
        p = row.masses[kept]
        forced = p / p.sum() @ row.values[kept]
        assert got["e_leverage"] == pytest.approx(np.linalg.norm(row.masses @ row.values - forced))


def test_errors_and_ratios_keep_their_order(frame: pl.DataFrame):
    exact = frame.filter(status="exact")
    assert len(exact) > 0
    slack = 1 + 1e-12
    assert exact.select((pl.col("e_pool") <= pl.col("e_balance") * slack).all()).item()
    assert exact.select((pl.col("e_balance") <= pl.col("e_top") * slack).all()).item()
    assert exact.select((pl.col("free_pool") <= pl.col("e_pool") * slack).all()).item()
    assert exact.select((pl.col("free_top") <= pl.col("e_top") * slack).all()).item()
    ratios = exact.select(
        kappa=pl.col("e_top") / pl.col("e_pool"), closable=1 - pl.col("e_pool") / pl.col("e_top")
    )
    assert_frame_equal(exact.select("kappa", "closable"), ratios, abs_tol=1e-11)
    assert exact.filter(pl.col("closable") == 0)["recovered"].null_count() == (exact["closable"] == 0).sum()
    assert exact.filter(pl.col("closable") > 0)["recovered"].is_between(0, 1 + 1e-9).all()


def test_rows_of_at_most_s_keys_are_trivial(frame: pl.DataFrame):
    trivial = frame.filter(pl.col("n_keys") <= pl.col("s"))
    assert len(trivial) > 0
    assert set(trivial["status"]) == {"trivial"}
    assert (trivial["e_top"] == 0).all()
    assert (trivial["e_pool"] == 0).all()
    assert trivial["closable"].null_count() == len(trivial)
    assert (trivial["kept_pool"].list.len() == trivial["n_keys"]).all()
    assert (frame.filter(status="trivial")["n_keys"] <= frame.filter(status="trivial")["s"]).all()


def test_small_tables_join(frame: pl.DataFrame, dump: Path, tmp_path: Path):
    enumerate_all(stage.plan(dump, tmp_path, (4,)))
    store = open_store(tmp_path)
    assert store.documents.collect().height == 2
    joined = store.instances.join(store.rows, on=["dump", "document", "position"], how="inner").collect()
    assert len(joined) == len(frame) // len(BUDGETS)


def test_a_second_run_has_nothing_to_do_and_a_hole_is_filled(dump: Path, tmp_path: Path):
    enumerate_all(stage.plan(dump, tmp_path, (4,)))
    before = instances(tmp_path)
    assert stage.plan(dump, tmp_path, (4,)).todo == ()
    sorted(tmp_path.glob("instances/**/*.parquet"))[2].unlink()
    again = stage.plan(dump, tmp_path, (4,))
    assert again.todo == (stage.Unit(1, 0),)
    enumerate_all(again)
    assert_frame_equal(instances(tmp_path).drop("seconds", "host"), before.drop("seconds", "host"))


def test_a_shard_cut_short_is_named_and_written_anew(dump: Path, tmp_path: Path):
    """An empty shard once dropped its rows from every answer."""
    enumerate_all(stage.plan(dump, tmp_path, (4,)))
    before = instances(tmp_path)
    shards = sorted(tmp_path.glob("instances/**/*.parquet"))
    for shard, content in ((shards[0], b""), (shards[3], shards[3].read_bytes()[:-9])):
        shard.write_bytes(content)
        with pytest.raises(InputError, match=f"{shard.name} is cut short"):
            instances(tmp_path)
        plan = stage.plan(dump, tmp_path, (4,))
        assert len(plan.todo) == 1
        enumerate_all(plan)
        assert_frame_equal(instances(tmp_path).drop("seconds", "host"), before.drop("seconds", "host"))


def test_a_small_table_cut_short_is_written_anew(dump: Path, tmp_path: Path):
    enumerate_all(stage.plan(dump, tmp_path, (4,)))
    shard = next(tmp_path.glob("rows/**/*.parquet"))
    before = open_store(tmp_path).rows.collect()
    shard.write_bytes(b"")
    stage.prepare(stage.plan(dump, tmp_path, (4,)))
    assert_frame_equal(open_store(tmp_path).rows.collect(), before)


def test_keys_that_are_no_numbers_are_refused(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", spoil="keys")
    with pytest.raises(InputError, match=r"document 0, layer 1: keys: not finite"):
        enumerate_all(stage.plan(dump, tmp_path / "store"))


def test_a_dump_is_no_store(dump: Path):
    with pytest.raises(InputError, match="is a dump"):
        stage.plan(dump, dump)


RUN = """
import sys
from ceiling.stages import enumerate as stage
for _ in stage.run(stage.plan(sys.argv[1], sys.argv[2])):
    pass
"""


def test_a_killed_run_resumes_to_the_same_answer(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", documents=12)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(dump), str(tmp_path / "killed")])
    for _ in itertools.count():
        done = list((tmp_path / "killed").glob("instances/**/*.parquet"))
        if len(done) >= 2:
            break
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    plan = stage.plan(dump, tmp_path / "killed")
    assert 0 < len(plan.todo) < len(plan.units)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed").glob("instances/**/*.parquet")}
    enumerate_all(plan)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    enumerate_all(stage.plan(dump, tmp_path / "whole"))
    killed, whole = (instances(tmp_path / name).drop("seconds", "host") for name in ("killed", "whole"))
    assert_frame_equal(killed, whole)


def test_a_full_disk_leaves_no_half_shard(dump: Path, tmp_path: Path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    plan = stage.plan(dump, tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limit[1]))  # the small tables fit, a shard does not
    try:
        with pytest.raises(OSError, match=r"cannot write .*doc-00000\.layer-00\.parquet"):
            enumerate_all(plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.glob("instances/**/*.parquet")) == []
    assert list((tmp_path / ".tmp").iterdir()) == []
    assert open_store(tmp_path).documents.collect().height == 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("nan", "head 1, row 2: .*not finite"),
        ("negative", "head 1, row 2: .*negative"),
        ("sum", "head 1, row 2: .*sum is"),
        ("zero", "head 1, row 2: .*sum is 0"),
        ("values", "head 0, row 0: values.3, 2.: inf is not finite"),
    ],
)
def test_a_bad_row_is_named_and_finished_shards_stay(tmp_path: Path, spoil: str, said: str):
    dump = write_toy_dump(tmp_path / "dump", spoil=spoil)
    with pytest.raises(InputError, match=f"document 0, layer 1, {said}"):
        enumerate_all(stage.plan(dump, tmp_path / "store"))
    assert [path.name for path in (tmp_path / "store").glob("instances/**/*.parquet")] == [
        "doc-00000.layer-00.parquet"
    ]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"budgets": (4, 0)}, "budgets: 0 is not positive"),
        ({"budgets": (4, 8, 4)}, "budgets: 4 is repeated"),
        ({"budgets": (4.5,)}, "budgets: 4.5 is not a whole number"),
        ({"budgets": ()}, "budgets: none"),
        ({"extra": -1}, "extra: -1"),
        ({"extra": 24}, "extra: a pool of 40 keys has .* subsets of size 16"),
        ({"cap": 0}, "cap: 0 is not positive"),
        ({"cap": 10**12}, "cap: 1000000000000 subsets .* at most 1e"),
        ({"extra": 1, "cap": 100}, "give one"),
    ],
)
def test_bad_options_are_refused_before_work(dump: Path, tmp_path: Path, options: dict, why: str):
    with pytest.raises(InputError, match=why):
        stage.plan(dump, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_budgets_and_pools_are_part_of_the_identity(dump: Path, tmp_path: Path):
    enumerate_all(stage.plan(dump, tmp_path, (4,)))
    assert len(stage.plan(dump, tmp_path, (4,), extra=3).todo) == 4
    assert len(stage.plan(dump, tmp_path, (8,)).todo) == 4
    assert os.listdir(tmp_path / "instances") == [f"dump={open_dump(dump).id}"]


@pytest.mark.parametrize(
    ("keys", "head_dim", "measured"),
    [(1181, 256, 0.020), (1181, 64, 0.0029), (8192, 256, 0.0735)],  # seconds a row, one core
)
def test_a_row_takes_about_what_it_was_measured_to(keys: int, head_dim: int, measured: float):
    assert measured / 1.25 < stage.seconds_of_row(keys, head_dim, 4) < measured * 1.25


def test_the_estimate_knows_the_dump(dump: Path, tmp_path: Path):
    plan, opened = stage.plan(dump, tmp_path, (4,)), open_dump(dump)
    keys = 1 + opened.document(0).query_positions.mean()
    assert plan.row_seconds == stage.seconds_of_row(keys, opened.head_dim, 1)
    assert plan.seconds > len(plan.todo) * plan.rows * plan.row_seconds
