"""RULER's tasks, generated anew: what an instance says follows from (task, seed, index) and nothing else."""

import hashlib
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.problem import InputError
from ceiling.texts import (
    AXES,
    RULER_GENERATOR,
    RULER_TASKS,
    SIZES,
    AuditInstance,
    Question,
    Scorer,
    audit_instance,
    parse_task,
    score,
    task_name,
)
from ceiling.texts.own_hay import HAYS, OwnHay
from ceiling.texts.parts import PROSE

ANY_SIZE = st.sampled_from([size for sizes in SIZES.values() for size in sizes])
FACTUAL = st.sampled_from(
    [size for task, sizes in SIZES.items() if AXES[task] != "aggregation" for size in sizes]
)
LISTS = st.sampled_from([*SIZES["cwe"], *SIZES["fwe"]])
WHOLE = st.integers(0, 10**6)

PINNED = {
    "niah_single_1": "7db3e824",
    "niah_single_2": "99da67b3",
    "niah_single_3": "97fd1c6f",
    "niah_multikey_1": "1d7173be",
    "niah_multikey_2": "6cb89a00",
    "niah_multikey_3": "3e38a910",
    "niah_multivalue": "180ba283",
    "niah_multiquery": "aae64fdf",
    "cwe": "f424642e",
    "fwe": "e9f958d4",
    "vt": "4cb7e569",
    "qa_1": "6de9eadf",
    "qa_2": "12f600b9",
}
"""First digits of the SHA-256 of three instances and haystacks; where they change, `RULER_GENERATOR` must."""


def hay_of(made: AuditInstance, parts: int) -> list[str]:
    """The first parts of an instance's own haystack."""
    if made.hay == PROSE:
        return []
    text = OwnHay(made, lambda text: [text]).parts()  # type: ignore[list-item]
    return ["".join(map(str, part)) for part in islice(text, parts)]


def digest(task: str) -> str:
    made = [audit_instance(task, 0, index) for index in range(3)]
    return hashlib.sha256(repr([(one, hay_of(one, 50)) for one in made]).encode()).hexdigest()[:8]


def test_instances_are_those_of_this_generator():
    """On any machine and Python: records of today and of next year can be paired."""
    assert (RULER_GENERATOR, {task: digest(task) for task in RULER_TASKS}) == (1, PINNED)


def test_there_are_thirteen_tasks_on_three_axes():
    assert Counter(AXES.values()) == {"retrieval": 8, "aggregation": 2, "multihop": 3}
    assert tuple(AXES) == RULER_TASKS == tuple(SIZES)
    for task, sizes in SIZES.items():
        assert sizes[0] == task
        assert len(set(sizes)) == len(sizes)
        for size in sizes:
            assert task_name(*parse_task(size)) == size
            assert audit_instance(size, 0, 0).axis == AXES[task]


@given(ANY_SIZE, WHOLE, WHOLE)
def test_an_instance_is_made_of_nothing_else_and_differs_from_others(task, seed, index):
    made = audit_instance(task, seed, index)
    assert made == audit_instance(task, seed, index)
    assert hay_of(made, 20) == hay_of(audit_instance(task, seed, index), 20)
    for other in (audit_instance(task, seed + 1, index), audit_instance(task, seed, index + 1)):
        assert (other.questions[0].golds, other.facts) != (made.questions[0].golds, made.facts)
    depths = [fact.depth for fact in made.facts]
    assert depths == sorted(depths)
    assert all(0 <= depth < 1 for depth in depths)


@given(FACTUAL, WHOLE, WHOLE, st.integers(1, 4))
def test_golds_are_in_the_facts_asked_for_and_in_no_other(task, seed, index, questions):
    made = audit_instance(task, seed, index, questions)
    assert len(made.questions) == questions
    hay = hay_of(made, 60)
    taken: set[int] = set()
    for question in made.questions:
        assert question.facts
        assert not taken & set(question.facts)
        taken |= set(question.facts)
        asked = [made.facts[fact] for fact in question.facts]
        assert all(fact.asked for fact in asked)
        others = [fact.text for fact in made.facts if fact not in asked] + hay
        for gold in question.golds:
            assert any(gold in fact.text for fact in asked)
            assert not any(gold.lower() in other.lower() for other in others)
            assert gold not in question.text + question.prefix
    assert taken == {number for number, fact in enumerate(made.facts) if fact.asked}
    assert len({q.text for q in made.questions}) == len({q.golds for q in made.questions}) == questions


@given(ANY_SIZE, WHOLE, WHOLE)
def test_the_right_answer_scores_one_and_reads_its_golds_in_order(task, seed, index):
    (question,) = audit_instance(task, seed, index).questions
    assert score(question.answer, question) == score(question.answer.upper(), question) == 1
    assert score("", question) == 0
    read, links = question.reading
    told = read[0] + "".join(link + word for link, word in zip(links, read[1:], strict=True))
    assert told == question.answer
    assert [word.strip() for word in read] == list(question.golds)
    assert question.text.endswith("\n")
    assert not question.prefix.endswith(" ")
    assert question.answer.startswith(" ")


def facts_and_golds(task: str, questions: int = 1) -> tuple[int, int, int]:
    made = audit_instance(task, 0, 0, questions)
    return len(made.facts), sum(fact.asked for fact in made.facts), len(made.questions[0].golds)


