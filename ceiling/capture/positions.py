"""Query positions: which rows of a document are sampled."""

import itertools
from collections.abc import Sequence
from math import ceil

import numpy as np

from ceiling.problem import InputError

ROWS = 6
"""Sampled positions of a document (count): the paper's."""

FIRST_SAMPLED = 1 / 4
"""Share of a document before its first sampled position: earlier rows see too few keys to choose from."""


def sample_positions(tokens: int, rows: int, seed: int, document: int) -> tuple[int, ...]:
    """Draw a document's sampled positions: distinct, uniform in [N/4, N), the same for all its heads.

    Parameters
    ----------
    tokens, rows : int
        N, and how many positions.
    seed, document : int
        Seed the generator, so that a document's positions do not depend on how many there are.

    Returns
    -------
    tuple of int
        Ascending.

    Raises
    ------
    InputError
        When there are not that many positions.
    """
    for field, value in (("tokens", tokens), ("rows", rows), ("seed", seed + 1)):
        if value < 1:
            raise InputError(f"{field}: {value if field != 'seed' else seed} is too small")
    first = ceil(tokens * FIRST_SAMPLED)
    if rows > tokens - first:
        raise InputError(f"rows: {rows} do not fit into positions {first}..{tokens - 1} of {tokens} tokens")
    drawn = np.random.default_rng([seed, document]).choice(tokens - first, size=rows, replace=False)
    return tuple(sorted(int(first + p) for p in drawn))


def check_positions(positions: Sequence[int]) -> tuple[int, ...]:
    """Return the positions; InputError unless there are some, none negative, ascending without repeats."""
    for p in positions:
        if isinstance(p, bool) or int(p) != p:
            raise InputError(f"positions: {p!r} is not a whole number")
    checked = tuple(int(p) for p in positions)
    if not checked:
        raise InputError("positions: none given; name at least one query position")
    if min(checked) < 0:
        raise InputError(f"positions: {min(checked)} is negative; the first token is position 0")
    for a, b in itertools.pairwise(checked):
        if a == b:
            raise InputError(f"positions: {a} is repeated; name each position once")
        if a > b:
            raise InputError(f"positions: {a} stands before {b}; name them in ascending order")
    return checked
