"""Opening a text by name: a built-in, a task over a haystack, a dataset, a file or a folder."""

import hashlib
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ceiling.problem import InputError
from ceiling.texts import hub
from ceiling.texts.naming import ALIASES, HUB, TASK, task_of
from ceiling.texts.ruler import RULER_GENERATOR, is_ruler, parse_task, task_name
from ceiling.texts.tasks import GENERATOR, check_task

SUFFIXES = (".txt", ".md", ".rst", ".py")
"""Files of a folder that count as text."""

_NOT_SOURCE = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
"""Standard-library folders left out of ``python-code``: third-party, fixtures, or absent on some systems."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in order.

    Attributes
    ----------
    source : str
        What named it.
    pieces : tuple of str
        Its parts; each is tokenised on its own, once, and documents run across them. Of a task: its haystack.
    sha256 : str
        Digest of all parts, hex; of a task also of its name, its seed and the generators' version.
    task : str or None
        The task hidden in it.
    seed : int
        Of the task's facts.
    """

    source: str
    pieces: tuple[str, ...]
    sha256: str
    task: str | None = None
    seed: int = 0


def open_text(name: str, seed: int = 0) -> Text:
    """Read the text that `name` stands for.

    Parameters
    ----------
    name : str
        * a built-in: ``python-docs``, ``python-code``
        * ``task:needle``, ``task:multi-needle``, ``task:variable-chain``, ``task:qa``, or ``task:mixed``,
          whose documents are of each in turn; hidden in python-docs, or in any text named after a further
          colon
        * ``task:niah_single_1`` and the other twelve of RULER, perhaps with sizes, ``task:vt:hops=2``, see
          `ceiling.texts.SIZES`; the same further colon, which only those that hide in prose need
        * ``wikitext-103`` (its test part) or ``hf:NAME[:CONFIG[:SPLIT[:COLUMN]]]``, a dataset of the Hugging
          Face hub, see `ceiling.texts.hub.read`
        * a file, or a folder, whose .txt, .md, .rst and .py files are read in the order of their paths

        These go before a file of the same name; write ``./name`` for the file.
    seed : int
        Of a task's facts.

    Raises
    ------
    InputError
        When it is none of these, cannot be had, is empty or is not UTF-8; the built-ins are listed.
    """
    if (task := task_of(name)) is not None:
        generator = RULER_GENERATOR if is_ruler(task[0]) else GENERATOR
        named = task_name(*parse_task(task[0])) if is_ruler(task[0]) else check_task(task[0])
        hay = open_text(task[1])
        if hay.task is not None:
            raise InputError(f"text: {name} hides a task in a task; name another text after {TASK}{task[0]}:")
        made = f"{TASK}{named} {seed} {generator} {hay.sha256}"
        source = f"{TASK}{named}" + ("" if name == f"{TASK}{task[0]}" else f":{hay.source}")
        return replace(
            hay, source=source, task=named, seed=seed, sha256=hashlib.sha256(made.encode()).hexdigest()
        )
    source, pieces = _read_pieces(name)
    kept = tuple(piece.strip() + "\n\n" for piece in pieces if piece.strip())
    if not kept:
        raise InputError(f"text: {name} is empty")
    return Text(source, kept, hashlib.sha256("".join(kept).encode()).hexdigest())


def _read_pieces(name: str) -> tuple[str, list[str]]:
    """A text's name without folders, and its parts."""
    path = Path(name).expanduser()
    if name in BUILT_INS:
        return name, list(BUILT_INS[name]())
    if name in ALIASES or name.startswith(HUB):
        return name, hub.read(ALIASES.get(name, name).removeprefix(HUB))
    if name and path.is_file():
        return path.resolve().name, [_read(path)]
    if name and path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not files:
            raise InputError(f"text: folder {name} holds no file ending in {', '.join(SUFFIXES)}")
        return path.resolve().name, [_read(file) for file in files]
    known = ", ".join(sorted([*BUILT_INS, *ALIASES]))
    raise InputError(
        f"text: {name!r} is no built-in ({known}) and no existing file or folder; "
        f"tasks begin with {TASK}, datasets with {HUB}"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"text: {path} is not UTF-8 ({error.reason} at byte {error.start})") from None


def _python_docs() -> Iterator[str]:
    """The prose of the language reference, as ``help()`` shows it, in the order of the topics' names."""
    from pydoc_data.topics import topics

    return (topics[name] for name in sorted(topics))


def _python_code() -> Iterator[str]:
    """The standard library's Python source, in the order of the paths."""
    root = Path(sysconfig.get_paths()["stdlib"])
    relative = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    return (_read(root / name) for name in relative if not _NOT_SOURCE & set(Path(name).parts))


BUILT_INS: dict[str, Callable[[], Iterator[str]]] = {"python-docs": _python_docs, "python-code": _python_code}
"""Name -> the parts of the text."""
