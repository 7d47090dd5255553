"""Tasks in token space: exact positions under any tokenizer, and the rows sampled from them."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling import models
from ceiling.models import built_in
from ceiling.problem import InputError
from ceiling.texts import (
    TASKS,
    Placed,
    Text,
    instance,
    open_text,
    place,
    task_documents,
    with_retrieval,
)
from ceiling.texts.placing import GAP, LEAST_HAY, paragraphs

SMOLLM2 = models.BUILT_INS["smollm2-135m"]
SEEDS = st.integers(0, 1000)


class Bytes:
    """One token a byte."""

    @staticmethod
    def encode(text: str) -> list[int]:
        return list(text.encode())

    @staticmethod
    def decode(ids) -> str:
        return bytes(map(int, ids)).decode()


class Words:
    """One token a word with the space before it, or a run of other characters; numbered as they come."""

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        parts = re.findall(r" ?[A-Za-z]+|\d| (?=\d)|\s+|[^\w\s]", text)
        return [self.vocabulary.setdefault(part, len(self.vocabulary)) for part in parts]

    def decode(self, ids) -> str:
        words = list(self.vocabulary)
        return "".join(words[i] for i in ids)


def straw(encode) -> Iterator[list[int]]:
    return (encode(f"This is line {number} of the haystack.\n\n") for number in range(10**6))


def placed(coder, task: str, seed: int, tokens: int, prefix: tuple[int, ...] = ()) -> Placed:
    return place(instance(task, seed, 0), coder.encode, straw(coder.encode), tokens, prefix)


@given(
    st.sampled_from([Bytes, Words]),
    st.sampled_from(list(TASKS)),
    SEEDS,
    st.integers(900, 1200),
    st.booleans(),
)
def test_every_fact_and_every_gold_is_where_it_is_said_to_be(kind, task, seed, tokens, starts):
    coder = kind()
    prefix = (coder.encode("x")[0],) if starts else ()
    document = placed(coder, task, seed, tokens, prefix)
    made = document.instance
    assert document.tokens.shape == (tokens,)
    assert document.tokens[: len(prefix)].tolist() == list(prefix)

    spans = list(zip(made.facts, document.facts, strict=True))
    for fact, (first, stop) in spans:
        assert coder.decode(document.tokens[first:stop]) == fact.text
    assert document.needle == [p for fact, span in spans if fact.asked for p in range(*span)]
    assert document.needle == sorted(set(document.needle))

    read_off = [coder.decode(document.tokens[first:stop]) for first, stop in document.golds]
    assert [f" {gold.strip()}" for gold in read_off] == list(made.golds)
    assert document.retrieval == [p - 1 for span in document.golds for p in range(*span)]
    assert tokens / LEAST_HAY <= document.retrieval[0] < document.retrieval[-1] == tokens - 2

    context, question, answer = document.context_ids, document.question_ids, document.answer_ids
    assert [*context, *question, *answer] == document.tokens.tolist()
    assert coder.decode(question).rstrip() == made.question
    assert coder.decode([*question, *answer]) == made.question + made.answer
    assert document.tags == {"needle": document.needle, "retrieval": document.retrieval}

    hidden = coder.decode(context[len(prefix) :])  # without facts and gaps: the haystack's beginning
    for fact in made.facts:
        assert hidden.count(fact.text + GAP) == 1
        hidden = hidden.replace(fact.text + GAP, "")
    whole = "".join(f"This is line {number} of the haystack.\n\n" for number in range(300))
    assert whole.startswith(hidden.removesuffix(GAP))


@given(st.sampled_from(list(TASKS)), SEEDS)
def test_facts_stand_between_parts_near_their_depths(task, seed):
    document = placed(Bytes, task, seed, 2000)
    context = Bytes.decode(document.context_ids)
    used = 0
    for fact, (first, stop) in zip(document.instance.facts, document.facts, strict=True):
        assert context[:first].endswith(GAP)
        room = 2000 - sum(b - a + 2 for a, b in document.facts) - 2 - (2000 - document.context)
        assert abs(first - used - fact.depth * room) <= len("This is line 10 of the haystack.\n\n")
        used += stop - first + 2


@given(st.sampled_from(list(TASKS)), SEEDS)
def test_two_tokenizers_are_given_the_same_facts_in_the_same_order(task, seed):
    words = Words()
    first, second = placed(Bytes, task, seed, 1200), placed(words, task, seed, 1200)
    assert first.instance == second.instance
    order = [
        [coder.decode(document.tokens[a:b]) for a, b in document.facts]
        for coder, document in ((Bytes, first), (words, second))
    ]
    assert order[0] == order[1] == [fact.text for fact in first.instance.facts]


def test_a_space_that_is_a_token_of_its_own_is_not_read_off():
    document = placed(Bytes, "multi-needle", 0, 1200)
    assert all(
        document.tokens[first] != ord(" ") == document.tokens[first - 1] for first, _ in document.golds
    )
    words = Words()
    document = placed(words, "qa", 0, 1200)
    assert [words.decode(document.tokens[a:b]) for a, b in document.golds] == list(document.instance.golds)


@pytest.mark.parametrize("task", TASKS)
def test_too_few_tokens_are_refused_with_what_would_do(task):
    with pytest.raises(
        InputError, match=rf"tokens: 90 are too few for task {task}, .* take \d+ of"
    ) as refused:
        placed(Bytes, task, 0, 90)
    least = int(str(refused.value).rsplit(" ", 1)[1])
    assert len(placed(Bytes, task, 0, least).tokens) == least
    with pytest.raises(InputError, match=f"give at least {least}$"):
        placed(Bytes, task, 0, least - 1)


def test_a_haystack_that_is_too_short_is_refused():
    text = Text("task:needle", ("Some straw.\n\n" * 40,), "0", task="needle")
    assert len(task_documents(text, Bytes.encode, 1, 400)) == 1
    with pytest.raises(InputError, match=r"haystack of task needle ends after \d+ of the \d+ tokens"):
        task_documents(text, Bytes.encode, 3, 400)
    with pytest.raises(InputError, match="documents: 0 is not positive"):
        task_documents(text, Bytes.encode, 0, 400)


def test_a_haystack_without_a_break_takes_facts_at_the_exact_place():
    whole = iter([Bytes.encode("x" * 2000)])
    document = place(instance("needle", 0, 0), Bytes.encode, whole, 500)
    ((first, _),) = document.facts
    room = document.context - len(instance("needle", 0, 0).facts[0].text) - 2 * len(GAP)
    assert first == round(document.instance.facts[0].depth * room)


def test_documents_share_no_haystack_and_no_facts():
    lines = "".join(f"Line number {number} of many.\n\n" for number in range(400))
    text = Text("task:mixed", (lines,), "0", task="mixed", seed=2)
    documents = task_documents(text, Bytes.encode, 5, 1200)
    assert [document.instance for document in documents] == [
        *(instance(task, 2, 0) for task in TASKS),
        instance("needle", 2, 1),
    ]
    seen = [set(re.findall(r"number (\d+) of", Bytes.decode(document.tokens))) for document in documents]
    assert all(not a & b for i, a in enumerate(seen) for b in seen[:i])


@given(st.text("ab. \n", max_size=3000))
def test_paragraphs_are_the_text(text):
    parts = list(paragraphs(text))
    assert "".join(parts) == text
    assert all(0 < len(part) <= 400 or not re.search(r"\s", part[1:-1]) for part in parts)


@given(st.integers(1, 30), st.integers(0, 12), SEEDS, st.data())
def test_one_row_in_five_is_a_retrieval_row(rows, answer, seed, data):
    tokens = 100
    retrieval = range(tokens - 1 - answer, tokens - 1)
    drawn = sorted(data.draw(st.sets(st.integers(25, 99), min_size=rows, max_size=rows)))
    wanted = -(-rows // 5)
    if answer < wanted:
        with pytest.raises(InputError, match=f"rows: {rows} ask for {wanted} .* at most {5 * answer} rows"):
            with_retrieval(drawn, retrieval, seed, 0)
        return
    positions = with_retrieval(drawn, retrieval, seed, 0)
    assert positions == with_retrieval(drawn, retrieval, seed, 0)
    assert list(positions) == sorted(set(positions))
    assert len(positions) == rows
    tagged = set(positions) & set(retrieval)
    assert len(tagged) == max(wanted, len(set(drawn) & set(retrieval)))
    assert set(positions) - tagged <= set(drawn)


@pytest.mark.skipif(
    not built_in.converted_folder(SMOLLM2).exists(), reason="smollm2-135m is not in the cache"
)
def test_under_the_tokenizer_of_a_model():
    coder = models.tokenizer(models.resolve("smollm2-135m").fetch())
    for document in task_documents(open_text("task:mixed"), models.encoder(coder), 4, 512):
        made = document.instance
        for fact, (first, stop) in zip(made.facts, document.facts, strict=True):
            assert coder.decode(document.tokens[first:stop]) == fact.text
        assert coder.decode(document.tokens[document.context :]) == made.question + made.answer
        golds = [coder.decode(document.tokens[a:b]) for a, b in document.golds]
        assert [gold.strip() for gold in golds] == [gold.strip() for gold in made.golds]
