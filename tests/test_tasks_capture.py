"""Task texts through the capture stage: tags, retrieval rows, and bounds that are written down first."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ceiling import models, texts
from ceiling.capture import sample_positions
from ceiling.dump import open_dump
from ceiling.dump.manifest import REGISTERED, read_registered
from ceiling.problem import InputError
from ceiling.stages import capture as stage
from ceiling.stages.small_tables import write_small_tables
from ceiling.store import open_store
from ceiling.store.shards import Shards
from jobs import capture as job
from tests.tiny_models import save

OPTIONS: dict[str, Any] = {
    "tokens": 900,  # of bytes
    "documents": 4,
    "rows": 6,
    "layers": [1],
    "device": "cpu",
    "seed": 3,
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> str:
    return str(save(tmp_path_factory.mktemp("models") / "tiny-llama", max_position_embeddings=2048))


@pytest.fixture(scope="module")
def mixed(llama, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dumps") / "mixed"
    return stage.run(stage.plan(llama, "task:mixed", out=out, **OPTIONS))


def test_needles_and_retrieval_rows_are_tagged(llama, mixed):
    dump = open_dump(mixed, verify=True)
    coder = models.tokenizer(models.resolve(llama).fetch())
    for index, task in enumerate(texts.TASKS):
        document, made = dump.document(index), texts.instance(task, 3, 0)
        facts = sorted(fact.text for fact in made.facts if fact.asked)
        assert sorted(coder.decode(document.tokens[document.tags["needle"]])) == sorted("".join(facts))
        assert coder.decode(document.tokens).endswith(made.question + made.answer)
        read_off = coder.decode(document.tokens[[p + 1 for p in document.tags["retrieval"]]])
        assert read_off == "".join(gold.strip() for gold in made.golds)

        positions = document.query_positions.tolist()
        plain = sample_positions(900, 6, 3, index)
        tagged = set(positions) & set(document.tags["retrieval"])
        assert len(tagged) >= 2
        assert set(positions) - tagged <= set(plain)


def test_a_smaller_run_has_the_same_documents(llama, mixed, tmp_path):
    plan = stage.plan(llama, "task:mixed", out=tmp_path / "two", **OPTIONS | {"documents": 2})
    assert plan.tokens[1].tolist() == open_dump(mixed).document(1).tokens.tolist()
    assert list(plan.identity.positions[1]) == open_dump(mixed).document(1).query_positions.tolist()
    other = stage.plan(llama, "task:mixed", out=tmp_path / "two", **OPTIONS | {"documents": 2, "seed": 4})
    assert plan.tokens[0].tolist() != other.tokens[0].tolist()
    assert plan.text.sha256 != other.text.sha256


def test_bounds_are_on_the_disk_before_the_model_runs(llama, tmp_path, monkeypatch):
    plan = stage.plan(llama, "task:needle", out=tmp_path / "dump", **OPTIONS | {"documents": 1})
    seen = []

    def stopped(*_: object) -> None:
        (file,) = tmp_path.glob(f".dump.*/{REGISTERED}")
        seen.append(json.loads(file.read_text()))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stage, "probe", stopped)
        with pytest.raises(KeyboardInterrupt):
            stage.run(plan)
    assert seen == [dict(texts.BOUNDS)]
    dump = open_dump(stage.run(plan))
    assert read_registered(dump.path, dump.manifest) == dict(texts.BOUNDS)
    content = (dump.path / REGISTERED).read_bytes()
    assert dump.manifest["registered"] == {"sha256": hashlib.sha256(content).hexdigest()}


def interrupted(plan: stage.Plan, units: int) -> Path:
    """The unfinished folder of a run that was stopped after so many units."""
    left = iter(range(units - 1, -1, -1))

    def stop() -> None:
        if not next(left):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.run(plan, stop)
    (partial,) = plan.out.parent.glob(f".{plan.out.name}.*")
    return partial


def test_a_resumed_run_keeps_the_first_bounds_and_refuses_others(llama, tmp_path, monkeypatch):
    plan = stage.plan(llama, "task:needle", out=tmp_path / "dump", **OPTIONS)
    file = interrupted(plan, 2) / REGISTERED
    written = file.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(texts, "BOUNDS", {**texts.BOUNDS, "auc_min": 0.6})
        with pytest.raises(InputError, match="begun under other bounds"):
            stage.run(plan)
    stage.run(plan)
    assert (plan.out / REGISTERED).stat().st_mtime_ns == written


def test_bounds_after_the_first_document_are_refused(llama, tmp_path):
    plan = stage.plan(llama, "task:needle", out=tmp_path / "dump", **OPTIONS)
    (interrupted(plan, 2) / REGISTERED).unlink()
    with pytest.raises(InputError, match=r"begun without bounds; remove .*\.dump"):
        stage.run(plan)


def test_the_small_tables_carry_them(mixed, tmp_path):
    dump = open_dump(mixed)
    shards = Shards(tmp_path / "store", dump.id)
    shards.open()
    write_small_tables(dump, shards)
    store = open_store(tmp_path / "store")
    documents = store.documents.sort("document").collect()
    assert documents["text"].unique().to_list() == ["task:mixed"]
    assert [json.loads(bounds) for bounds in documents["registered"]] == [dict(texts.BOUNDS)] * 4
    assert documents["needles"].to_list() == [dump.document(i).tags["needle"] for i in range(4)]
    rows = store.rows.collect()
    for row in rows.iter_rows(named=True):
        tags = dump.document(row["document"]).tags
        assert row["tags"] == [name for name in ("needle", "retrieval") if row["position"] in tags[name]]
    assert sum("retrieval" in tags for tags in rows["tags"]) >= 0.2 * len(rows)


def test_bounds_that_changed_are_refused(mixed, tmp_path):
    shutil.copytree(mixed, tmp_path / "dump")
    file = tmp_path / "dump" / REGISTERED
    file.write_text(file.read_text().replace("0.7", "0.6"))
    dump = open_dump(tmp_path / "dump")
    with pytest.raises(InputError, match=r"registered\.json is altered"):
        write_small_tables(dump, Shards(tmp_path / "store", dump.id))
    file.unlink()
    with pytest.raises(InputError, match=r"cannot read .*registered\.json"):
        read_registered(dump.path, dump.manifest)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tags": [{}]}, "tags has 1 entries, expected 4"),
        ({"tags": "needle"}, "field tags is 'needle'"),
        (
            {"tags": [{"needle": [900]}, {}, {}, {}]},
            r"tags\[0\] is no table of names and positions in 0..899",
        ),
        ({"tags": [{}, [3], {}, {}]}, r"tags\[1\] is no table"),
        ({"registered": {}}, "field registered.sha256 is missing"),
    ],
)
def test_a_manifest_with_other_tags_is_refused(mixed, tmp_path, changes, words):
    shutil.copytree(mixed, tmp_path / "dump")
    file = tmp_path / "dump" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(InputError, match=words):
        open_dump(tmp_path / "dump")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text": "task:needles"}, "text: task 'needles' is unknown"),
        ({"tokens": 100}, "tokens: 100 are too few for task needle"),
        ({"rows": 60, "text": "task:needle"}, "rows: 60 ask for 12 retrieval rows, .* 7 tokens"),
        ({"documents": 10_000}, "the haystack of task .* ends after"),
        ({"seed": -1}, "seed: -1 is too small"),
    ],
)
def test_bad_input_is_named_before_anything_is_written(llama, tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        stage.plan(llama, **{"text": "task:mixed", "out": tmp_path / "dump", **OPTIONS, **changes})
    assert list(tmp_path.iterdir()) == []


def test_a_text_without_a_task_has_neither_tags_nor_bounds(llama, tmp_path):
    options = OPTIONS | {"tokens": 64, "documents": 1}
    dump = open_dump(stage.run(stage.plan(llama, "python-docs", out=tmp_path / "dump", **options)))
    assert not {"tags", "registered"} & dump.manifest.keys()
    assert not (dump.path / REGISTERED).exists()
    assert read_registered(dump.path, dump.manifest) is None


def test_the_job_names_and_places_task_texts(tmp_path, monkeypatch, capsys):
    (tmp_path / "hay.txt").write_text("straw")
    monkeypatch.chdir(tmp_path)
    names = {"task:mixed": "task-mixed", "task:qa:hay.txt": "task-qa-hay", "wikitext-103": "wikitext-103"}
    for text, name in names.items():
        assert job.main(f"--model smollm2-135m --text {text} --tokens 2048 --out d --dry-run".split()) == 0
        assert f"{tmp_path}/d/smollm2-135m-{name}-2048: " in capsys.readouterr().out
    assert job._located(job.Spec("smollm2-135m", "task:qa:hay.txt")).text == f"task:qa:{tmp_path}/hay.txt"
    assert job.main(["--model", "smollm2-135m", "--text", "task:q", "--out", "d", "--dry-run"]) == 2
    assert "task 'q' is unknown" in capsys.readouterr().err
