"""Wolfe's min-norm point over a Gram matrix, with the duality gap that certifies it."""

import numba
import numpy as np

from ceiling.kernels.gram import gram, products


@numba.njit(cache=True, nogil=True)
def min_norm(
    points: np.ndarray,  # float64 [k, d]
    tolerance: float,  # wanted gap, in the units of the points
) -> tuple[float, float]:
    """Upper and lower bound of the distance from the origin to ``conv(points)``.

    The upper bound is the norm of a point of the hull, summed from the points themselves; the
    lower bound is ``min_j <x, v_j> / |x|``. Both hold whatever rounding did to the weights, so a
    gap up to `tolerance` certifies the answer; a wider one says that the Gram matrix was too
    ill-conditioned, and the caller should use the slower definition.
    """
    k = len(points)
    columns = points.T.copy()
    shifted = gram(columns)  # (G + c 1 1^T) u = 1 gives the affine minimiser u / sum(u)
    shifted += np.diag(shifted).mean()
    corral, n = np.zeros(k, dtype=np.int64), 1
    corral[0] = np.argmin(np.diag(shifted))
    weights, inside = np.zeros(k), np.zeros(k, dtype=np.bool_)
    weights[0], inside[corral[0]] = 1.0, True
    factor = np.zeros((k, k))
    factor[0, 0] = np.sqrt(shifted[corral[0], corral[0]])
    norm, lower = np.inf, 0.0
    for _ in range(20 * k + 20):
        x = np.zeros(points.shape[1])
        for i in range(n):
            x += weights[i] * points[corral[i]]
        norm = np.sqrt((x * x).sum())
        if norm <= tolerance:
            return norm, 0.0
        onto = products(columns, x)
        entering = np.argmin(onto)
        lower = max(onto[entering] / norm, 0.0)
        if norm - lower <= tolerance or inside[entering]:
            break
        if not _extend(factor, shifted, corral, n, entering):
            break
        corral[n], weights[n], inside[entering], n = entering, 0.0, True, n + 1
        while True:
            affine = _solve_ones(factor, n)
            if (affine > 0).all():
                weights[:n] = affine
                break
            n = _shrink(factor, shifted, corral, weights, inside, affine, n)
    return norm, lower


@numba.njit(cache=True, nogil=True)
def _extend(factor: np.ndarray, shifted: np.ndarray, corral: np.ndarray, n: int, key: int) -> bool:
    """Append `key` as row `n` of the Cholesky factor; False where it depends on the others."""
    rest = shifted[key, key]
    for i in range(n):
        dot = shifted[key, corral[i]]
        for c in range(i):
            dot -= factor[n, c] * factor[i, c]
        factor[n, i] = dot / factor[i, i]
        rest -= factor[n, i] ** 2
    if rest <= 1e-14 * shifted[key, key]:
        return False
    factor[n, n] = np.sqrt(rest)
    return True


@numba.njit(cache=True, nogil=True)
def _solve_ones(factor: np.ndarray, n: int) -> np.ndarray:
    """Solution of ``L L^T u = 1``, scaled to sum 1, shape (n,)."""
    u = np.ones(n)
    for i in range(n):
        for c in range(i):
            u[i] -= factor[i, c] * u[c]
        u[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for c in range(i + 1, n):
            u[i] -= factor[c, i] * u[c]
        u[i] /= factor[i, i]
    return u / u.sum()


@numba.njit(cache=True, nogil=True)
def _shrink(
    factor: np.ndarray,  # float64 [k, k], in and out
    shifted: np.ndarray,  # float64 [k, k]
    corral: np.ndarray,  # int64 [k], in and out
    weights: np.ndarray,  # float64 [k], in and out
    inside: np.ndarray,  # bool [k], in and out
    affine: np.ndarray,  # float64 [n]
    n: int,
) -> int:
    """Step towards the affine minimiser until a weight vanishes; return the corral's new size."""
    step, leaving = 1.0, 0
    for i in range(n):
        if affine[i] <= 0:
            ratio = weights[i] / (weights[i] - affine[i]) if weights[i] > affine[i] else 0.0
            if ratio <= step:
                step, leaving = ratio, i
    for i in range(n):
        weights[i] += step * (affine[i] - weights[i])
    weights[leaving] = 0.0
    size = 0
    for i in range(n):
        if weights[i] > 0:
            corral[size], weights[size] = corral[i], weights[i]
            _extend(factor, shifted, corral, size, corral[i])
            size += 1
        else:
            inside[corral[i]] = False
    return size
