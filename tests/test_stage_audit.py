"""The audit's stage: planned and refused before any work; run, resumed and controlled in its own process."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ceiling.audit.budget import Arm
from ceiling.audit.ceilings import ENGINES as JUDGES
from ceiling.audit.ladder import PILOT_SEED
from ceiling.problem import InputError
from ceiling.stages import audit as stage
from ceiling.stages.auditing import Posing
from ceiling.store import config_id, open_store
from tests.tiny_models import save

CHECKS = 29
"""Lines of `tests.audit_stage_check`."""

TASKS = ("niah_single_2", "vt:hops=1")
OPTIONS: dict[str, Any] = {"tasks": TASKS, "tokens": 480, "instances": 3, "device": "cpu"}

pytestmark = pytest.mark.skipif(importlib.util.find_spec("kvpress") is None, reason="needs the audit extra")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save(tmp_path_factory.mktemp("models") / "tiny-llama", max_position_embeddings=1024))


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny-gemma"
    return str(save(folder, "gemma3_text", max_position_embeddings=1024))


def plan(model: str, store: Path, **changes: Any) -> stage.Plan:
    return stage.plan(store, model, **OPTIONS | changes)


def test_the_stage_on_tiny_models():
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit_stage_check"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.endswith(": as it should be")] == [], done.stderr
    assert len(lines) == CHECKS, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_plan_is_every_task_and_instance_with_the_roster(llama: str, tmp_path: Path):
    made = plan(llama, tmp_path / "store")
    assert made.presses == (
        *("snapkv", "h2o", "tova", "expected_attention", "adakv", "keydiff", "random", "knorm"),
        *("streaming_llm", "adakv:storage=ragged", "snapkv:window=16"),
    )
    assert made.todo == made.units == tuple(stage.Unit(t, n, tuple(Arm)) for n in range(3) for t in TASKS)
    assert made.refused == ()
    assert made.records == 6 * 3 * (11 * 4 + 1)
    assert made.ceilings == "top"
    assert made.seconds > 0
    assert made.bytes > 0
    assert not (tmp_path / "store").exists(), "a plan writes nothing"
    assert "kvpress" not in sys.modules, "a plan leaves the process as it is"


def test_the_configuration_is_all_that_determines_a_record(llama: str, tmp_path: Path):
    own = tmp_path / "own.txt"
    own.write_text("A sentence of one's own. " * 200)

    def config(**changes: Any) -> str:
        return plan(llama, tmp_path, **changes).config

    first = config()
    assert config(tasks=TASKS[:1], instances=1, arms=["agnostic"]) == first
    changed: list[dict[str, Any]] = [
        {"presses": ["snapkv"]},
        {"presses": ["snapkv:window=16"]},
        {"budgets": ["ratio=0.5"]},
        {"budgets": ["slots=50"]},
        {"seed": 1},
        {"tokens": 500},
        {"questions": 2},
        {"text": str(own)},
        {"backend": "sdpa"},
        {"dtype": "bfloat16"},
        {"ceilings": "none"},
        {"ceilings": "balance"},
        {"ceilings": "certify"},
        {"engine": "native"},
    ]
    assert len({first, *(config(**each) for each in changed)}) == 1 + len(changed)
    assert config(ceilings="top") == first
    judged = [plan(llama, tmp_path, ceilings=mode) for mode in ("top", "balance", "certify")]
    said = [made.configuration["ceilings"] for made in judged]
    assert said[0] == "top", "ids of stores that exist stay what they are"
    assert [JUDGES[made.ceilings] for made in judged[1:]] == said[1:]
    assert judged[1].bytes > judged[0].bytes


def test_the_record_and_the_shards_stand_where_they_are_looked_for(llama: str, tmp_path: Path):
    made = plan(llama, tmp_path)
    stage.prepare(made)
    for table in ("audit", "audit_ceilings"):
        record = tmp_path / table / f"dump={made.id}" / f"config={made.config}" / "config.json"
        assert config_id(json.loads(record.read_text())) == made.config
    assert open_store(tmp_path).audit.collect().is_empty()


def test_presses_that_cannot_run_are_left_out_by_name_or_refused_where_named(
    llama: str, gemma: str, tmp_path: Path
):
    made = plan(llama, tmp_path, backend="sdpa", budgets=["ratio=0.9", "ratio=0.99"])
    assert [reason.partition(":")[0] for reason in made.refused] == ["h2o"]
    assert "eager" in made.refused[0]
    assert "h2o" not in made.presses
    assert made.ceilings == "none"
    assert [said.partition(" keeps ")[0] for said in made.notes if said.startswith("snapkv")] == [
        "snapkv at ratio=0.9",
        "snapkv at ratio=0.99",
        "snapkv:window=16 at ratio=0.99",
    ]
    windowed = plan(gemma, tmp_path)
    assert [reason.partition(":")[0] for reason in windowed.refused] == ["expected_attention"]
    with pytest.raises(InputError, match=r"presses: refused: h2o: .*use eager \(arm agnostic\)"):
        plan(llama, tmp_path, presses=["snapkv", "h2o"], backend="sdpa")
    with pytest.raises(InputError, match=r"refused: snapkv: .*windowed"):
        plan(gemma, tmp_path, presses=["snapkv"], engine="native")


def test_kvpress_by_itself_has_no_scores_alone(llama: str, tmp_path: Path):
    made = plan(llama, tmp_path, engine="native")
    assert made.arms == (Arm.AGNOSTIC, Arm.AWARE_KVPRESS)
    assert [reason.partition(": ")[0] for reason in made.refused] == ["adakv", "adakv:storage=ragged"]
    assert made.ceilings == "none"
    with pytest.raises(InputError, match="aware-scores needs scores from the shared pass"):
        plan(llama, tmp_path, engine="native", arms=["aware-scores"], presses=["snapkv"])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tokens": 1025}, "1025"),
        ({"tokens": 40}, "tokens"),
        ({"tasks": None}, "tasks: none have been chosen for model tiny-llama"),
        ({"tasks": ["niah"]}, "task: 'niah' is unknown"),
        ({"tasks": ["vt", "vt:hops=4"]}, "tasks: vt is repeated"),
        ({"tasks": []}, "tasks: none; name one"),
        ({"arms": []}, "arms: none; name one"),
        ({"presses": []}, "presses: none; name one"),
        ({"tasks": ["cwe"], "questions": 2}, "questions"),
        ({"presses": ["snapkv:size=9"]}, "'size=9' of snapkv"),
        ({"presses": ["snapkv", "snapkv:window=64"]}, "presses: snapkv is repeated"),
        ({"presses": ["duo_attention"]}, "network"),
        ({"budgets": ["ratio=0.5", "ratio=0.50"]}, "budgets: ratio=0.5 is repeated"),
        ({"budgets": []}, "budgets: none"),
        ({"budgets": ["ratio=1"]}, "ratio=1"),
        ({"budgets": ["slots=9999"]}, r"keeps 9999 of \d+ keys"),
        ({"budgets": ["held=0.01"]}, "at least 1"),
        ({"arms": ["aware"]}, "arms: 'aware' is unknown; there are agnostic, aware-kvpress, aware-scores"),
        ({"backend": "flash"}, "backend: 'flash' is unknown"),
        ({"dtype": "int8"}, "dtype: 'int8'"),
        ({"engine": "both"}, "engine: 'both' is unknown"),
        ({"ceilings": "all"}, "ceilings: 'all' is unknown"),
        ({"ceilings": "top", "backend": "sdpa"}, "ceilings: top needs attention rows"),
        ({"ceilings": "balance", "engine": "native"}, "ceilings: balance needs attention rows"),
        ({"ceilings": "certify", "tokens": 9000}, "ceilings: certify takes 8192 tokens at most, not 9000"),
        ({"instances": 0}, "instances: 0 is not positive"),
        ({"questions": 0}, "questions: 0 is not positive"),
        ({"seed": PILOT_SEED}, "default tasks were chosen"),
        ({"text": "task:needle"}, "is a task"),
        ({"text": "nowhere.txt"}, "nowhere.txt"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_work(
    changes: dict[str, Any], why: str, llama: str, tmp_path: Path
):
    with pytest.raises(InputError, match=why):
        plan(llama, tmp_path / "store", **changes)
    assert not (tmp_path / "store").exists()


def test_an_instance_that_is_too_short_for_a_budget_is_named(llama: str, tmp_path: Path):
    made = plan(llama, tmp_path, tasks=["niah_multikey_1"], instances=12)
    posing = Posing(made.folder, made.text, made.seed, made.questions, made.tokens)
    contexts = [min(c for c, _ in posing.lengths("niah_multikey_1", n)) for n in range(12)]
    late = next(n for n, context in enumerate(contexts) if context < contexts[0])
    budget = f"slots={contexts[0]}"
    options: dict[str, Any] = {"tasks": ["niah_multikey_1"], "budgets": [budget], "presses": ["knorm"]}
    plan(llama, tmp_path, instances=late, **options)
    with pytest.raises(InputError, match=rf"knorm is refused at task niah_multikey_1, instance {late}: "):
        plan(llama, tmp_path, instances=late + 1, **options)


def test_without_the_extra_one_line_says_what_to_install(
    llama: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'ceiling\[audit\]'"):
        plan(llama, tmp_path)


def test_a_store_that_is_none_is_refused(llama: str, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="store: "):
        stage.prepare(plan(llama, tmp_path / "file"))
