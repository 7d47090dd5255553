"""Which texts are counted: by name, by default, and in words."""

import polars as pl
import pytest

from ceiling.analysis import by_context, context, of_text, texts_note
from ceiling.analysis.contexts import lengths_note
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_documents

SHORTER = " (the paper's: 4,096 and more: budgets are a larger share of ours)"
TEXTS = {"a": "python-docs", "b": "python-code", "c": "task:needle", "d": "stories"}


@pytest.fixture
def store():
    """Instances of four dumps, and a fifth that no document names."""
    frame = hand_made(*({"dump": dump} for dump in "abcde"))
    return frame, pl.concat([toy_documents(frame.filter(dump=dump), text) for dump, text in TEXTS.items()])


def dumps(frame):
    return "".join(frame.collect()["dump"])


def test_every_dump_has_one_text(store):
    assert context(store[1]).rows() == list(TEXTS.items())


@pytest.mark.parametrize(
    ("text", "found"), [(None, "ade"), ("python-code", "b"), ("task:needle", "c"), ("stories", "d")]
)
def test_the_main_text_is_all_but_code_and_tasks(store, text, found):
    frame, documents = store
    assert dumps(of_text(frame, documents, text)) == found
    assert dumps(of_text(frame.lazy(), documents.lazy(), text)) == found


def test_all_are_counted_where_nothing_would_be_left(store):
    frame, documents = store
    assert dumps(of_text(frame.filter(pl.col("dump").is_in(["b", "c"])), documents)) == "bc"
    assert dumps(of_text(frame.head(0), documents)) == ""
    assert dumps(of_text(frame, documents.head(0))) == "abcde"


@pytest.mark.parametrize(
    ("text", "texts"), [("python-doc", "python-docs, python-code"), ("zzz", "python-code, python-docs, .*")]
)
def test_an_unknown_text_is_refused_with_near_names(store, text, texts):
    with pytest.raises(InputError, match=rf"text: no dump of this store is of '{text}' \(texts: {texts}\)"):
        of_text(*store, text)


def test_a_store_without_documents_knows_no_text(store):
    with pytest.raises(InputError, match="none is recorded"):
        of_text(store[0], store[1].head(0), "python-docs")


def test_rows_by_text_main_ones_first(store):
    parts = by_context(*store)
    assert list(parts) == ["python-docs", "stories", "unknown text", "python-code", "task:needle"]
    assert {name: "".join(part["dump"]) for name, part in parts.items()} == {
        **{"python-docs": "a", "stories": "d", "unknown text": "e"},
        **{"python-code": "b", "task:needle": "c"},
    }
    assert all(part.columns == store[0].columns for part in parts.values())


def test_the_note_says_what_is_counted_and_what_is_left_out(store):
    assert texts_note(*store) == (
        "Text: python-docs, 1,024 tokens a document; stories, 1,024 tokens a document; unknown text"
        f"{SHORTER}. Left out: python-code, task:needle (`--text NAME` counts another)."
    )
    frame, documents = store
    one = texts_note(frame.filter(dump="a"), documents)
    assert one == f"Text: python-docs, 1,024 tokens a document{SHORTER}."
    assert texts_note(frame.head(0), documents) == "Text: none."


@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        ([2048, 2048], f"2,048 tokens a document{SHORTER}"),
        ([4095, 8192], f"4,095 to 8,192 tokens a document{SHORTER}"),
        ([4096, 4096], "4,096 tokens a document"),
    ],
)
def test_the_note_says_how_long_the_counted_documents_are(tokens, length):
    frame = hand_made({"document": 0}, {"document": 1}, {"document": 2})
    documents = toy_documents(frame).with_columns(tokens=pl.Series([*tokens, 7]))
    assert lengths_note(frame.filter(pl.col("document") < 2), documents) == f"python-docs, {length}"
