"""Certification of a dump: every column against the definitions, manifests, resumption, bad input."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from ceiling import dropped_mass, forced_error, open_store, top_mass
from ceiling.certify import Certificate
from ceiling.certify.manifest import Manifest, draw_manifest
from ceiling.dump import open_dump
from ceiling.problem import InputError, Status
from ceiling.stages import certify as stage
from ceiling.stages import enumerate as enumerate_stage
from ceiling.store import check_store, compact_store, run_sql
from ceiling.store.schema import CERTIFICATES, IDENTITY
from tests.toy_certify import CLAIM, toy_certify
from tests.toy_dump import HEADS, KV_HEADS, LAYERS, ROWS, write_toy_dump

BUDGETS = (2, 20)
FLOORS = (0.9, 0.0)
KEY = list(IDENTITY["certificates"])
Limits = Callable[..., stage.Limits]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(scope="module")
def manifest(dump: Path) -> Manifest:
    return draw_manifest([open_dump(dump)], (2, 4), 20)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "certify", toy_certify)


def certify_all(plan: stage.Plan) -> list[stage.Done]:
    return list(stage.run(plan))


def certificates(store: Path, config: str | None = None) -> pl.DataFrame:
    return open_store(store, config).certificates.sort(KEY).collect()


@pytest.fixture(scope="module")
def frame(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """What the real solver finds."""
    store = tmp_path_factory.mktemp("store")
    certify_all(stage.plan(dump, store, BUDGETS, limits=stage.Limits(300, 5.0, floors=FLOORS)))
    return certificates(store)


def test_every_instance_is_there_once_under_every_floor(frame: pl.DataFrame):
    assert len(frame) == 2 * LAYERS * HEADS * ROWS * len(BUDGETS) * len(FLOORS)
    assert frame.select(KEY).is_unique().all()
    assert set(frame["mass_floor"]) == {0.0, 0.9}
    assert frame.columns == list(CERTIFICATES)


def test_columns_agree_with_the_front_door(frame: pl.DataFrame, dump: Path):
    document = open_dump(dump).document(1)
    for got in frame.filter(document=1).iter_rows(named=True):
        r = document.query_positions.tolist().index(got["position"])
        row = document.row(got["layer"], got["head"], r)
        top = top_mass(row, got["s"])
        assert got["kv_head"] == got["head"] // (HEADS // KV_HEADS)
        assert got["n_keys"] == row.n_keys
        assert got["dropped_mass"] == pytest.approx(dropped_mass(row, top), rel=1e-12)
        assert got["e_top"] == pytest.approx(forced_error(row, top), rel=1e-12)
        assert got["es_upper"] == pytest.approx(forced_error(row, got["kept"]), rel=1e-9)
        assert 0 <= got["es_lower"] <= got["es_upper"]
        assert got["kept_mass"] == pytest.approx(row.masses[got["kept"]].sum())
        assert got["top_share"] == pytest.approx(got["kept_mass"] / row.masses[top].sum())
        assert len(got["kept"]) == min(got["s"], row.n_keys)
        assert (got["status"] == "trivial") == (got["n_keys"] <= got["s"])
        assert got["proof_bytes"] == (got["proof"] and len(got["proof"]))
        if got["status"] == "trivial":
            assert (got["e_top"], got["es_upper"]) == (0, 0)
            assert got["closable_lower"] is got["closable_upper"] is None
            assert not got["degenerate"]
        else:
            assert got["closable_lower"] == 1 - got["es_upper"] / got["e_top"]
            assert got["closable_upper"] == 1 - got["es_lower"] / got["e_top"]


def test_it_joins_with_what_enumeration_found(dump: Path, tmp_path: Path, toy: None):
    list(enumerate_stage.run(enumerate_stage.plan(dump, tmp_path, (2,))))
    certify_all(stage.plan(dump, tmp_path, (2,)))
    sql = (
        "SELECT count(*) AS n, max(abs(i.e_top - c.e_top) / i.e_top) AS top, "
        "max(abs(i.dropped_mass - c.dropped_mass)) AS mass, sum(i.n_keys - c.n_keys) AS keys "
        "FROM instances i JOIN certificates c ON i.document = c.document AND i.layer = c.layer "
        "AND i.head = c.head AND i.position = c.position AND i.s = c.s"
    )
    n, top, mass, keys = run_sql(open_store(tmp_path), sql).row(0)
    assert (n, keys) == (2 * LAYERS * HEADS * ROWS, 0)
    assert max(top, mass) < 1e-12


def test_degenerate_rows_have_no_ratios(dump: Path, toy: None, monkeypatch: pytest.MonkeyPatch):
    row = open_dump(dump).document(0).row(0, 0, 0)
    assert stage.measured(row, 2, toy_certify(row, 2))["closable_upper"] == pytest.approx(1 - CLAIM)
    monkeypatch.setattr(stage, "DEGENERATE", 10.0)
    got = stage.measured(row, 2, toy_certify(row, 2))
    assert got["degenerate"]
    assert got["closable_lower"] is got["closable_upper"] is None


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_an_interval_that_is_none_never_reaches_the_store(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: tuple[float, float]
):
    wrong = Certificate(*bounds, np.array([0, 1]), Status.GAP, 1, 0.0, "nodes", None, None)
    monkeypatch.setattr(stage, "certify", lambda *a, **k: wrong)
    with pytest.raises(ArithmeticError, match=r"certify: the interval .* is none"):
        certify_all(stage.plan(dump, tmp_path, (2,)))
    assert list(tmp_path.glob("certificates/**/*.parquet")) == []


def test_a_second_run_has_nothing_to_do_and_a_hole_is_filled(dump: Path, tmp_path: Path, toy: None):
    done = certify_all(stage.plan(dump, tmp_path, BUDGETS))
    assert (done[0].unit, done[0].intervals, done[0].proved) == (stage.Unit(0, 0), HEADS * ROWS * 2, 0)
    assert done[0].nodes == 7 * (HEADS * ROWS * 2 - done[0].trivial)
    before = certificates(tmp_path)
    assert stage.plan(dump, tmp_path, BUDGETS).todo == ()
    sorted(tmp_path.glob("certificates/**/*.parquet"))[2].unlink()
    again = stage.plan(dump, tmp_path, BUDGETS)
    assert again.todo == (stage.Unit(1, 0),)
    assert again.instances == HEADS * ROWS * 2
    certify_all(again)
    assert_frame_equal(certificates(tmp_path).drop("host"), before.drop("host"))
    assert [each.kept for each in stage.run_units(again, again.units)] == [True] * 4


def test_a_manifest_is_certified_and_nothing_else(dump: Path, manifest: Manifest, tmp_path: Path, toy: None):
    manifest.write(tmp_path / "instances.csv")
    plan = stage.plan(dump, tmp_path / "store", manifest=tmp_path / "instances.csv")
    assert plan.budgets == (2, 4)
    assert plan.instances == 20
    assert set(plan.units) == {(each.document, each.layer) for each in manifest.instances}
    certify_all(plan)
    got = certificates(tmp_path / "store")
    columns = ["document", "layer", "head", "position", "s", "n_keys", "decile"]
    wanted = sorted(tuple(getattr(each, name) for name in columns) for each in manifest.instances)
    assert got.select(columns).sort(columns).rows() == wanted


def test_a_manifests_shards_never_pass_for_the_whole_dumps(
    dump: Path, manifest: Manifest, tmp_path: Path, toy: None
):
    part, whole = stage.plan(dump, tmp_path, manifest=manifest), stage.plan(dump, tmp_path, (2, 4))
    assert part.config != whole.config
    certify_all(part)
    assert len(stage.plan(dump, tmp_path, (2, 4)).todo) == 2 * LAYERS
    fewer = Manifest(manifest.instances[1:])
    assert stage.plan(dump, tmp_path, manifest=fewer).todo != ()
    assert stage.plan(dump, tmp_path, manifest=manifest).todo == ()


def test_all_that_decides_a_result_is_part_of_its_identity(dump: Path, tmp_path: Path):
    changes: list[dict] = [
        {},
        {"nodes": 5},
        {"seconds": 5},
        {"gap": 1e-3},
        {"seed": 1},
        {"floors": (0.9,)},
        {"floors": (0.0, 0.9)},
    ]
    plans = [stage.plan(dump, tmp_path, (2,), limits=stage.Limits(**change)) for change in changes]
    plans.append(stage.plan(dump, tmp_path, (2, 4)))
    assert len({plan.config for plan in plans}) == len(plans)
    same = [stage.Limits(seconds=5, floors=(0.5, 0)), stage.Limits(seconds=5.0, floors=(0.0, 0.5))]
    assert len({stage.plan(dump, tmp_path, (2,), limits=limits).config for limits in same}) == 1


def test_several_configurations_are_named_before_they_are_read(dump: Path, tmp_path: Path, toy: None):
    list(enumerate_stage.run(enumerate_stage.plan(dump, tmp_path, (2,))))
    plans = [stage.plan(dump, tmp_path, (2,), limits=stage.Limits(nodes)) for nodes in (5, 6)]
    for plan in plans:
        certify_all(plan)
    assert open_store(tmp_path).instances.collect().height > 0  # these are of one
    with pytest.raises(InputError, match=r"2 configurations .*; name one with --config"):
        certificates(tmp_path)
    assert set(certificates(tmp_path, plans[1].config)["config"]) == {plans[1].config}
    assert open_store(tmp_path, plans[1].config).instances.collect().height > 0


def test_health_and_a_compact_copy_know_certificates(
    dump: Path, manifest: Manifest, tmp_path: Path, toy: None
):
    whole, part = tmp_path / "whole", tmp_path / "part"
    certify_all(stage.plan(dump, whole, BUDGETS))
    certify_all(stage.plan(dump, part, manifest=manifest))
    for store in (whole, part):
        assert check_store(store).problems == []
        compact_store(store, tmp_path / f"{store.name}-compact")
        assert_frame_equal(certificates(tmp_path / f"{store.name}-compact"), certificates(store))
        assert check_store(tmp_path / f"{store.name}-compact").problems == []
        sorted(store.glob("certificates/**/*.parquet"))[2].unlink()
    (hole,) = check_store(whole).problems
    assert hole.where.startswith("certificates/dump=")
    assert hole.what == "documents 1, layers 0: 1 shard missing"
    assert check_store(part).problems == []  # a manifest wants some units only


def test_large_proofs_make_small_parts(
    dump: Path, tmp_path: Path, toy: None, monkeypatch: pytest.MonkeyPatch
):
    """A part is sorted in memory, and reading one proof decodes the proofs of its row group."""
    certify_all(stage.plan(dump, tmp_path / "store", (2,)))
    size = certificates(tmp_path / "store").estimated_size()
    monkeypatch.setattr("ceiling.store.compact.PART_BYTES", size // 3)
    monkeypatch.setattr("ceiling.store.compact.GROUP_BYTES", size // 12)
    assert compact_store(tmp_path / "store", tmp_path / "new").parts == 2 + 2  # two of each, two small tables
    for part in (tmp_path / "new").glob("certificates/**/*.parquet"):
        groups = [
            pq.ParquetFile(part).metadata.row_group(k) for k in range(pq.ParquetFile(part).num_row_groups)
        ]
        assert len(groups) > 2
    assert_frame_equal(certificates(tmp_path / "new"), certificates(tmp_path / "store"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": 0}, "nodes: 0 is not positive"),
        ({"seconds": 0.0}, "seconds: 0.0 is no positive length"),
        ({"seconds": float("inf")}, "seconds: inf"),
        ({"gap": 0.0}, "gap: 0.0 is outside 1e-07"),
        ({"gap": 9e-8}, "gap: 9e-08 is outside"),
        ({"gap": 1.0}, "gap: 1.0 is outside"),
        ({"gap": float("nan")}, "gap: nan"),
        ({"floors": ()}, "mass-floor: none given"),
        ({"floors": (1.5,)}, "mass-floor: 1.5 is outside 1e-06"),
        ({"floors": (9e-7,)}, "mass-floor: 9e-07 is outside"),
        ({"floors": (-0.5,)}, "mass-floor: -0.5 is outside"),
        ({"floors": (float("nan"),)}, "mass-floor: nan"),
        ({"floors": (0.0, 0.0)}, "mass-floor: none is repeated"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 2**63}, "seed: 9223372036854775808"),
    ],
)
def test_bad_limits_are_refused(change: dict, said: str):
    with pytest.raises(InputError, match=said):
        stage.Limits(**change)


def test_bad_input_is_refused_before_work(dump: Path, manifest: Manifest, tmp_path: Path):
    for budgets, said in (((0,), "0 is not positive"), ((49,), "49 keys are more than the 48")):
        with pytest.raises(InputError, match=f"budgets: {said}"):
            stage.plan(dump, tmp_path / "store", budgets)
    with pytest.raises(InputError, match="the manifest has its own"):
        stage.plan(dump, tmp_path / "store", (2,), manifest=manifest)
    with pytest.raises(InputError, match="is a dump"):
        stage.plan(dump, dump)
    assert not (tmp_path / "store").exists()


def test_what_no_proof_can_name_is_refused(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stage, "MOST_KEPT", 8)
    with pytest.raises(InputError, match="budgets: 9; at most 8 keys are certified"):
        stage.plan(dump, tmp_path / "store", (2, 9))
    monkeypatch.setattr(stage, "MAX_DIMENSION", 7)
    with pytest.raises(InputError, match="values of dimension 8; at most 7 is certified"):
        stage.plan(dump, tmp_path / "store", (2,))


def test_a_bad_row_is_named_and_finished_shards_stay(tmp_path: Path, toy: None):
    dump = write_toy_dump(tmp_path / "dump", spoil="nan")
    with pytest.raises(InputError, match=r"document 0, layer 1, head 1, row 2: .*not finite"):
        certify_all(stage.plan(dump, tmp_path / "store"))
    shards = (tmp_path / "store").glob("certificates/**/*.parquet")
    assert [path.name for path in shards] == ["doc-00000.layer-00.parquet"]


def test_a_dump_that_became_another_is_not_certified(tmp_path: Path, toy: None):
    dump = write_toy_dump(tmp_path / "dump")
    plan = stage.plan(dump, tmp_path / "store")
    (tmp_path / "dump").rename(tmp_path / "old")
    write_toy_dump(tmp_path / "dump", seed=1)
    with pytest.raises(InputError, match=r"it was .* when the run was planned"):
        certify_all(plan)
