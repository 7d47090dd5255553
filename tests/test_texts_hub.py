"""Datasets of the Hugging Face hub, by a stand-in for the package that fetches them, and local files."""

import sys
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from ceiling.problem import InputError
from ceiling.texts import hub, open_text


@pytest.fixture
def asked(monkeypatch) -> list[Any]:
    """What a stand-in for `datasets` was asked for; it serves three rows."""
    calls: list[Any] = []

    def load_dataset(*given, **named):
        calls.append((given, named))
        if given[0] == "no/hub":
            raise ConnectionError("cannot reach the hub\nsecond line")
        return iter([{"n": 1, "text": " = Head = \n"}, {"n": 2, "text": ""}, {"n": 3, "text": "Prose."}])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_wikitext_is_its_test_part_in_order(asked):
    text = open_text("wikitext-103")
    assert asked == [
        (("Salesforce/wikitext", "wikitext-103-raw-v1"), {"split": "test", "streaming": True}),
    ]
    assert text.source == "wikitext-103"
    assert text.pieces == ("= Head =\n\n", "Prose.\n\n")
    assert text.sha256 == open_text("hf:Salesforce/wikitext:wikitext-103-raw-v1").sha256


def test_parts_left_out_have_defaults(asked):
    assert open_text("hf:some/thing").source == "hf:some/thing"
    open_text("hf:some/thing::train:text")
    assert asked == [
        (("some/thing", None), {"split": "test", "streaming": True}),
        (("some/thing", None), {"split": "train", "streaming": True}),
    ]


def test_a_dataset_is_read_as_far_as_it_may_be(asked, monkeypatch):
    monkeypatch.setattr(hub, "CHARACTERS", 5)
    assert open_text("hf:some/thing").pieces == ("= Head =\n\n",)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:no/hub", "hf:no/hub cannot be had: cannot reach the hub$"),
        ("hf:", r"hf: is not hf:NAME\[:CONFIG"),
        ("hf:a:b:c:d:e", "is not hf:NAME"),
        ("hf:a::train:n", "no text column 'n'; its text columns: text"),
    ],
)
def test_what_cannot_be_had_is_one_line(asked, name, words):
    with pytest.raises(InputError, match=words):
        open_text(name)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="needs the package `datasets`"):
        open_text("wikitext-103")


def test_the_package_itself_reads_a_folder_of_parquet(tmp_path):
    pytest.importorskip("datasets")
    pl.DataFrame({"text": ["One.", "", "Two."]}).write_parquet(tmp_path / "test-00000.parquet")
    assert open_text(f"hf:{tmp_path}").pieces == ("One.\n\n", "Two.\n\n")
    with pytest.raises(InputError, match=r"cannot be had: .*train"):
        open_text(f"hf:{tmp_path}::train")
