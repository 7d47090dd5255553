"""Which key to branch on: the one whose two children should gain most, by what they gained before.

For every key, and for either child, is remembered by how much the bound rose, divided by how far the key's
weight moved (pseudo-costs, M. Bénichou et al., 1971). The same heavy keys are branched on all over a tree, so
it soon shows which of them matter: on diffuse rows trees have a half to a twentieth of the nodes of those
that branch on the largest ``x (1 - x) |z|^2``. A key seldom met counts as gaining what keys of its norm do.
"""

import numpy as np

from ceiling.kernels.compiled import compiled

KEPT, LEFT_OUT = 0, 1
"""The two children."""

PRIOR = 4.0
"""Branchings that the mean over all keys counts for, beside a key's own."""

LEAST = 1e-6
"""Gain, a unit of norm, below which children are alike."""

WHOLE, NEAR = 1e-9, 1e-3
"""Weights this close to 0 or 1 are that; a weight that moved by less counts as having moved by so much."""


@compiled
def room(n: int) -> tuple:
    """Gains and numbers of branchings, a key and a child; gains and norms, a child, summed over all."""
    return np.zeros((n, 2)), np.zeros((n, 2)), np.zeros((2, 2))


@compiled
def forget(gains: tuple) -> None:
    """Start anew."""
    gains[0][:], gains[1][:], gains[2][:] = 0.0, 0.0, 0.0


@compiled
def learn(gains: tuple, key: int, norm: float, child: int, moved: float, gain: float) -> None:
    """Take note of what a child gained: its key's weight was `moved` to 1 or 0."""
    own, times, overall = gains
    rate = gain / max(moved, NEAR)
    own[key, child] += rate
    times[key, child] += 1
    overall[child, 0] += rate
    overall[child, 1] += norm


@compiled
def score(gains: tuple, key: int, norm: float, x: float) -> float:
    """How good it is to branch on `key`, whose weight is `x`; the child that keeps it counts for more."""
    own, times, overall = gains
    kept = left_out = 0.0
    for child in range(2):
        mean = overall[child, 0] / overall[child, 1] if overall[child, 1] > 0 else 1.0
        rate = (own[key, child] + PRIOR * mean * norm) / (times[key, child] + PRIOR)
        if child == KEPT:
            kept = max(rate * (1 - x), LEAST * norm)
        else:
            left_out = max(rate * x, LEAST * norm)
    return kept * np.sqrt(kept) * left_out


@compiled
def mixed(hull: tuple, count: int, k: int, x: np.ndarray, keys: np.ndarray) -> int:
    """Write the keys of vertices that have weight, and the weight `x` of each; returns how many."""
    chosen, weights, found = hull[0], hull[1], 0
    for v in range(count):
        for i in range(k):
            x[chosen[v, i]] = -1.0
    for v in range(count):
        for i in range(k if weights[v] > 0 else 0):
            j = chosen[v, i]
            if x[j] < 0:
                keys[found], x[j] = j, 0.0
                found += 1
            x[j] += weights[v]
    return found


@compiled
def best(gains: tuple, norms: np.ndarray, keys: np.ndarray, count: int, x: np.ndarray) -> int:
    """The key to branch on; any of them, if the weight of none is in between."""
    key, most = -1, -np.inf
    for i in range(count):
        j = keys[i]
        worth = score(gains, j, norms[j], x[j]) if WHOLE < x[j] < 1 - WHOLE else -1.0
        if worth > most:
            key, most = j, worth
    return key
