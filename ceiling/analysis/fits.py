"""Two fits of one variable, weighted by document: a logistic curve and a straight line."""

from dataclasses import dataclass

import numpy as np

from ceiling.analysis.ranks import ratio

NEWTON_STEPS = 50
"""Newton steps (count) before a fit is called undefined; about eight are used."""

NEWTON_TOLERANCE = 1e-10
"""Largest last step, in logits per standard deviation of x: far below any interval's width."""

LONGEST_STEP = 3.0
"""Bound on one Newton step, in the same unit: keeps a nearly separated sample from overshooting."""

BINS = 1024
"""Bins (count) of x for the resampled fits: resampled coefficients move by less than a hundredth
of their spread, and the estimate itself is fitted on the rows."""


FLAT = 1e-12
"""Relative to the sum of squares: a resampling whose x varies less has one x, and rounding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients of y ~ intercept + slope x, element 0 the estimate, then the resamplings.

    Attributes
    ----------
    intercept, slope, r2 : ndarray of float64, shape (R,)
        NaN where undefined. `r2` is NaN throughout for a logistic fit.
    ending : str
        "fitted", "separated" (the labels do not overlap in x, the slope has no bound),
        "one class", or "no variation".
    """

    intercept: np.ndarray
    slope: np.ndarray
    r2: np.ndarray
    ending: str


def logistic(
    x: np.ndarray, label: np.ndarray, cluster: np.ndarray, weights: np.ndarray, *, bins: int = BINS
) -> Fit:
    """Maximum-likelihood logit P(label) = intercept + slope x, by Newton's method.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
    label : ndarray of bool, shape (n,)
    cluster, weights
        As in `ceiling.analysis.ranks`.
    bins : int
        At most how many bins of x the resampled fits see.

    Notes
    -----
    Resamplings are fitted on equally filled bins of `x` at their mean, which turns each into sums
    over documents; see `BINS` for what that costs.
    """
    ending = _ending(x, label)
    if ending != "fitted":
        nothing = np.full(len(weights), np.nan)
        return Fit(nothing, nothing, nothing, ending)
    coefficients = [_newton(x, label[None].astype(np.float64), np.ones((1, len(x))))]
    if len(weights) > 1:
        bins, documents = min(bins, len(x)), weights.shape[1]
        place = np.empty(len(x), dtype=np.int64)
        place[np.argsort(x, kind="stable")] = np.arange(len(x)) * bins // len(x)
        middle = np.bincount(place, x) / np.bincount(place)
        cell, size = cluster * bins + place, documents * bins
        hits = np.bincount(cell[label], minlength=size).reshape(documents, bins)
        trials = np.bincount(cell, minlength=size).reshape(documents, bins)
        coefficients.append(_newton(middle, weights[1:] @ hits, weights[1:] @ trials))
    intercept, slope = np.concatenate(coefficients, axis=1)
    return Fit(intercept, slope, np.full(len(weights), np.nan), ending)


def line(x: np.ndarray, y: np.ndarray, cluster: np.ndarray, weights: np.ndarray) -> Fit:
    """Least squares y = intercept + slope x, exactly, from sums per document."""
    if len(x) == 0 or np.ptp(x) == 0:
        nothing = np.full(len(weights), np.nan)
        return Fit(nothing, nothing, nothing, "no variation")
    documents, x0, y0 = weights.shape[1], x.mean(), y.mean()
    a, b = x - x0, y - y0  # centred, so that the sums do not cancel
    terms = (np.ones_like(a), a, b, a * a, a * b, b * b)
    n, sa, sb, saa, sab, sbb = (weights @ np.bincount(cluster, t, documents) for t in terms)
    ma, mb = ratio(sa, n), ratio(sb, n)
    varies, covaries, spreads = saa - n * ma * ma, sab - n * ma * mb, sbb - n * mb * mb
    varies = np.where(varies > FLAT * saa, varies, 0)
    slope = ratio(covaries, varies)
    return Fit(y0 + mb - slope * (x0 + ma), slope, ratio(covaries**2, varies * spreads), "fitted")


def probability(fit: Fit, x: np.ndarray) -> np.ndarray:
    """What a logistic `fit` (its estimate) predicts at `x`, shape of `x`."""
    return _sigmoid(fit.intercept[0] + fit.slope[0] * x)


def _ending(x: np.ndarray, label: np.ndarray) -> str:
    """Whether the likelihood has a maximum: it has none when a threshold on x splits the labels."""
    if label.all() or not label.any():
        return "one class"
    if np.ptp(x) == 0:
        return "no variation"
    true, false = x[label], x[~label]
    return "separated" if true.min() >= false.max() or true.max() <= false.min() else "fitted"


def _newton(x: np.ndarray, hits: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Intercepts and slopes, shape (2, R), of `hits` among `trials` (both (R, K)) at `x` (K,)."""
    scale, centre = x.std(), x.mean()
    z = (x - centre) / scale
    beta = np.zeros((2, len(hits)))
    going = np.ones(len(hits), dtype=bool)
    for _ in range(NEWTON_STEPS):
        h, t = hits[going], trials[going]
        p = _sigmoid(beta[0, going, None] + beta[1, going, None] * z)
        rest, curve = h - t * p, t * p * (1 - p)
        g0, g1 = rest.sum(axis=1), rest @ z
        c0, c1, c2 = curve.sum(axis=1), curve @ z, curve @ (z * z)
        steps = np.stack([c2 * g0 - c1 * g1, c0 * g1 - c1 * g0])
        steps = np.stack([ratio(step, c0 * c2 - c1 * c1) for step in steps])
        longest = np.abs(steps).max(axis=0)
        beta[:, going] += steps * np.minimum(1, LONGEST_STEP / np.maximum(longest, NEWTON_TOLERANCE))
        going[going] = longest > NEWTON_TOLERANCE  # NaN steps stop too, and stay NaN
        if not going.any():
            break
    beta[:, going] = np.nan
    slope = beta[1] / scale
    return np.stack([beta[0] - slope * centre, slope])


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * logit))  # no overflow at either end