@pytest.mark.parametrize(
    ("task", "questions", "counts"),
    [
        ("niah_single_1", 1, (1, 1, 1)),
        ("niah_single_2", 3, (3, 3, 1)),
        ("niah_multikey_1", 1, (4, 1, 1)),
        ("niah_multikey_1:keys=2", 3, (3, 3, 1)),
        ("niah_multikey_2", 1, (1, 1, 1)),
        ("niah_multikey_2:keys=8", 1, (8, 1, 1)),
        ("niah_multivalue", 2, (8, 8, 4)),
        ("niah_multiquery:queries=3", 2, (6, 6, 3)),
        ("vt", 1, (5, 5, 5)),
        ("vt:chains=3,hops=2", 2, (9, 6, 3)),
        ("qa_1:people=6", 2, (6, 2, 1)),
        ("qa_2", 1, (2, 2, 1)),
        ("qa_2:people=4", 1, (8, 2, 1)),
        ("cwe", 1, (0, 0, 10)),
        ("fwe:top=2", 1, (0, 0, 2)),
    ],
)
def test_how_many_facts_and_golds_there_are(task, questions, counts):
    assert facts_and_golds(task, questions) == counts


def test_chains_are_told_from_their_starts():
    made = audit_instance("vt:chains=2", 5, 6)
    (question,) = made.questions
    facts = [made.facts[fact].text for fact in question.facts]
    golds = question.golds
    assert facts[0].startswith(f"Variable {golds[0]} is set to ")
    assert facts[1:] == [f"Variable {new} is set to the value of {old}." for old, new in pairwise(golds)]


@given(LISTS, WHOLE, st.integers(90, 600))
def test_words_asked_for_lead_their_list_wherever_it_ends(task, index, length):
    made = audit_instance(task, 1, index)
    told = [part.split()[-1] for part in hay_of(made, length)]
    golds = made.questions[0].golds
    counts = Counter(told)
    rest = max(counts[word] for word in counts if word not in golds)
    assert min(counts[gold] for gold in golds) > rest
    if task.startswith("fwe"):
        assert [word for word, _ in counts.most_common(len(golds))] == list(golds)


def test_a_coded_text_follows_its_law():
    made = audit_instance("fwe", 0, 0)
    counts = Counter(part.strip() for part in hay_of(made, 4000))
    law = [rank**-2 for rank in range(1, 201)]
    for gold, weight in zip(made.questions[0].golds, law, strict=False):
        assert abs(counts[gold] - 4000 * weight / sum(law)) <= 40  # one block


def test_needles_last_for_long_contexts_and_are_all_different():
    parts = hay_of(audit_instance("niah_multikey_2", 0, 0), 5000)
    assert len(parts) == len(set(parts)) > 4000
    assert len({part.split(" is ")[1] for part in parts}) == len(parts)


def test_people_do_not_contradict_each_other():
    parts = hay_of(audit_instance("qa_2", 0, 0), 900)
    rivers = [part.split(",")[0].split(" lies on the river ") for part in parts if "river" in part]
    assert len(rivers) == len({town for town, _ in rivers})
    people = [part.split(" was born")[0] for part in parts if "born" in part]
    assert len(people) == len(set(people)) > 500


def test_every_haystack_is_of_some_task():
    assert {audit_instance(task, 0, 0).hay for task in RULER_TASKS} == {PROSE, *HAYS}


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=4), st.text("abcABC ", max_size=12))
def test_scores_are_shares_of_golds(golds, answer):
    recall = Question("", "", "", tuple(golds))
    either = Question("", "", "", tuple(golds), Scorer.ANY)
    found = sum(gold in answer.lower() for gold in golds)
    assert score(answer, recall) == found / len(golds)
    assert score(answer, either) == (found > 0)
    assert score(answer + golds[0], recall) >= score(answer, recall)
    assert score(answer + golds[0], either) == 1


@pytest.mark.parametrize(
    ("task", "questions", "words"),
    [
        ("niah", 1, "task: 'niah' is unknown; there are niah_single_1,"),
        ("niah_single_1:keys=2", 1, "sets 'keys'; niah_single_1 takes no sizes"),
        ("vt:hop=2", 1, "sets 'hop'; vt takes chains=1, hops=4"),
        ("vt:hops=0", 1, "sets hops to '0'; it is from 1 to 16"),
        ("vt:hops=-1", 1, "sets hops to '-1'; it is from 1 to 16"),
        ("vt:", 1, "sets ''; vt takes"),
        ("qa_1", 0, "questions: 0 is not positive"),
        ("cwe", 2, "questions: 2 about cwe, which is one question about the whole context"),
        ("fwe:top=1", 2, "questions: 2 about fwe"),
    ],
)
def test_what_is_no_task_or_cannot_be_asked_is_named(task, questions, words):
    with pytest.raises(InputError, match=words):
        audit_instance(task, 0, 0, questions)


def test_sizes_of_the_ruler_are_not_named():
    assert task_name(*parse_task("vt:hops=4,chains=2")) == "vt:chains=2"
    assert audit_instance("niah_multikey_1:keys=4", 3, 4) == audit_instance("niah_multikey_1", 3, 4)
