"""The cluster bootstrap over documents: integer weights in, percentile intervals out."""

from typing import Any

import numpy as np

DRAWS = 1000
"""Resamplings (count) of the cluster bootstrap: the paper's B."""

SEED = 260825230
"""Seed of the resamplings, so that a table can be made again bit for bit."""

LEVEL = 0.95
"""Coverage (probability) of the percentile interval."""

FEWEST_DOCUMENTS = 5
"""Documents (count) below which no interval is given: with four there are 35 distinct resamplings,
too few to speak of a 2.5% tail."""

FULL_DOCUMENTS = 20
"""Documents (count) from which a percentile interval about covers what it says: of the mean of normal
documents 93%, of six documents 87% (the bootstrap's variance is short by 1/D, its quantiles are no t's)."""


def document_weights(documents: int, *, draws: int = DRAWS, seed: int = SEED) -> np.ndarray:
    """How often each document is counted: once each in row 0, then as resampled.

    Parameters
    ----------
    documents : int
        Number of clusters D.
    draws : int
        Resamplings B; none are made when there are fewer than five documents.
    seed : int

    Returns
    -------
    ndarray of int64, shape (1 + B, D)
        Every row sums to D. Row 0 is all ones, so that estimate and replicates share one code path.

    Notes
    -----
    Resampling documents with replacement is drawing multiplicities from a multinomial
    (arXiv 2608.25230, section 3: intervals by cluster bootstrap over documents, B = 1000).
    """
    ones = np.ones((1, documents), dtype=np.int64)
    if documents < FEWEST_DOCUMENTS or draws == 0:
        return ones
    rng = np.random.default_rng(seed)
    return np.concatenate([ones, rng.multinomial(documents, np.full(documents, 1 / documents), size=draws)])


def estimate(name: str, replicates: np.ndarray) -> dict[str, float | None]:
    """The columns `name`, `name_low`, `name_high`: value and 95% percentile interval.

    Parameters
    ----------
    replicates : ndarray of float64, shape (1 + B,)
        Element 0 is the statistic itself, the rest its resampled values; not finite = undefined.

    Returns
    -------
    dict
        None where undefined. An interval needs every replicate to be defined.
    """
    low = high = None
    if len(replicates) > 1 and np.isfinite(replicates).all():
        tail = (1 - LEVEL) / 2
        places = [q * (len(replicates) - 2) for q in (tail, 1 - tail)]
        near = [(int(place), min(int(place) + 1, len(replicates) - 2)) for place in places]
        part = np.partition(
            replicates[1:], sorted({i for pair in near for i in pair})
        )  # faster than quantile
        low, high = (
            float(part[i] + (place - i) * (part[j] - part[i]))
            for place, (i, j) in zip(places, near, strict=True)
        )
    return {name: null(replicates[0]), f"{name}_low": low, f"{name}_high": high}


def interval_note(documents: int, draws: int) -> str:
    """What the interval columns of a table are, or why they are empty."""
    if draws > 0:
        few = f", fewer than {FULL_DOCUMENTS}: it covers less" if documents < FULL_DOCUMENTS else ""
        return f"{LEVEL:.0%} percentile, {draws} resamplings of {documents} documents{few}"
    if documents < FEWEST_DOCUMENTS:
        return f"none: {documents} documents, at least {FEWEST_DOCUMENTS} needed"
    return "none: no resamplings asked for"


def null(value: Any) -> float | None:
    """A float, or None where it is undefined: tables hold nulls, never NaN or inf."""
    return float(value) if np.isfinite(value) else None
