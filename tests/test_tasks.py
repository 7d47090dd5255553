"""Generated tasks: what an instance says follows from (task, seed, index) and nothing else."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.problem import InputError
from ceiling.texts import TASKS, Instance, instance
from ceiling.texts.tasks import ASKED, GENERATOR, HOPS, NEEDLES, PEOPLE, nth

TASK = st.sampled_from(list(TASKS))
WHOLE = st.integers(0, 10**6)

PINNED = {
    "needle": "69873c69",
    "multi-needle": "4e4aabb2",
    "variable-chain": "80d321ae",
    "qa": "99e294b4",
}
"""First digits of the SHA-256 of ten instances; where they change, `GENERATOR` must."""


def asked(made: Instance) -> list[str]:
    return [fact.text for fact in made.facts if fact.asked]


def test_instances_are_those_of_this_generator():
    """On any machine and Python: dumps of today and of next year can be paired."""
    found = {
        task: hashlib.sha256(repr([instance(task, 0, i) for i in range(10)]).encode()).hexdigest()[:8]
        for task in TASKS
    }
    assert (GENERATOR, found) == (1, PINNED)


@given(TASK, WHOLE, WHOLE)
def test_an_instance_is_answered_by_the_facts_it_asks_for(task, seed, index):
    made = instance(task, seed, index)
    assert made == instance(task, seed, index)
    assert (made.task, made.seed, made.index) == (task, seed, index)
    depths = [fact.depth for fact in made.facts]
    assert depths == sorted(depths)
    assert 0 <= depths[0] <= depths[-1] < 1
    assert len(set(fact.text for fact in made.facts)) == len(made.facts)
    assert len(made.links) == len(made.golds) - 1
    assert made.answer.startswith(made.golds[0])
    assert made.answer.endswith(made.golds[-1])
    others = [fact.text for fact in made.facts if not fact.asked]
    for gold in made.golds:
        assert gold[0] == " "
        assert any(gold in fact for fact in asked(made))
        assert gold not in made.question
        assert not any(gold in fact for fact in others)
    assert all(any(gold in fact for gold in made.golds) for fact in asked(made))


@given(TASK, WHOLE, WHOLE)
def test_seeds_and_indices_give_other_instances(task, seed, index):
    made = instance(task, seed, index)
    for other in (instance(task, seed + 1, index), instance(task, seed, index + 1)):
        assert other.golds != made.golds
        assert other.question != made.question


def test_how_many_facts_there_are():
    made = {task: instance(task, 0, 0) for task in TASKS}
    counts = {task: (len(one.facts), len(asked(one)), len(one.golds)) for task, one in made.items()}
    assert counts == {
        "needle": (1, 1, 1),
        "multi-needle": (NEEDLES, ASKED, ASKED),
        "variable-chain": (HOPS + 1, HOPS + 1, HOPS + 1),
        "qa": (2 * PEOPLE, 2, 2),
    }


def test_a_chain_is_told_from_its_start():
    made = instance("variable-chain", 5, 6)
    for (fact, before), gold in zip(
        zip(made.facts[1:], made.golds, strict=False), made.golds[1:], strict=True
    ):
        assert fact.text == f"Variable{gold} is set to the value of{before}."


def test_mixed_takes_the_tasks_in_turn():
    documents = [nth("mixed", 7, document) for document in range(9)]
    assert [made.task for made in documents] == [*TASKS, *TASKS, "needle"]
    assert documents[5] == nth("multi-needle", 7, 1) == instance("multi-needle", 7, 1)


def test_an_unknown_task_is_named():
    with pytest.raises(InputError, match="task 'needel' is unknown; there are needle"):
        instance("needel", 0, 0)
    with pytest.raises(InputError, match="task 'mixed' is unknown"):
        instance("mixed", 0, 0)
