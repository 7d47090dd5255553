"""Losses of a dump: arms against the operator itself, the map of other documents, resumption, refusals."""

import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ceiling import models, open_store
from ceiling.dump import open_dump
from ceiling.loss import Cells, compare, dense
from ceiling.problem import InputError
from ceiling.selectors import resolve
from ceiling.stages import capture, loss
from ceiling.store import check_store
from ceiling.store.schema import IDENTITY
from tests.test_cli import Run, run  # noqa: F401
from tests.tiny_models import save
from tests.toy_dump import write_toy_dump

KEY = list(IDENTITY["losses"])
DRAWS = 2
RULE = "def last(sight, count):\n    return sight.candidates[-count:]\n"
PROSE = (
    "The cache keeps a few keys and drops the rest, o",
    "come what may; some of them are read again later",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model and a dump of three documents of 48 tokens, one of them of nothing but one token."""
    folder = tmp_path_factory.mktemp("loss")
    (folder / "prose.txt").write_text(PROSE[0] + "a" * 48 + PROSE[1] + " " * 3)
    model = str(save(folder / "mistral", "mistral", initializer_range=0.2, sliding_window=24))
    options: dict[str, Any] = {"tokens": 48, "documents": 3, "rows": 4, "device": "cpu"}
    capture.run(capture.plan(model, str(folder / "prose.txt"), out=folder / "dump", **options))
    return folder


def planned(place: Path, store: Path, selectors: list[str] | None = None, **changes: Any) -> loss.Plan:
    options: dict[str, Any] = {
        "model": str(place / "mistral"),
        "budgets": (4,),
        "draws": DRAWS,
        "device": "cpu",
    } | changes
    return loss.plan(place / "dump", store, selectors, **options)


def lost(store: Path, config: str | None = None) -> pl.DataFrame:
    return open_store(store, config).losses.sort(KEY).collect()


@pytest.fixture(scope="module")
def records(place: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    store = tmp_path_factory.mktemp("store")
    list(loss.run(planned(place, store)))
    return lost(store)


def test_every_arm_of_every_document_is_there(place: Path, records: pl.DataFrame):
    arms = [("top-mass", "none", 0), ("top-mass", "all", 0), ("top-mass", "flat", 0)]
    arms += [("top-mass", "random", draw) for draw in range(DRAWS)]
    arms += [
        (rule, cells, 0) for rule in ("snapkv", "h2o", "quest", "streaming-llm") for cells in ("none", "flat")
    ]
    expected = [(document, 4, *arm) for document in range(3) for arm in arms]
    assert sorted(records.select(KEY).rows()) == sorted(expected)
    assert set(records["tokens"]) == set(records["context"]) == {24}
    assert (records["deviation"] <= 1e-5).all()
    assert records["config"].n_unique() == records["dump"].n_unique() == 1


def test_a_record_is_the_operators_on_the_map_of_the_other_documents(place: Path, records: pl.DataFrame):
    dump, model = open_dump(place / "dump"), models.load(models.resolve(str(place / "mistral")), "cpu").model
    own = dense(model, dump.document(1).tokens, 24)

    def flat_over(*documents: int) -> np.ndarray:
        rows = [
            [np.sort(dump.document(i).masses(layer))[..., :-8].sum(axis=-1) for layer in dump.layers]
            for i in documents
        ]
        return np.asarray(np.median(np.concatenate(rows, axis=2), axis=2) > 0.25)

    flat = flat_over(0, 2)
    assert 0 < flat.sum() < flat.size
    assert not np.array_equal(flat, flat_over(0, 1, 2)), "whether document 1 is left out shows nowhere"
    for rule, cells in (("top-mass", "flat"), ("snapkv", "flat"), ("top-mass", "all"), ("h2o", "none")):
        balanced = {"flat": flat, "all": np.ones_like(flat), "none": np.zeros_like(flat)}[cells]
        found = compare(model, own, Cells(4, resolve(rule), balanced))
        row = records.row(by_predicate=(pl.col("document") == 1) & (pl.col("rule") == rule)
                          & (pl.col("balanced") == cells), named=True)  # fmt: skip
        assert row["loss"] == pytest.approx(found.loss, rel=1e-9)
        assert row["kl"] == pytest.approx(found.kl, rel=1e-9)
        assert (row["agreement"], row["dense_loss"]) == (found.agreement, pytest.approx(own.loss, rel=1e-9))
        assert (row["balanced_cells"], row["cells"]) == (balanced.sum(), flat.size)


def test_random_cells_are_as_many_as_flat_ones_and_drawn_anew():
    flat = np.random.default_rng(0).random((5, 4)) < 0.3
    drawn = [loss.chosen_cells(loss.Arm(8, "top-mass", "random", k), flat, [0, 3, k]) for k in range(40)]
    assert {int(cells.sum()) for cells in drawn} == {int(flat.sum())}
    assert len({cells.tobytes() for cells in drawn}) > 30
    share = np.mean(drawn, axis=0)
    assert 0 < share.min() < share.max() < 0.7, "some cells are never, or nearly always, drawn"
    again = loss.chosen_cells(loss.Arm(8, "top-mass", "random", 7), flat, [0, 3, 7])
    assert np.array_equal(again, drawn[7])


def test_a_killed_run_resumes_to_the_same_records(
    run: Run,  # noqa: F811
    place: Path,
    tmp_path: Path,
    records: pl.DataFrame,
):
    steps = cast("Generator[loss.Done]", loss.run(planned(place, tmp_path)))
    next(steps)
    steps.close()
    assert len(lost(tmp_path)) == len(records) // 3
    plan = planned(place, tmp_path)
    assert plan.todo == (loss.Unit(1), loss.Unit(2))
    list(loss.run(plan))
    assert not planned(place, tmp_path).todo
    assert_frame_equal(lost(tmp_path).drop("seconds", "host"), records.drop("seconds", "host"))
    assert check_store(tmp_path).problems == []
    next(tmp_path.glob("losses/**/doc-00001.parquet")).unlink()
    problems = check_store(tmp_path).problems
    assert [p.what for p in problems] == ["documents 1: 1 shard missing"]
    assert (
        "run the command that made it again" in run("store", "check", "--store", tmp_path)[1].splitlines()[-1]
    )
    next(tmp_path.glob("rows/**/doc-00002.parquet")).unlink()
    assert [p.where.split("/")[0] for p in check_store(tmp_path).problems] == ["losses", "rows"]


def test_a_rule_scored_later_stands_beside_the_others(place: Path, tmp_path: Path):
    for names in (["top-mass"], ["quest"]):
        list(loss.run(planned(place, tmp_path, names, documents=1)))
    assert set(lost(tmp_path)["rule"]) == {"top-mass", "quest"}
    list(loss.run(planned(place, tmp_path, ["quest", "h2o"], documents=1)))
    with pytest.raises(InputError, match="3 configurations"):
        lost(tmp_path)


def test_other_continuations_are_not_mixed_with_them(place: Path, tmp_path: Path):
    for names, context in ((["top-mass"], 24), (["quest"], 20)):
        list(loss.run(planned(place, tmp_path, names, documents=1, context=context)))
    with pytest.raises(InputError, match="2 configurations"):
        lost(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"draws": 3}, {"tokens": 40}, {"context": 20}, {"dtype": "bfloat16"}, {"budgets": (5,)}],
    ids=str,
)
def test_what_changes_a_record_changes_the_configuration(
    place: Path, tmp_path: Path, changes: dict[str, Any]
):
    assert planned(place, tmp_path, **changes).config != planned(place, tmp_path).config
    assert planned(place, tmp_path, documents=1).config == planned(place, tmp_path).config


def test_another_source_of_a_rule_is_another_configuration(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    configs = []
    for text in (RULE, RULE + "\n"):
        (tmp_path / "stage_losing.py").write_text(text)
        configs.append(planned(place, tmp_path, ["stage_losing:last"]).config)
    assert len(set(configs)) == 2
    (tmp_path / "stage_losing.py").write_text(RULE + "\n\nlast.reading = 'cache'\n")
    with pytest.raises(InputError, match="selector: stage_losing:last has no reading per-query"):
        planned(place, tmp_path, ["stage_losing:last"])
    sys.modules.pop("stage_losing")


def test_random_cells_hang_on_seed_document_and_draw(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seeds = []
    whole = loss.chosen_cells

    def noted(arm: loss.Arm, flat: np.ndarray, seed: list[int]) -> np.ndarray:
        seeds.append(tuple(seed))
        return whole(arm, flat, seed)

    monkeypatch.setattr(loss, "chosen_cells", noted)
    list(loss.run(planned(place, tmp_path, ["top-mass"], seed=7, documents=2)))
    assert set(seeds) == {(7, document, draw) for document in range(2) for draw in range(DRAWS)}


def test_half_precision_runs_under_its_own_limit(place: Path, tmp_path: Path):
    list(loss.run(planned(place, tmp_path, ["top-mass"], dtype="bfloat16", documents=1)))
    found = lost(tmp_path)
    assert 1e-3 < found["deviation"][0] < loss.LIMIT["bfloat16"]
    assert (found["loss"] > 0).all()


def test_a_model_that_gives_no_numbers_stops_the_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = models.load(models.resolve(str(place / "mistral")), "cpu").model
    model.model.norm.weight.data[0] = np.nan
    monkeypatch.setattr(loss, "_loaded", lambda *_: model)
    with pytest.raises(ArithmeticError, match="logits differ by nan from the unmodified model's"):
        list(loss.run(planned(place, tmp_path)))
    assert not list(tmp_path.glob("losses/**/*.parquet"))


@pytest.mark.parametrize("spoil", [lambda content: content[:-50], lambda content: b""])
def test_a_damaged_shard_is_found_and_done_again(place: Path, tmp_path: Path, spoil: Any):
    list(loss.run(planned(place, tmp_path, ["quest"], documents=1)))
    (shard,) = tmp_path.glob("losses/**/*.parquet")
    shard.write_bytes(spoil(shard.read_bytes()))
    assert [problem.where for problem in check_store(tmp_path).problems] == [str(shard.relative_to(tmp_path))]
    assert planned(place, tmp_path, ["quest"], documents=1).todo == (loss.Unit(0),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budgets": (0,)}, "budgets?: 0 is not positive"),
        ({"tokens": 10, "context": 5, "budgets": (5,)}, "budgets: 5 keys; the first prediction sees 5"),
        ({"budgets": (40,)}, "budgets: 40 keys; the first prediction sees 24"),
        ({"documents": 4}, "documents: 4 is not in 1..3"),
        ({"tokens": 49}, "tokens: 49 is not in 2..48"),
        ({"tokens": 10, "context": 10}, "context: 10 is not in 1..9"),
        ({"draws": 0}, "draws: 0"),
        ({"selectors": ["quest", "quest"]}, "selector: quest is repeated"),
        ({"selectors": ["quest-16"]}, "budgets: none is as large as the 16 keys"),
        ({"selectors": ["quust"]}, "selector: .*quust"),
        ({"dtype": "float64"}, "dtype: 'float64' is unknown"),
    ],
)
def test_bad_input_is_refused_before_work(place: Path, tmp_path: Path, changes: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        planned(place, tmp_path / "store", **changes)
    assert not (tmp_path / "store").exists()


def test_another_model_or_part_of_a_dump_is_refused(place: Path, tmp_path: Path):
    other = str(save(tmp_path / "llama", "llama"))
    with pytest.raises(InputError, match="has other weights than the model of dump"):
        planned(place, tmp_path / "store", model=other)
    wider = str(save(tmp_path / "wider", "mistral", initializer_range=0.2, sliding_window=30))
    with pytest.raises(InputError, match="has other config than the model of dump"):
        planned(place, tmp_path / "store", model=wider)
    with pytest.raises(InputError, match=r"model: mistral@\w+ was captured; say where it is with --model"):
        planned(place, tmp_path / "store", model=None)
    text = str(place / "prose.txt")
    some: dict[str, Any] = {"tokens": 48, "rows": 4, "device": "cpu"}
    for name, more in (("one", {"documents": 1}), ("part", {"documents": 2, "layers": [0, 2]})):
        capture.run(capture.plan(str(place / "mistral"), text, out=tmp_path / name, **some, **more))
        refusal = "has one document" if name == "one" else "holds 2 of 3 layers"
        with pytest.raises(InputError, match=refusal):
            loss.plan(tmp_path / name, tmp_path / "store", model=str(place / "mistral"))


def test_an_operator_that_is_not_the_model_stops_the_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loss, "everything", lambda attended: attended.masses > attended.masses.mean())
    with pytest.raises(ArithmeticError, match="document 0: with nothing restricted, logits differ by"):
        list(loss.run(planned(place, tmp_path)))
    assert not list(tmp_path.glob("losses/**/*.parquet"))


def test_the_command_says_what_it_would_do_and_did(run: Run, place: Path, tmp_path: Path):  # noqa: F811
    shutil.copytree(place / "dump", tmp_path / "dump")
    command: tuple[object, ...] = (
        "loss",
        "--dump",
        tmp_path / "dump",
        "--store",
        tmp_path / "store",
        "--model",
        place / "mistral",
    )
    command = (*command, "--budgets", "4", "--draws", "1", "--documents", "1", "--selector", "top-mass")
    code, out, _ = run(*command, "--dry-run")
    assert code == 0
    assert "units    1 of 1 documents to do\nwork     4 arms each, 24 tokens of context, 24 predicted" in out
    assert not (tmp_path / "store").exists()
    code, out, _ = run(*command)
    assert (code, out.startswith("1 shards, 4 records in ")) == (0, True)
    assert run(*command)[1] == f"nothing to do: all 1 shards exist in {tmp_path / 'store'}\n"


def test_a_toy_dump_of_no_model_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="was captured; say where it is with --model"):
        loss.plan(write_toy_dump(tmp_path / "toy"), tmp_path / "store")
