"""The names of texts: built-ins, tasks over a haystack, datasets of a hub, and everything else a path."""

import re
from pathlib import Path

from ceiling.texts.ruler import is_ruler

BUILT_IN_NAMES = ("python-docs", "python-code")
"""Texts that every installation has."""

TASK, HUB = "task:", "hf:"
"""What the names of tasks and of Hugging Face datasets begin with."""

ALIASES = {"wikitext-103": "hf:Salesforce/wikitext:wikitext-103-raw-v1:test"}
"""Short names of datasets; this one is the prose of arXiv 2608.25230."""

HAYSTACK = "python-docs"
"""The text that a task's facts are hidden in where none is named."""


_SIZES = re.compile(r"[\w,-]*=[\w=,-]*")


def task_of(name: str) -> tuple[str, str] | None:
    """Task and haystack of ``task:TASK`` or ``task:TASK:HAYSTACK``; None for any other name.

    Examples
    --------
    >>> task_of("task:needle"), task_of("task:vt:hops=2"), task_of("task:vt:hops=2:book.txt")
    (('needle', 'python-docs'), ('vt:hops=2', 'python-docs'), ('vt:hops=2', 'book.txt'))
    """
    if not name.startswith(TASK):
        return None
    task, colon, haystack = name.removeprefix(TASK).partition(":")
    sizes, more, after = haystack.partition(":")
    if is_ruler(task) and _SIZES.fullmatch(sizes):  # other tasks have none
        task, colon, haystack = f"{task}:{sizes}", more, after
    return task, haystack if colon else HAYSTACK


def path_in(name: str) -> tuple[str, str]:
    """Split a text's name into what stands before a path, and the path; that is empty where there is none.

    Examples
    --------
    >>> path_in("book.txt"), path_in("task:needle:book.txt"), path_in("python-docs")
    (('', 'book.txt'), ('task:needle:', 'book.txt'), ('python-docs', ''))
    """
    if (task := task_of(name)) is not None:
        before, path = path_in(task[1])
        return (f"{TASK}{task[0]}:{before}", path) if path else (name, "")
    if name in BUILT_IN_NAMES or from_hub(name):
        return name, ""
    return "", name


def from_hub(name: str) -> bool:
    """Whether a text, or a task's haystack, is a dataset of the hub."""
    if (task := task_of(name)) is not None:
        return from_hub(task[1])
    return name in ALIASES or name.startswith(HUB)


def short_name(name: str) -> str:
    """A text's name for use in a file's: a path without folders and ending, no character a shell minds.

    Examples
    --------
    >>> short_name("books/one.txt"), short_name("task:mixed"), short_name("task:qa:books/one.txt")
    ('one', 'task-mixed', 'task-qa-one')
    """
    before, path = path_in(name)
    return re.sub(r"[^\w.-]+", "-", before + Path(path).stem).strip("-")
