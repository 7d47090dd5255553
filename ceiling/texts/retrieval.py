"""Sampled positions of a task document: enough of them must be where the answer is read off."""

from collections.abc import Sequence

import numpy as np

from ceiling.problem import InputError

ONE_IN = 5
"""At least one in so many of a task document's sampled rows is a retrieval row: 20% (arXiv 2608.25230)."""

_STREAM = 1
"""Sets this draw's generator apart from that of the positions themselves, which has the same seed."""


def with_retrieval(
    positions: Sequence[int], retrieval: Sequence[int], seed: int, document: int
) -> tuple[int, ...]:
    """Exchange as few of the sampled positions for retrieval positions as `ONE_IN` asks for.

    Parameters
    ----------
    positions : sequence of int
        As drawn for any document; those that stay are still uniform.
    retrieval : sequence of int
        Positions whose next token is part of the answer.
    seed, document : int
        Seed the generator.

    Returns
    -------
    tuple of int
        As many, ascending, distinct.

    Raises
    ------
    InputError
        When there are fewer retrieval positions than that.
    """
    wanted = -(-len(positions) // ONE_IN)
    if wanted > len(retrieval):
        raise InputError(
            f"rows: {len(positions)} ask for {wanted} retrieval rows, the answer of document {document} has "
            f"{len(retrieval)} tokens; ask for at most {len(retrieval) * ONE_IN} rows"
        )
    rng = np.random.default_rng([seed, document, _STREAM])
    background = sorted(set(positions) - set(retrieval))
    spare = sorted(set(retrieval) - set(positions))
    missing = max(0, wanted - (len(positions) - len(background)))
    out = rng.choice(len(background), missing, replace=False)
    new = rng.choice(len(spare), missing, replace=False)
    left = set(positions) - {background[i] for i in out}
    return tuple(sorted(left | {spare[i] for i in new}))
