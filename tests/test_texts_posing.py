"""Questions in token space: exact lengths and positions under any tokenizer, whatever else is posed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.problem import InputError
from ceiling.texts import (
    AXES,
    RULER_TASKS,
    SIZES,
    Posed,
    Text,
    audit_instance,
    open_text,
    path_in,
    pose,
    short_name,
    task_documents,
)
from ceiling.texts.parts import GAP, PROSE
from ceiling.texts.posing import ROOM, SPARE
from tests.test_tasks_placing import Bytes, Words

ANY_SIZE = st.sampled_from([size for sizes in SIZES.values() for size in sizes])
SEEDS = st.integers(0, 1000)
HAY = Text("straw", tuple(f"This is line {number} of the haystack.\n\n" for number in range(4000)), "")
TOKENS = 6000  # of bytes


def posed(coder, task, seed=0, index=0, questions=1, tokens=TOKENS, prefix=(), hay=HAY) -> Posed:
    return pose(audit_instance(task, seed, index, questions), coder.encode, hay, tokens, prefix)


@given(st.sampled_from([Bytes, Words]), ANY_SIZE, SEEDS, st.integers(5000, 6000), st.booleans())
def test_lengths_are_exact_and_everything_is_where_it_is_said_to_be(kind, task, seed, tokens, starts):
    coder = kind()
    prefix = (coder.encode("x")[0],) if starts else ()
    made = posed(coder, task, seed, tokens=tokens, prefix=prefix)
    (question,) = made.questions
    assert len(made.context_ids) + question.length == made.tokens == tokens
    assert question.room == -(-3 * len(question.answer_ids) // 2) + SPARE
    assert ROOM == 1.5
    for ids, text in (
        (question.question_ids, question.question.text),
        (question.prefix_ids, question.question.prefix),
        (question.answer_ids, question.question.answer),
    ):
        assert coder.decode(ids) == text

    assert made.context_ids[: len(prefix)].tolist() == list(prefix)
    context = coder.decode(made.context_ids)
    assert context.endswith(GAP)
    assert context.removeprefix("x" if starts else "").startswith(made.instance.opening)
    assert question.question.text not in context
    for fact, (first, stop) in zip(made.instance.facts, made.facts, strict=True):
        assert coder.decode(made.context_ids[first:stop]) == fact.text
        assert context.count(fact.text) == 1
    told = coder.decode(made.context_ids[list(question.fact_positions)])
    if made.instance.axis == "aggregation":
        assert Counter(told.split()).keys() == set(question.golds)
    else:
        asked = [fact.text for fact in made.instance.facts if fact.asked]
        assert told == "".join(asked)
        assert all(gold in told for gold in question.golds)
    assert made.fact_positions == question.fact_positions


@given(st.sampled_from([t for t in RULER_TASKS if AXES[t] != "aggregation"]), SEEDS, st.integers(2, 4))
def test_several_questions_share_a_context_and_have_facts_of_their_own(task, seed, questions):
    made = posed(Bytes, task, seed, questions=questions)
    longest = max(question.length for question in made.questions)
    assert len(made.context_ids) + longest == made.tokens == TOKENS
    positions = [p for question in made.questions for p in question.fact_positions]
    assert len(set(positions)) == len(positions)
    assert made.fact_positions == tuple(sorted(positions))
    for question in made.questions:
        told = Bytes.decode(made.context_ids[list(question.fact_positions)])
        assert all(gold in told for gold in question.golds)


@given(ANY_SIZE, SEEDS)
def test_two_tokenizers_are_given_the_same_facts_and_haystack(task, seed):
    words = Words()
    first, second = posed(Bytes, task, seed), posed(words, task, seed, tokens=5000)
    assert first.instance == second.instance
    told = [
        [coder.decode(made.context_ids[a:b]) for a, b in made.facts]
        for coder, made in ((Bytes, first), (words, second))
    ]
    assert told[0] == told[1]
    starts = [coder.decode(made.context_ids)[:30] for coder, made in ((Bytes, first), (words, second))]
    if not first.instance.facts or min(made.facts[0][0] for made in (first, second)) > 60:
        assert starts[0] == starts[1]


def test_nothing_depends_on_what_else_is_posed():
    cases = [(task, index) for task in RULER_TASKS for index in range(3)]
    forwards = {case: posed(Bytes, case[0], 7, case[1]) for case in cases}
    for task, index in reversed(cases):
        again = posed(Bytes, task, 7, index)
        assert again.context_ids.tolist() == forwards[task, index].context_ids.tolist()
        assert again.questions[0].fact_positions == forwards[task, index].questions[0].fact_positions


def test_instances_of_a_run_are_hidden_in_stretches_of_their_own():
    taken: Counter[str] = Counter()
    for index in range(20):
        context = Bytes.decode(posed(Bytes, "niah_single_2", 0, index, tokens=3000).context_ids)
        lines = [line for line in context.split(GAP)[1:-2] if line.startswith("This is line")]
        assert len(lines) > 50
        taken.update(lines)
    assert set(taken.values()) == {1}


def test_the_haystacks_end_is_joined_to_its_beginning():
    length = sum(map(len, HAY.pieces))
    made = posed(Bytes, "niah_single_2", tokens=length - 200)
    fact = made.instance.facts[0].text + GAP
    told = Bytes.decode(made.context_ids).replace(fact, "").removesuffix(GAP)
    assert told in "".join(HAY.pieces) * 2


@pytest.mark.parametrize(
    ("task", "tokens", "hay", "words"),
    [
        ("niah_single_2", 100, HAY, "tokens: 100 are too few for task niah_single_2"),
        ("niah_multikey_2", 100, HAY, "tokens: 100 are too few for task niah_multikey_2"),
        ("cwe", 700, HAY, "tokens: too few for task cwe: in .* words the ones asked for do not lead"),
        ("niah_single_2", 6000, Text("straw", HAY.pieces[:9], ""), "the haystack of task niah_single_2 ends"),
        ("niah_multikey_2", 10**6, HAY, "the haystack of task niah_multikey_2 ends"),
        ("niah_single_1", 6000, Text("s", HAY.pieces, "", "needle"), "hay: s is a task; name a text"),
    ],
)
def test_what_cannot_be_posed_is_refused(task, tokens, hay, words):
    with pytest.raises(InputError, match=words):
        posed(Bytes, task, tokens=tokens, hay=hay)


@pytest.mark.parametrize("task", RULER_TASKS)
def test_tasks_are_texts_to_capture_with_tags(task):
    text = open_text(f"task:{task}", seed=3)
    first, second = task_documents(text, Bytes.encode, 2, TOKENS, (120,))
    assert first.tokens.tolist() == task_documents(text, Bytes.encode, 1, TOKENS, (120,))[0].tokens.tolist()
    for index, document in enumerate((first, second)):
        instance = audit_instance(task, 3, index)
        (question,) = instance.questions
        assert document.tokens.shape == (TOKENS,)
        assert (
            Bytes.decode(document.tokens[document.context :])
            == question.text + question.prefix + question.answer
        )
        needle = Bytes.decode(document.tokens[document.needle])
        assert all(gold in needle for gold in question.golds)
        assert document.needle == sorted(set(document.needle))
        assert document.needle[-1] < document.context
        read = Bytes.decode(document.tokens[[p + 1 for p in document.retrieval]])
        assert read == "".join(question.golds)
    if audit_instance(task, 3, 0).hay == PROSE:
        parts = set(Bytes.decode(first.context_ids).split(GAP)) & set(
            Bytes.decode(second.context_ids).split(GAP)
        )
        assert len([part for part in parts if len(part) > 100]) <= 1


@pytest.mark.parametrize(
    ("name", "source", "task", "short"),
    [
        ("task:niah_single_2", "task:niah_single_2", "niah_single_2", "task-niah_single_2"),
        ("task:vt:hops=2", "task:vt:hops=2", "vt:hops=2", "task-vt-hops-2"),
        ("task:vt:hops=4", "task:vt", "vt", "task-vt-hops-4"),
        ("task:vt:hops=2:HAY", "task:vt:hops=2:hay.txt", "vt:hops=2", "task-vt-hops-2-hay"),
        ("task:vt:HAY", "task:vt:hay.txt", "vt", "task-vt-hay"),
    ],
)
def test_names_carry_sizes_and_a_haystack(tmp_path, monkeypatch, name, source, task, short):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hay.txt").write_text("straw\n\n" * 9)
    name = name.replace("HAY", "hay.txt")
    text = open_text(name)
    assert (text.source, text.task, short_name(name)) == (source, task, short)
    assert path_in(name)[1] == ("hay.txt" if "hay" in name else "")


def test_sizes_seeds_and_haystacks_make_other_texts():
    names = ["task:vt", "task:vt:hops=2", "task:vt:hops=2:python-code", "task:qa_1"]
    digests = [open_text(name).sha256 for name in names] + [open_text("task:vt", seed=1).sha256]
    assert len(set(digests)) == len(digests)
    assert open_text("task:vt:hops=4").sha256 == open_text("task:vt").sha256
    with pytest.raises(InputError, match="sets hops to 'x'; it is from 1 to 16"):
        open_text("task:vt:hops=x")
