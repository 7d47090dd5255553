"""Scores of a dump: against plain numpy and the enumeration; resumption, bad numbers."""

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling import balance, open_store
from ceiling.dump import Document, open_dump
from ceiling.problem import InputError
from ceiling.search import head_of
from ceiling.selectors import SELECTORS
from ceiling.stages import capture, enumerate, score, scoring, spread
from ceiling.store.schema import IDENTITY
from tests.tiny_models import save
from tests.toy_dump import HEADS, KV_HEADS, LAYERS, ROWS, write_toy_dump

ROOT = Path(__file__).parents[1]
KEY = list(IDENTITY["scores"])
BUDGETS, NATIVE = (2, 4, 20), (3, 5)
GROUP = HEADS // KV_HEADS
WINDOW = 16
CLOSE: dict[str, Any] = {"rel": 1e-9, "abs": 1e-12}
"""The oracle subtracts two outputs of length about 1, which costs digits."""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without queries; layer 1 sees 16 keys."""
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model's, with queries; every layer sees 16 keys."""
    folder = tmp_path_factory.mktemp("captured")
    (folder / "prose.txt").write_text("The cache keeps a few keys and drops the rest, come what may. " * 3)
    model = str(save(folder / "mistral", "mistral"))
    options: dict[str, Any] = {"tokens": 48, "documents": 2, "rows": ROWS, "device": "cpu", "queries": True}
    return capture.run(capture.plan(model, str(folder / "prose.txt"), out=folder / "dump", **options))


def scored(store: Path, plan: score.Plan) -> pl.DataFrame:
    list(score.run(plan))
    return open_store(store, plan.config).scores.sort(KEY).collect()


