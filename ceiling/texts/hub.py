"""Texts from the Hugging Face hub, through the `datasets` package where it is installed."""

import importlib
from collections.abc import Iterable
from typing import Any

from ceiling.problem import InputError

SPLIT, COLUMN = "test", "text"
"""What is read where a name leaves it out: the held-out part, and the column most texts are in."""

CHARACTERS = 20_000_000
"""How much of a dataset is read (characters): some 5 million tokens, beyond any panel; some never end."""


def read(name: str) -> list[str]:
    """The rows of a dataset's text column, in order; one piece a row.

    Parameters
    ----------
    name : str
        ``NAME[:CONFIG[:SPLIT[:COLUMN]]]``, e.g. ``Salesforce/wikitext:wikitext-103-raw-v1:test``; parts may
        be left empty. Streamed: only what is read is fetched, and no code of the dataset is run.

    Raises
    ------
    InputError
        When `datasets` is not installed, or the hub, the dataset, its part or its column cannot be had.
    """
    dataset, config, split, column, *more = [*name.split(":"), "", "", ""]
    if not dataset or any(more):
        raise InputError(f"text: hf:{name} is not hf:NAME[:CONFIG[:SPLIT[:COLUMN]]]")
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError:
        raise InputError(
            f"text: hf:{name} needs the package `datasets` (pip install datasets); a file or folder does not"
        ) from None
    try:
        rows = datasets.load_dataset(dataset, config or None, split=split or SPLIT, streaming=True)
        return _take(rows, column or COLUMN, name)
    except InputError:
        raise
    except Exception as error:  # whatever its many back ends raise: no hub, no such name, no such part
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise InputError(f"text: hf:{name} cannot be had: {reason}") from error


def _take(rows: Iterable[dict[str, Any]], column: str, name: str) -> list[str]:
    """Rows of a column until they have `CHARACTERS` characters."""
    taken: list[str] = []
    length = 0
    for row in rows:
        if not isinstance(row.get(column), str):
            texts = ", ".join(field for field, value in row.items() if isinstance(value, str)) or "none"
            raise InputError(f"text: hf:{name} has no text column {column!r}; its text columns: {texts}")
        taken.append(row[column])
        length += len(row[column])
        if length >= CHARACTERS:
            break
    return taken
