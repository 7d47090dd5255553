"""Texts by name and documents cut from them."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.problem import InputError
from ceiling.texts import BUILT_INS, Text, documents, from_hub, open_text, path_in, short_name
from ceiling.texts.naming import BUILT_IN_NAMES


def encode(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.parametrize("name", BUILT_INS)
def test_built_ins_are_long_and_repeat_exactly(name):
    text = open_text(name)
    assert text == open_text(name)
    assert text.source == name
    assert len("".join(text.pieces)) > 100_000


def test_python_docs_is_the_topics_in_the_order_of_their_names():
    from pydoc_data.topics import topics

    pieces = open_text("python-docs").pieces
    assert len(pieces) == len(topics)
    assert pieces[0] == topics[min(topics)].strip() + "\n\n"


def test_the_names_of_built_ins_are_those_there_are():
    assert set(BUILT_IN_NAMES) == set(BUILT_INS)


def test_a_task_is_its_haystack_and_a_seed(tmp_path):
    hay = tmp_path / "hay.txt"
    hay.write_text("straw " * 9)
    text = open_text(f"task:needle:{hay}", seed=3)
    assert (text.source, text.task, text.seed) == ("task:needle:hay.txt", "needle", 3)
    assert text.pieces == open_text(str(hay)).pieces
    assert open_text("task:mixed").pieces == open_text("python-docs").pieces
    others = [open_text(f"task:{task}:{hay}", seed) for task, seed in (("needle", 4), ("qa", 3))]
    assert len({text.sha256, open_text(str(hay)).sha256, *(other.sha256 for other in others)}) == 4


@pytest.mark.parametrize(
    ("name", "before", "path", "short", "hub"),
    [
        ("python-docs", "python-docs", "", "python-docs", False),
        ("books/one.txt", "", "books/one.txt", "one", False),
        ("my book.txt", "", "my book.txt", "my-book", False),
        ("./task:needle", "", "./task:needle", "task-needle", False),
        ("task:mixed", "task:mixed", "", "task-mixed", False),
        ("task:needle:books/one.txt", "task:needle:", "books/one.txt", "task-needle-one", False),
        ("task:qa:python-code", "task:qa:python-code", "", "task-qa-python-code", False),
        ("wikitext-103", "wikitext-103", "", "wikitext-103", True),
        ("task:qa:wikitext-103", "task:qa:wikitext-103", "", "task-qa-wikitext-103", True),
        ("hf:a/b:c:train", "hf:a/b:c:train", "", "hf-a-b-c-train", True),
    ],
)
def test_names_fall_into_what_is_no_path_and_a_path(name, before, path, short, hub):
    assert path_in(name) == (before, path)
    assert short_name(name) == short
    assert from_hub(name) == hub


def test_a_file_and_a_folder(tmp_path):
    (tmp_path / "b.md").write_text("second\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z.txt").write_text("first äöü", encoding="utf-8")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "picture.bin").write_bytes(b"\xff")
    folder = open_text(str(tmp_path))
    assert folder.pieces == ("first äöü\n\n", "second\n\n")
    assert folder.source == tmp_path.name
    assert open_text(str(tmp_path / "b.md")).pieces == ("second\n\n",)
    assert open_text(str(tmp_path / "b.md")).sha256 != folder.sha256


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "void").mkdir()
    (tmp_path / "void.txt").touch()
    for name, words in (
        ("python-doc", r"'python-doc' is no built-in \(python-code, python-docs, wikitext-103\)"),
        ("wikitext", r"no built-in \(python-code, python-docs, wikitext-103\)"),
        ("french", r"no built-in \(python-code, python-docs, wikitext-103\)"),
        ("task:needles", "task 'needles' is unknown; there are needle, multi-needle, variable-chain, qa,"),
        ("task:", "task '' is unknown; there are needle, multi-needle, variable-chain, qa, mixed"),
        ("task:qa:nowhere.txt", "'nowhere.txt' is no built-in"),
        ("task:qa:task:needle", "hides a task in a task"),
        ("", "is no built-in"),
        (str(tmp_path / "latin.txt"), "is not UTF-8"),
        (str(tmp_path / "void"), "holds no file"),
        (str(tmp_path / "void.txt"), "is empty"),
    ):
        with pytest.raises(InputError, match=words):
            open_text(name)


@given(
    st.lists(st.text("abcd", min_size=1, max_size=9), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(2, 6),
    st.lists(st.integers(0, 9), max_size=1),
)
def test_documents_are_the_stream_cut_in_order(pieces, count, tokens, prefix):
    text = Text("t", tuple(pieces), "0")
    stream = encode("".join(pieces))
    fresh = tokens - len(prefix)
    if len(stream) < count * fresh:
        with pytest.raises(InputError, match=f"t has {len(stream)} tokens .* need {count * fresh}"):
            documents(text, encode, count, tokens, prefix)
        return
    cut = documents(text, encode, count, tokens, prefix)
    assert cut.dtype == np.int64
    assert cut.shape == (count, tokens)
    assert (
        cut[:, len(prefix) :].ravel().tolist() == stream[: count * fresh]
    )  # nothing twice, nothing left out
    assert cut[:, : len(prefix)].tolist() == [prefix] * count


def test_each_part_is_tokenised_once_and_no_more_than_needed():
    calls = []

    def counting(text: str) -> list[int]:
        calls.append(text)
        return encode(text)

    documents(Text("t", ("abc", "def", "ghi"), "0"), counting, 2, 2)
    assert calls == ["abc", "def"]


@pytest.mark.parametrize(
    ("count", "tokens", "field"), [(0, 4, "documents"), (1, 0, "tokens"), (-1, 4, "documents")]
)
def test_numbers_must_be_positive(count, tokens, field):
    with pytest.raises(InputError, match=f"{field}: .* is not positive"):
        documents(Text("t", ("abc",), "0"), encode, count, tokens)


def test_texts_are_light():
    code = "import sys, ceiling.texts; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)
