"""What is scored: users' rules by name, what a dump does not allow, questions that are refused."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ceiling import open_store
from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import score
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without queries."""
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


RULES = '''"""Rules of a user."""
import numpy as np


def heavy(sight, count):
    return sight.candidates[np.argsort(-sight.masses[sight.candidates], kind="stable")[:count]]


def late(sight, count):
    return sight.candidates[-count:]


def nosy(sight, count):
    return np.argsort(-sight.received().sum(axis=0))[:count]


late.reading, nosy.needs_queries = "both", True


def twice(sight, count):
    return [5] * count


def broken(sight, count):
    return sight.unheard_of
'''


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the current folder, forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "score_rules.py"
    file.write_text(RULES)
    yield file
    sys.modules.pop("score_rules", None)


def test_a_users_rule_is_scored_by_name(rules: Path, toy: Path, tmp_path: Path):
    names = ["score_rules:heavy", "score_rules:late", "top-mass"]
    plan = score.plan(toy, tmp_path / "store", names, budgets=(2, 4), native=())
    list(score.run(plan))
    frame = open_store(tmp_path / "store").scores.sort("document", "layer", "head", "position", "s").collect()
    heavy, late, top = (frame.filter(selector=name) for name in names)
    assert heavy["error"].to_list() == top["error"].to_list()
    assert set(late["reading"]) == {"per-query", "cache"}
    assert set(frame["allocation"]) == {"uniform"}
    assert len(frame) == 2 * LAYERS * HEADS * ROWS * 2 * 4
    assert not score.plan(toy, tmp_path / "store", names[::-1], budgets=(2, 4), native=()).todo
    rules.write_text(RULES.replace("[-count:]", "[:count]"))
    os.utime(rules, (0, 0))  # the compiled module must not be taken for it
    with pytest.raises(InputError, match="score_rules:heavy has changed since the run was planned"):
        list(score.run_units(plan, plan.units))
    again = score.plan(toy, tmp_path / "store", names, budgets=(2, 4), native=())
    assert again.config != plan.config
    assert again.todo == again.units


@pytest.mark.parametrize(
    ("rule", "said"), [("twice", "position 5 twice"), ("broken", "AttributeError: .*unheard_of")]
)
def test_a_wrong_rule_is_named_with_its_row(rules: Path, toy: Path, tmp_path: Path, rule: str, said: str):
    position = open_dump(toy).document(0).query_positions[0]
    plan = score.plan(toy, tmp_path / "store", [f"score_rules:{rule}"], budgets=[3])
    where = rf"document 0, layer 0, head 0, position {position}, s=3: .*score_rules:{rule}.*{said}"
    with pytest.raises(InputError, match=where):
        list(score.run(plan))
    assert not list((tmp_path / "store").glob("scores/**/*.parquet"))


def test_what_needs_queries_is_refused_by_name_and_else_left_out(rules: Path, toy: Path, tmp_path: Path):
    plan = score.plan(toy, tmp_path)
    assert plan.left_out == ("snapkv", "h2o", "quest", "quest-16", "tova in reading cache")
    names = [choice.name for choice in plan.panel.choices]
    assert names == ["top-mass", "streaming-llm", "tova", "leverage", "geometric", "group-vote", "balancing"]
    assert score.plan(toy, tmp_path, ["tova"]).panel.choices[0].readings == ("per-query",)
    for name in ("snapkv", "h2o", "quest", "snapkv:kernel=5", "score_rules:nosy"):
        with pytest.raises(
            InputError, match=rf"selector: {name} needs .*dump {toy} .*`ceiling capture --que"
        ):
            score.plan(toy, tmp_path, [name])
    with pytest.raises(InputError, match=r'only per-query; set heavy\.reading = "both" in its module$'):
        score.plan(toy, tmp_path, ["score_rules:heavy"], reading="cache")
    with pytest.raises(InputError, match="tova needs query vectors"):
        score.plan(toy, tmp_path, ["tova"], reading="cache")


def test_allocations_over_some_layers_are_another_configuration(toy: Path, tmp_path: Path):
    """Whose dump has the same id; its rules choose the same sets."""
    some = shutil.copytree(toy, tmp_path / "some")
    manifest = json.loads((some / "manifest.json").read_text())
    (some / "manifest.json").write_text(json.dumps(manifest | {"layers": [1]}))
    whole, part = (score.plan(dump, tmp_path / "store", ["tova"], budgets=(2,)) for dump in (toy, some))
    assert (part.id, part.config) == (whole.id, whole.config)
    whole, part = (score.plan(dump, tmp_path / "store", budgets=(2, 4)) for dump in (toy, some))
    assert (part.id, part.panel.layers, whole.panel.layers) == (whole.id, (1,), ())
    assert part.config != whole.config
    with pytest.raises(InputError, match="budgets: 17 keys are more than the 16 that any row"):
        score.plan(some, tmp_path / "store", budgets=(17,))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"selectors": []}, "selector: none given"),
        ({"selectors": ["tovo"]}, "did you mean tova"),
        ({"selectors": ["tova", "tova"]}, "selector: tova is repeated"),
        ({"selectors": ["balancing"], "reading": "cache"}, "balancing has no reading cache, only per-query$"),
        ({"selectors": ["tova"], "native": (3,)}, "native: of top-mass and balancing alone"),
        ({"reading": "both"}, "reading: 'both' is none of per-query, cache"),
        ({"budgets": (4, 49)}, "budgets: 49 keys are more than the 48"),
        ({"native": (49,)}, "native: 49 keys are more than the 48"),
        ({"budgets": (4, 8), "native": (8,)}, "native: 8 is among the budgets too"),
        ({"allocations": ("flat",)}, "allocation: 'flat' is none of pyramid, mass-greedy, map, uniform"),
        ({"allocations": ("map", "map")}, "allocation: map is repeated"),
    ],
)
def test_bad_questions_are_refused(toy: Path, tmp_path: Path, options: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        score.plan(toy, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()
