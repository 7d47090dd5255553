"""What as many keys as a press kept could cost at best: an upper bound by balancing, a lower one by proof."""

from collections.abc import Iterable

import numpy as np

from ceiling.certify import certify
from ceiling.kernels.descent import descend
from ceiling.objective import TIE, centre
from ceiling.problem import Row

SWAPS = 128
"""Made from a top-mass set at most. Of 1 000 keys (smollm2-135m) only flat heads of the first layers have
hundreds to make; by then 0.99 of what all of these would close is closed."""

MOST_CERTIFIED = 32
"""Keys kept, at most, for which a lower bound is proved: beyond, proofs rarely end."""

NODES_A_KEY = 3
"""Limit of a proof, in nodes a key of the row: most end at about one. It decides, and no clock does."""

FOREVER = 1e9
"""CPU seconds: the guard of a proof, out of reach of its nodes."""


def balanced(row: Row, counts: Iterable[int]) -> dict[int, float]:
    """Errors over sigma after balancing swaps from the top-mass sets of so many keys.

    Kept keys are swapped for dropped ones, all of them, the best swap first, until none lowers the error or
    `SWAPS` are made.

    Parameters
    ----------
    row : Row
        Of sigma > 0.
    counts : iterable of int
        1 or more; 0 is the error of all keys.
    """
    keys = centre(row)
    order = np.argsort(-keys.masses, kind="stable")
    residuals, masses = np.ascontiguousarray(keys.residuals[order]), keys.masses[order]
    gram = residuals @ residuals.T
    return {
        s: descend(gram, residuals, masses, s, SWAPS, TIE)[0] / keys.sigma if s < len(masses) else 0.0
        for s in counts
    }


def proved(row: Row, counts: Iterable[int]) -> dict[int, float]:
    """Lower bounds, over sigma, of the error of every set of so many keys; none above `MOST_CERTIFIED`.

    See `ceiling.certify.certify`. Where the limit strikes it is the largest bound proved by then, perhaps 0.
    """
    limit, sigma = NODES_A_KEY * row.n_keys, centre(row).sigma
    return {
        s: certify(row, s, nodes=limit, seconds=FOREVER).lower / sigma for s in counts if s <= MOST_CERTIFIED
    }
