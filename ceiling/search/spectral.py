"""The spectral statistic: how far what top-mass drops lies along one direction."""

import numpy as np


def spectral_statistic(
    values: np.ndarray,
    masses: np.ndarray,
    origin: np.ndarray,
    mean: np.ndarray,
    leading: np.ndarray,
    budgets: np.ndarray,
) -> np.ndarray:
    """Largest eigenvalue of the dropped residuals' second moments over their trace, at every budget.

    Parameters
    ----------
    values : ndarray of float, shape (n, d)
    masses : ndarray of float64, shape (n,)
    origin, mean : ndarray of float64, shape (d,)
        A value near the dense output, and the dense output less it.
    leading : ndarray of int64, shape (k,)
        Keys of largest mass, descending; -1 after the last.
    budgets : ndarray of int64, shape (budgets,)
        Ascending, none above `k`.

    Returns
    -------
    ndarray of float64, shape (budgets,)
        Between 1/d and 1: 1 where all dropped residuals are parallel. NaN where they vanish.

    Notes
    -----
    ``lambda_max(M) / tr M`` of ``M = sum over j outside A* of z_j z_j^T`` (section 4 of the paper's
    prediction, arXiv 2608.25230, names the statistic without a formula; this is this project's reading).
    Sums run from the keys that every budget drops inwards, so that small ones keep their digits.
    """
    leading = leading[leading >= 0]
    residuals = masses[:, None] * ((values - origin) - mean)
    tops = residuals[leading]
    residuals[leading] = 0.0
    moments, upper = residuals.T @ residuals, len(leading)
    found = np.full(len(budgets), np.nan)
    for b in range(len(budgets) - 1, -1, -1):
        back = tops[budgets[b] : upper]
        moments, upper = moments + back.T @ back, min(budgets[b], upper)
        trace = float(np.trace(moments))
        if trace > 0:
            # Scaled first: squares of tiny masses leave the range in which an eigenvalue is found.
            found[b] = min(float(np.linalg.eigvalsh(moments / trace)[-1]), 1.0)
    return found
