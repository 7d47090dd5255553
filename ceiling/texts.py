"""Texts by name, and documents cut from them: non-overlapping runs of a model's own tokens."""

import difflib
import hashlib
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ceiling.problem import InputError

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
        Its parts; each is tokenised on its own, and documents run across them.
    sha256 : str
        Digest of all parts, hex.
    """

    source: str
    pieces: tuple[str, ...]
    sha256: str


def open_text(name: str) -> Text:
    """Read the text that `name` stands for.

    Parameters
    ----------
    name : str
        A built-in (``python-docs``, ``python-code``), a file, or a folder, whose .txt, .md, .rst
        and .py files are read in the order of their paths. A built-in goes before a file of the
        same name; write ``./name`` for the file.

    Raises
    ------
    InputError
        When it is none of these, is empty or is not UTF-8; near built-ins are listed.
    """
    path = Path(name).expanduser()
    if name in BUILT_INS:
        pieces = list(BUILT_INS[name]())
    elif name and path.is_file():
        pieces = [_read(path)]
    elif name and path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not files:
            raise InputError(f"text: folder {name} holds no file ending in {', '.join(SUFFIXES)}")
        pieces = [_read(file) for file in files]
    else:
        near = difflib.get_close_matches(name, BUILT_INS, cutoff=0.4) or sorted(BUILT_INS)
        raise InputError(f"text: {name!r} is no built-in ({', '.join(near)}) and no existing file or folder")
    kept = tuple(piece.strip() + "\n\n" for piece in pieces if piece.strip())
    if not kept:
        raise InputError(f"text: {name} is empty")
    digest = hashlib.sha256("".join(kept).encode()).hexdigest()
    return Text(name if name in BUILT_INS else path.resolve().name, kept, digest)


def documents(
    text: Text,
    encode: Callable[[str], Sequence[int]],
    documents: int,
    tokens: int,
    prefix: Sequence[int] = (),
) -> np.ndarray:
    """Cut the first `documents` documents of `tokens` tokens each from a text.

    Parameters
    ----------
    text : Text
    encode : callable
        Text to token ids, without special tokens.
    documents, tokens : int
        How many, and how long each, `prefix` included.
    prefix : sequence of int
        Token ids every document starts with, for models that always see a start token.

    Returns
    -------
    ndarray of int64, shape (documents, tokens)

    Raises
    ------
    InputError
        When the text is too short, or a number is not positive.
    """
    for field, value in (("documents", documents), ("tokens", tokens - len(prefix))):
        if value < 1:
            raise InputError(f"{field}: {value} is not positive")
    fresh = tokens - len(prefix)
    needed = documents * fresh
    stream: list[int] = []
    for piece in text.pieces:
        stream.extend(encode(piece))
        if len(stream) >= needed:
            break
    else:
        raise InputError(
            f"text: {text.source} has {len(stream)} tokens of this model; "
            f"{documents} documents of {tokens} need {needed}"
        )
    body = np.array(stream[:needed], dtype=np.int64).reshape(documents, fresh)
    head = np.tile(np.array(prefix, dtype=np.int64), (documents, 1))
    return np.concatenate([head, body], axis=1)


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
