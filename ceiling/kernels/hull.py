"""Wolfe's min-norm point over an orthonormal basis, with its duality gap.

The corral's affine hull is ``P_0 + span(P_i - P_0)``. Its edges are orthonormalised one by one
(Gram-Schmidt, twice), so that the nearest point ``x`` of the hull follows from the last one by a
single projection and stays orthogonal to the edges even where it is tiny beside the points.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot, products

DEPENDENT = 1e-12
"""Relative: an edge that lies this close to the others' span is taken to lie in it."""


@compiled
def min_norm(
    points: np.ndarray,  # float64 [k, d]
    tolerance: float,  # wanted gap, in the units of the points
) -> tuple[float, float]:
    """Upper and lower bound of the distance from the origin to ``conv(points)``.

    The upper bound is the norm of a point of the hull, the lower bound is ``min_j <x, v_j> / |x|``.
    Both carry rounding of about ``d eps`` times the largest point. A gap up to `tolerance` ends the
    search; a wider one says that rounding stopped it, and the caller should use the slower definition.
    """
    k, d = points.shape
    columns = points.T.copy()
    corral, n = np.zeros(k, dtype=np.int64), 1
    weights, inside = np.zeros(k), np.zeros(k, dtype=np.bool_)
    basis, edges, along = np.zeros((k, d)), np.zeros((k, k)), np.zeros(k)
    nearest = 0
    for j in range(1, k):
        if dot(points[j], points[j]) < dot(points[nearest], points[nearest]):
            nearest = j
    corral[0], weights[0], inside[nearest] = nearest, 1.0, True
    x = points[nearest].copy()
    norm, lower = np.inf, 0.0
    for _ in range(20 * k + 20):
        norm = np.sqrt(dot(x, x))
        if norm <= tolerance:
            return norm, 0.0
        onto = products(columns, x)
        entering = np.argmin(onto)
        lower = max(onto[entering] / norm, 0.0)
        if norm - lower <= tolerance or inside[entering]:
            break
        corral[n], weights[n], inside[entering] = entering, 0.0, True
        if not _extend(points, corral, n, basis, edges, along, x):
            break
        n += 1
        while True:
            affine = _weights(edges, along, n)
            if affine.min() > 0:
                weights[:n] = affine
                break
            n, same = _shrink(corral, weights, inside, affine, n)
            x[:] = points[corral[0]]
            for i in range(same - 1):
                _add(x, along[i], basis[i])
            for i in range(max(same, 1), n):
                if not _extend(points, corral, i, basis, edges, along, x):
                    return norm, 0.0
    return norm, lower


@compiled
def _extend(
    points: np.ndarray,  # float64 [k, d]
    corral: np.ndarray,  # int64 [k]
    n: int,  # the corral's key n joins the keys before it
    basis: np.ndarray,  # float64 [k, d], in and out: row n - 1 is the direction it adds
    edges: np.ndarray,  # float64 [k, k], in and out: column n - 1 is its edge over the basis
    along: np.ndarray,  # float64 [k], in and out: what x moved along each direction
    x: np.ndarray,  # float64 [d], in and out: the affine hull's nearest point
) -> bool:
    """Add a key's edge to the basis and move `x`; False where the edge depends on the others."""
    edge, new = points[corral[n]].copy(), n - 1
    _add(edge, -1.0, points[corral[0]])
    length = np.sqrt(dot(edge, edge))
    edges[:new, new] = 0.0
    for _ in range(2):
        for i in range(new):
            part = dot(basis[i], edge)
            edges[i, new] += part
            _add(edge, -part, basis[i])
    rest = np.sqrt(dot(edge, edge))
    if rest <= DEPENDENT * length:
        return False
    edges[new, new] = rest
    basis[new] = 0.0
    _add(basis[new], 1.0 / rest, edge)
    along[new] = 0.0
    for _ in range(2):
        part = dot(basis[new], x)
        along[new] -= part
        _add(x, -part, basis[new])
    return True


@compiled
def _add(x: np.ndarray, factor: float, y: np.ndarray) -> None:
    """``x += factor * y``."""
    for c in range(len(x)):
        x[c] += factor * y[c]


@compiled
def _weights(edges: np.ndarray, along: np.ndarray, n: int) -> np.ndarray:
    """Affine weights of the nearest point, summing to 1, shape (n,): solves ``edges w = along``."""
    out = np.empty(n)
    out[0] = 1.0
    for i in range(n - 2, -1, -1):
        w = along[i]
        for j in range(i + 1, n - 1):
            w -= edges[i, j] * out[j + 1]
        out[i + 1] = w / edges[i, i]
        out[0] -= out[i + 1]
    return out


@compiled
def _shrink(
    corral: np.ndarray,  # int64 [k], in and out
    weights: np.ndarray,  # float64 [k], in and out
    inside: np.ndarray,  # bool [k], in and out
    affine: np.ndarray,  # float64 [n]
    n: int,
) -> tuple[int, int]:
    """Step towards the affine minimiser until a weight vanishes.

    Returns the corral's new size, and how many of its first keys stay where they are.
    """
    step, leaving = 1.0, 0
    for i in range(n):
        if affine[i] <= 0:
            ratio = weights[i] / (weights[i] - affine[i]) if weights[i] > affine[i] else 0.0
            if ratio <= step:
                step, leaving = ratio, i
    for i in range(n):
        weights[i] += step * (affine[i] - weights[i])
    weights[leaving] = 0.0
    size, same = 0, n
    for i in range(n):
        if weights[i] > 0:
            corral[size], weights[size] = corral[i], weights[i]
            size += 1
        else:
            inside[corral[i]] = False
            same = min(same, i)
    return size, same