@pytest.fixture(scope="module")
def of_toy(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    store = tmp_path_factory.mktemp("store")
    return scored(store, score.plan(toy, store, budgets=BUDGETS, native=NATIVE))


@pytest.fixture(scope="module")
def of_captured(captured: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    store = tmp_path_factory.mktemp("store")
    return scored(store, score.plan(captured, store, budgets=(4, 8)))


def rows_of(document: Document, got: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    """Masses of all heads of the group, values, and the row's place in the group."""
    layer, kv_head, n = got["layer"], got["kv_head"], got["position"] + 1
    r = document.query_positions.tolist().index(got["position"])
    first = kv_head * GROUP
    masses = document.masses(layer)[first : first + GROUP, r, :n].astype(float)
    masses /= masses.sum(axis=1, keepdims=True)
    return masses, document.values(layer)[kv_head, :n].astype(float), got["head"] - first


def leading(scores: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-scores, kind="stable")[:count].tolist())


def softmax_before(document: Document, got: dict[str, Any]) -> np.ndarray:
    """Rows of the query before a sampled one, recomputed, [group, position]; 0 outside its window."""
    layer, kv_head, position = got["layer"], got["kv_head"], got["position"]
    queries = document.queries(layer)[kv_head * GROUP :][:GROUP, position - 1].astype(float)
    keys = document.keys(layer)[kv_head, :position].astype(float)
    logits = queries @ keys.T * document.dump.scaling[layer]
    logits[:, : max(0, position - WINDOW)] = -np.inf
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def wanted_set(document: Document, got: dict[str, Any]) -> set[int] | None:
    """What some rules keep of a row, straight from their definitions."""
    masses, _, g = rows_of(document, got)
    s, position = got["s"], got["position"]
    first = max(0, position + 1 - WINDOW)
    match got["selector"], got["reading"]:
        case (("top-mass" | "tova"), "per-query"):
            return leading(masses[g], got["kept_count"])
        case "group-vote", _:
            return leading(masses.sum(axis=0), s)
        case "streaming-llm", _:
            sinks = range(first, min(4, s // 2))  # none where they are out of sight
            return {*sinks, *range(position + 1 - s + len(sinks), position + 1)}
        case "tova", "cache":
            before = softmax_before(document, got).mean(axis=0)
            before[:first] = 0  # gone by the time the query comes
            return leading(before, s - 1) | {position}
    return None


def test_errors_are_those_of_the_definition(captured: Path, of_captured: pl.DataFrame):
    checked, documents = 0, [open_dump(captured).document(index) for index in range(2)]
    for got in of_captured.iter_rows(named=True):
        document = documents[got["document"]]
        masses, values, g = rows_of(document, got)
        p, top = masses[g], leading(masses[g], got["s"])
        kept = wanted_set(document, got)
        assert got["n_keys"] == np.count_nonzero(p) == WINDOW
        assert got["dropped_mass"] == pytest.approx(1 - p[sorted(top)].sum(), **CLOSE)
        assert got["sigma"] == pytest.approx(np.sqrt(p @ ((values - p @ values) ** 2).sum(axis=1)))
        for chosen, error in ((top, got["e_top"]), (kept, got["error"])):
            if chosen is not None:
                at = sorted(chosen)
                sparse = p[at] @ values[at] / p[at].sum()
                assert error == pytest.approx(np.linalg.norm(p @ values - sparse), **CLOSE), (
                    got["selector"],
                    got["reading"],
                    got["s"],
                    got["position"],
                    at,
                )
        if kept is not None:
            checked += 1
            assert got["kept_count"] == len(kept)
            assert got["kept_mass"] == pytest.approx(p[sorted(kept)].sum())
            assert got["overlap"] == pytest.approx(len(kept & leading(p, len(kept))) / len(kept))
    assert checked > len(of_captured) / 3


def test_every_set_is_there_once(of_captured: pl.DataFrame, of_toy: pl.DataFrame):
    for frame in (of_captured, of_toy):
        assert frame.select(KEY).is_unique().all()
        per_row = frame.group_by("document", "layer", "head", "position").len()["len"]
        assert per_row.n_unique() == 1
        shared = frame.filter((pl.col("reading") == "cache") | (pl.col("selector") == "group-vote"))
        assert set(shared["group"]) == {GROUP}
        assert set(frame.join(shared, on=KEY, how="anti")["group"]) == {1}
    pairs = {(name, reading) for name, selector in SELECTORS.items() for reading in selector.rules}
    least = {name for name, selector in SELECTORS.items() if selector.least > 8}
    assert set(of_captured.select("selector", "reading").rows()) == {
        pair for pair in pairs | {("balancing", "per-query")} if pair[0] not in least
    }


def test_scores_agree_with_the_enumeration(toy: Path, of_toy: pl.DataFrame, tmp_path: Path):
    list(enumerate.run(enumerate.plan(toy, tmp_path, BUDGETS)))
    instances = open_store(tmp_path).instances.collect()
    key = ["document", "layer", "head", "position", "s"]
    both = of_toy.filter(allocation="uniform", reading="per-query").join(instances, on=key, suffix="_other")
    assert_frame_equal(
        both.select("n_keys", "e_top", "sigma", "dropped_mass", "degenerate", "text_id", "kv_head"),
        both.select(
            pl.col(f"{name}_other").alias(name)
            for name in ("n_keys", "e_top", "sigma", "dropped_mass", "degenerate", "text_id", "kv_head")
        ),
        rel_tol=1e-11,
    )
    assert (both["trivial"] == (both["status"] == "trivial")).all()
    assert both["trivial"].any()
    for selector, column in (
        ("top-mass", "e_top"),
        ("balancing", "e_balance"),
        ("leverage", "e_leverage"),
        ("geometric", "e_geometric"),
    ):
        part = both.filter(selector=selector)
        assert len(part) == len(instances)
        assert part["error"].to_numpy() == pytest.approx(part[column].to_numpy(), rel=1e-9, abs=1e-14)
    exact = of_toy.filter(selector="top-mass", allocation="uniform")
    assert (exact["error"] == exact["e_top"]).all()


def test_native_budgets_are_balanced_from_24_further_keys(toy: Path, of_toy: pl.DataFrame):
    native = of_toy.filter(pl.col("s").is_in(NATIVE))
    assert set(native["selector"]) == {"top-mass", "balancing"}
    fair = native.filter(~pl.col("trivial"), selector="balancing")
    assert len(fair) > 0
    for got in fair.iter_rows(named=True):
        document = open_dump(toy).document(got["document"])
        row = document.row(
            got["layer"], got["head"], document.query_positions.tolist().index(got["position"])
        )
        assert got["error"] == pytest.approx(balance(row, got["s"], extra=24).error, rel=1e-12)


def test_a_row_of_few_keys_keeps_them_all(of_toy: pl.DataFrame):
    trivial = of_toy.filter("trivial")
    assert (trivial["n_keys"] <= trivial["s"]).all()
    assert (of_toy.filter(~pl.col("trivial"))["n_keys"] > of_toy.filter(~pl.col("trivial"))["s"]).all()
    assert set(trivial.select("error", "e_top", "kept_mass", "overlap").rows()) == {(0.0, 0.0, 1.0, 1.0)}
    assert (trivial["kept_count"] == trivial["n_keys"]).all()
    assert not trivial["degenerate"].any()


def test_allocations_spend_what_uniform_spends(toy: Path, of_toy: pl.DataFrame):
    panel = of_toy.filter(selector="top-mass").filter(pl.col("s").is_in(BUDGETS))
    assert set(panel["allocation"]) == {"uniform", *spread.ALLOCATIONS}
    spent = panel.group_by("document", "position", "s", "allocation").agg(pl.col("kept_count").sum())
    assert spent.group_by("document", "position", "s").agg(pl.col("kept_count").n_unique())[
        "kept_count"
    ].to_list() == [1] * (2 * ROWS * len(BUDGETS))
    greedy = panel.filter(~pl.col("trivial"), allocation="mass-greedy", s=4)
    assert greedy["kept_count"].n_unique() > 3
    documents = [open_dump(toy).document(index) for index in range(2)]
    for got in greedy.iter_rows(named=True):  # a cell keeps its largest masses, whatever their number
        document = documents[got["document"]]
        masses, values, g = rows_of(document, got)
        at = sorted(leading(masses[g], got["kept_count"]))
        sparse = masses[g, at] @ values[at] / masses[g, at].sum()
        error = 0 if got["kept_count"] == got["n_keys"] else np.linalg.norm(masses[g] @ values - sparse)
        assert got["error"] == pytest.approx(error, **CLOSE)


def test_the_map_knows_the_median_dropped_mass(toy: Path):
    dump = open_dump(toy)
    medians = spread.median_dropped(dump)
    for layer, head in np.ndindex(LAYERS, HEADS):
        rows = np.concatenate([dump.document(i).masses(layer)[head] for i in range(2)]).astype(float)
        kept = np.sort(rows, axis=1)[:, -spread.MAP_BUDGET :].sum(axis=1) / rows.sum(axis=1)
        assert medians[layer, head] == pytest.approx(np.median(1 - kept), abs=1e-7)


def test_a_set_without_mass_has_no_error(tmp_path: Path):
    """A cache may hold only keys that turn out to have no mass: the operator is undefined there."""
    dump = write_toy_dump(tmp_path / "dump")
    document = open_dump(dump).document(0)
    n = int(document.query_positions[0]) + 1
    file = np.memmap(document.path, mode="r+", offset=document._tensors["masses.0"].offset, dtype=np.float32)
    file[:n] = [1 / (n - 1)] * (n - 1) + [0]  # head 0, row 0: none at the query's own key
    file.flush()
    frame = scored(tmp_path / "store", score.plan(dump, tmp_path / "store", ["streaming-llm"], budgets=[1]))
    alone = frame.filter(pl.col("error").is_null())
    assert alone.select("document", "layer", "head", "position", "reading").rows() == [
        (0, 0, 0, n - 1, "cache")
    ]
    assert alone["kept_mass"].to_list() == [0.0]


def test_keeping_every_key_is_exact():
    values = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    weights = np.array([0.5, 0, 0.25, 0, 0.125, 0, 0.125, 0, 0], dtype=np.float32)
    row = scoring.describe(head_of(values), weights, np.array([2, 4]), 4)
    assert row is not None
    found = scoring.score(
        head_of(values), row, [np.array([0, 2, 4, 6]), np.array([0, 1, 2, 4, 6]), row.top(2)]
    )
    assert found.error[:2].tolist() == [0, 0]
    assert found.error[2] > 0
    assert found.size.tolist() == [4, 5, 2]
    assert row.top(2).tolist() == [0, 2]
    assert row.top(3).tolist() == [0, 2, 4], "ties go to the lowest position"


def test_a_second_run_has_nothing_to_do_and_a_hole_is_filled(
    captured: Path, of_captured: pl.DataFrame, tmp_path: Path
):
    before = scored(tmp_path, score.plan(captured, tmp_path, budgets=(4, 8)))
    assert score.plan(captured, tmp_path, budgets=(4, 8)).todo == ()
    shards = sorted(tmp_path.glob("scores/**/*.parquet"))
    shards[2].write_bytes(shards[2].read_bytes()[:-9])
    shards[4].unlink()
    again = score.plan(captured, tmp_path, budgets=(4, 8))
    assert again.todo == (score.Unit(0, 2), score.Unit(1, 1))
    assert_frame_equal(scored(tmp_path, again).drop("seconds", "host"), before.drop("seconds", "host"))
    assert_frame_equal(of_captured.drop("seconds", "host"), before.drop("seconds", "host"))


RUN = """
import sys
from ceiling.stages import score
for _ in score.run(score.plan(sys.argv[1], sys.argv[2], budgets=(2, 4))):
    pass
"""


def test_a_killed_run_resumes_to_the_same_scores(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", documents=12)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(dump), str(tmp_path / "killed")], cwd=ROOT)
    for _ in itertools.count():
        if len(list((tmp_path / "killed").glob("scores/**/*.parquet"))) >= 2:
            break
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    plan = score.plan(dump, tmp_path / "killed", budgets=(2, 4))
    assert 0 < len(plan.todo) < len(plan.units)
    resumed = scored(tmp_path / "killed", plan)
    whole = scored(tmp_path / "whole", score.plan(dump, tmp_path / "whole", budgets=(2, 4)))
    assert_frame_equal(resumed.drop("seconds", "host"), whole.drop("seconds", "host"))


def test_tova_is_compared_with_top_mass(captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scoring.Described, "top", lambda self, count: np.arange(count))
    with pytest.raises(
        ArithmeticError, match=r"document 0, layer 0, head 0, .* tova is not the top-mass set"
    ):
        list(score.run(score.plan(captured, tmp_path, ["tova"], budgets=[4])))


def test_a_budget_below_a_rules_least_is_refused(captured: Path, tmp_path: Path):
    with pytest.raises(InputError, match="quest-16 takes budgets from 16 on; the largest is 8"):
        score.plan(captured, tmp_path, ["quest-16"], budgets=(4, 8))


@pytest.mark.parametrize("spoil", ["nan", "negative", "sum", "zero", "values", "keys"])
@pytest.mark.parametrize("allocations", [(), None])
def test_bad_numbers_are_named(tmp_path: Path, spoil: str, allocations: tuple[str, ...] | None):
    dump = write_toy_dump(tmp_path / "dump", spoil=spoil)
    plan = score.plan(dump, tmp_path / "store", budgets=(4,), allocations=allocations)
    place = "KV head 0" if spoil in ("values", "keys") else "head 1, row 2"
    with pytest.raises(InputError, match=f"document 0, layer 1, {place}"):
        list(score.run(plan))
    rest = [unit for unit in plan.units if unit.document == 1]
    assert len(list(score.run_units(plan, rest))) == LAYERS


def test_another_dump_in_its_place_is_refused(toy: Path, tmp_path: Path):
    plan = score.plan(toy, tmp_path / "store")
    other = write_toy_dump(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="when the run was planned"):
        list(score.run(score.replace(plan, dump=other)))
    with pytest.raises(InputError, match="is a dump"):
        score.plan(toy, toy)
