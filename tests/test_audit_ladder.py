"""The default tasks: the written rule, and that the file the package carries follows it."""

import json
from importlib.resources import files

import pytest
import torch

from ceiling import texts
from ceiling.audit import ladder
from ceiling.audit.ladder import ENOUGH, FLOOR, PILOT_INSTANCES, PILOT_SEED, RULE, climb_down, default_tasks
from ceiling.problem import InputError
from tests.tiny_models import build

FILE = json.loads(files("ceiling.audit").joinpath("default_tasks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("means", "chosen", "tried"),
    [
        ([0.5, 1.0, 1.0], 0, 1),  # hard enough and good enough: the easier ones are not tried
        ([0.4, 0.49, 0.75], 2, 3),
        ([0.4, 0.3, 0.2], 0, 3),
        ([0.1, 0.3, 0.3], 1, 3),  # of equals the harder
        ([0.1, 0.29, 0.0], None, 3),
    ],
)
def test_the_hardest_size_that_is_answered_is_taken(means, chosen, tried):
    sizes = texts.SIZES["niah_multikey_1"]
    given = dict(zip(sizes, means, strict=True))
    assert climb_down("niah_multikey_1", given.__getitem__) == (
        None if chosen is None else sizes[chosen],
        dict(list(given.items())[:tried]),
    )


@pytest.mark.parametrize("model", FILE["models"])
def test_the_tasks_of_the_package_follow_from_their_means(model):
    assert FILE["rule"] == RULE
    found = FILE["models"][model]
    assert (found["seed"], found["instances"]) == (PILOT_SEED, PILOT_INSTANCES)
    assert found["generator"] == texts.RULER_GENERATOR
    assert tuple(found["means"]) == texts.RULER_TASKS
    chosen = [climb_down(task, means.__getitem__) for task, means in found["means"].items()]
    assert [means for _, means in chosen] == list(found["means"].values())
    tasks = default_tasks(model)
    assert list(tasks) == [task for task, _ in chosen if task is not None]
    assert all(texts.task_name(*texts.parse_task(task)) == task for task in tasks)


def test_the_default_models_tasks_are_enough_for_an_audit():
    """At least eight of them, on all three axes."""
    tasks = default_tasks("smollm2-135m")
    assert len(tasks) >= 8
    assert {texts.AXES[task.partition(":")[0]] for task in tasks} == {"retrieval", "aggregation", "multihop"}


def test_a_model_without_tasks_is_named():
    with pytest.raises(InputError, match=r"none have been chosen for model gpt-9 .*smollm2-135m"):
        default_tasks("gpt-9")


def test_an_answer_is_what_the_model_says_itself():
    """Token by token with a cache, as with a whole pass for every token."""
    model, prompt = build("llama"), list(range(3, 40))
    told = ladder.answer_ids(model, prompt, 6, frozenset())
    whole = list(prompt)
    for _ in range(6):
        with torch.inference_mode():
            whole.append(int(model(torch.tensor([whole])).logits[0, -1].argmax()))
    assert told == whole[len(prompt) :]
    assert ladder.answer_ids(model, prompt, 6, frozenset({told[2]})) == told[: told.index(told[2])]


def test_the_gates_are_those_of_the_audit():
    assert (ENOUGH, FLOOR) == (0.5, 0.3)


def test_what_cannot_be_chosen_is_refused_before_any_answer(tmp_path, capsys):
    for options, said in (
        (["--model", str(tmp_path / "none"), "--out", str(tmp_path / "x.json")], "error: "),
        (["--model", "smollm2-135m", "--out", str(tmp_path / "no" / "x.json")], "--out: no folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            ladder.main(options)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
