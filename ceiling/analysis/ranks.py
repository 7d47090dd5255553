"""Order statistics of a sample whose documents carry integer weights, all resamplings at once.

Every function takes `cluster` (int64, shape (n,): the document of each value) and `weights`
(int64, shape (R, D): how often each document counts) and returns float64 of shape (R,), NaN where
the statistic does not exist. The result is that of the sample with each value repeated as often
as its document counts; no repeated sample is ever formed.
"""

import numpy as np


def quantile(values: np.ndarray, cluster: np.ndarray, weights: np.ndarray, q: float) -> np.ndarray:
    """The q-quantile, interpolated linearly between order statistics.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        No NaN; infinite values sort as usual and give an infinite quantile where they meet it.
    q : float
        In [0, 1].

    Notes
    -----
    Definition 7 of Hyndman & Fan, "Sample quantiles in statistical packages" (1996), which is numpy's
    default. The order statistic of rank r is found by bisection on the sorted positions, with one
    sorted list of positions per document, so the cost is B log n per document.
    """
    order = np.argsort(values, kind="stable")
    ordered, documents = values[order], cluster[order]
    places = [np.flatnonzero(documents == d) for d in range(weights.shape[1])]
    total = weights @ np.array([len(p) for p in places])
    if not total.any():
        return np.full(len(weights), np.nan)
    rank = np.maximum(total - 1, 0) * q
    below = np.floor(rank).astype(np.int64)
    low = ordered[_position(places, weights, below, len(values))]
    high = ordered[_position(places, weights, np.minimum(below + 1, np.maximum(total - 1, 0)), len(values))]
    with np.errstate(invalid="ignore"):  # inf - inf and 0 * inf, replaced by the first branch
        mixed = np.where((low == high) | (rank == below), low, low + (rank - below) * (high - low))
    return np.where(total > 0, mixed, np.nan)


def share(flags: np.ndarray, cluster: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of true `flags` (bool, shape (n,))."""
    documents = weights.shape[1]
    true = weights @ np.bincount(cluster[flags], minlength=documents)
    return ratio(true, weights @ np.bincount(cluster, minlength=documents))


def auc(score: np.ndarray, label: np.ndarray, cluster: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probability that a true row scores above a false one, ties counting one half.

    Parameters
    ----------
    score : ndarray of float64, shape (n,)
    label : ndarray of bool, shape (n,)

    Notes
    -----
    The area under the ROC curve as Mann-Whitney statistic (arXiv 2608.25230, AUC of the dropped
    mass). Pairs are counted once per pair of documents, `wins[d, e]`; every resampling is then a
    quadratic form in its weights.
    """
    documents = weights.shape[1]
    positive, owner = score[label], cluster[label]
    wins = np.zeros((documents, documents))
    for e in range(documents):
        negative = np.sort(score[~label & (cluster == e)])
        twice = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
        wins[:, e] = np.bincount(owner, twice / 2, minlength=documents)
    trues = weights @ np.bincount(owner, minlength=documents)
    falses = weights @ np.bincount(cluster[~label], minlength=documents)
    return ratio(((weights @ wins) * weights).sum(axis=1), trues * falses)


def spearman(x: np.ndarray, y: np.ndarray, cluster: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of `x` and `y` (float64, shape (n,)), ties sharing their mean rank.

    Notes
    -----
    The rank of a row in a resampling is the sum, over documents, of how often the document counts
    times the row's rank among that document's rows. Covariances of ranks are therefore cubic forms in
    the weights, whose coefficients are summed once.
    """
    return correlation(document_ranks(x, cluster, weights), document_ranks(y, cluster, weights), weights)


def document_ranks(x: np.ndarray, cluster: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """For every document, the centred ranks of its rows within each document, one array (D, rows of it).

    Entry [d][e, i] is how many rows of document e lie below row i of document d, a tie counting one
    half, less half the rows of e: multiples of one half, so that sums stay exact.
    """
    documents = weights.shape[1]
    order = np.argsort(x, kind="stable")
    ordered, owner = x[order], cluster[order]
    first, last = (np.searchsorted(ordered, ordered, side) for side in ("left", "right"))
    ranks = np.empty((documents, len(x)))
    for e in range(documents):
        passed = np.concatenate([[0], np.cumsum(owner == e)])
        ranks[e, order] = (passed[first] + passed[last] - passed[-1]) / 2
    return [ranks[:, cluster == d] for d in range(documents)]


def correlation(a: list[np.ndarray], b: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Spearman's correlation from the `document_ranks` of two columns of one sample, shape (R,)."""

    def summed(left: list[np.ndarray], right: list[np.ndarray]) -> np.ndarray:
        forms = np.stack([u @ v.T for u, v in zip(left, right, strict=True)])
        mixed = np.tensordot(weights.astype(np.float64), forms, axes=1)
        return np.einsum("ref,re,rf->r", mixed, weights, weights, optimize=True)

    return ratio(summed(a, b), np.sqrt(summed(a, a) * summed(b, b)))


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """`numerator / denominator` in float64, NaN where the denominator is not positive."""
    out = np.full(len(denominator), np.nan)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _position(places: list[np.ndarray], weights: np.ndarray, rank: np.ndarray, n: int) -> np.ndarray:
    """First sorted position at which more than `rank` (shape (R,)) weighted values have passed.

    The last position where there are no more than `rank`.
    """
    low, high = np.zeros(len(rank), dtype=np.int64), np.full(len(rank), n - 1)
    while (low < high).any():
        middle = (low + high) // 2
        passed = np.zeros(len(rank), dtype=np.int64)
        for document, place in enumerate(places):
            passed += weights[:, document] * np.searchsorted(place, middle, "right")
        enough = passed > rank
        high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
    return low
