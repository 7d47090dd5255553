"""The tables that every run over a dump writes beside its results: ``documents`` and ``rows``."""

import json
from typing import Any

from ceiling.dump import Document, Dump
from ceiling.dump.manifest import read_registered
from ceiling.problem import InputError
from ceiling.store import Shards, is_whole


def write_small_tables(dump: Dump, shards: Shards) -> None:
    """Write what is missing of the tables ``documents`` and ``rows`` of a dump."""
    for index in range(dump.n_documents):
        document = dump.document(index)
        for table, columns in (("documents", _document(dump, document)), ("rows", _rows(dump, document))):
            path = shards.path(table, index)
            if not is_whole(path):
                shards.write(table, path, columns)


def check_same(dump: Dump, dump_id: str) -> None:
    """Raise `InputError` unless a dump is still the one that the run was planned for."""
    if dump.id != dump_id:
        raise InputError(f"dump: {dump.path} is now {dump.id}, it was {dump_id} when the run was planned")


def _document(dump: Dump, document: Document) -> dict[str, list[Any]]:
    text, bounds = dump.manifest["text"], read_registered(dump.path, dump.manifest)
    return {
        "dump": [dump.id],
        "model": [dump.model],
        "document": [document.index],
        "tokens": [len(document.tokens)],
        "text": [text["source"]],
        "text_sha256": [text["sha256"]],
        "needles": [document.tags.get("needle")],
        "registered": [None if bounds is None else json.dumps(bounds)],
    }


def _rows(dump: Dump, document: Document) -> dict[str, list[Any]]:
    positions = document.query_positions.tolist()
    return {
        "dump": [dump.id] * len(positions),
        "document": [document.index] * len(positions),
        "row": list(range(len(positions))),
        "position": positions,
        "tags": [sorted(tag for tag, at in document.tags.items() if p in at) for p in positions],
    }
