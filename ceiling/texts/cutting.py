"""Documents cut from a text: non-overlapping runs of a model's own tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from ceiling.problem import InputError
from ceiling.texts.opening import Text


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
        Of a task, its haystack alone; see `ceiling.texts.task_documents`.
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
