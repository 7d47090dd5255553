"""Wolfe's min-norm point over an orthonormal basis, with its duality gap.

The corral's affine hull is ``P_0 + span(P_i - P_0)``. Its edges are orthonormalised one by one
(Gram-Schmidt, twice), so that the nearest point ``x`` of the hull follows from the last one by a
single projection and stays orthogonal to the edges even where it is tiny beside the points.
"""

from typing import NamedTuple

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.gram import dot, products

DEPENDENT = 1e-12
"""Relative: an edge that lies this close to the others' span is taken to lie in it."""


class Corral(NamedTuple):
    """Points and some of them, the corral, whose nearest point ``x`` is known; its size is passed beside."""

    points: np.ndarray  # float64 [k, d]
    members: np.ndarray  # int64 [k]: indices of points, in the order they came
    weights: np.ndarray  # float64 [k]: of the members, positive, summing to 1
    inside: np.ndarray  # bool [k]: which points are members
    basis: np.ndarray  # float64 [k, d]: row i is the direction that member i + 1 added
    edges: np.ndarray  # float64 [k, k]: column i is the edge of member i + 1 over the basis
    along: np.ndarray  # float64 [k]: what x moved along each direction
    x: np.ndarray  # float64 [d]: the affine hull's nearest point


@compiled
def corral_of(points: np.ndarray) -> Corral:
    """An empty corral of some points, float64 [k, d], which it holds and does not copy."""
    k, d = points.shape
    members, weights, inside = np.zeros(k, dtype=np.int64), np.zeros(k), np.zeros(k, dtype=np.bool_)
    return Corral(
        points, members, weights, inside, np.zeros((k, d)), np.zeros((k, k)), np.zeros(k), np.zeros(d)
    )


@compiled
def copy(source: Corral, n: int, target: Corral) -> None:
    """Make `target` the corral of the same `n` members; they become its first points, in order."""
    target.inside[:] = False
    for i in range(n):
        target.points[i] = source.points[source.members[i]]
        target.members[i], target.weights[i], target.inside[i] = i, source.weights[i], True
        target.basis[i], target.along[i] = source.basis[i], source.along[i]
        target.edges[i, :n] = source.edges[i, :n]
    target.x[:] = source.x


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
    k = len(points)
    columns = points.T.copy()
    corral, n, nearest = corral_of(points), 1, 0
    for j in range(1, k):
        if dot(points[j], points[j]) < dot(points[nearest], points[nearest]):
            nearest = j
    begin(corral, nearest)
    norm, lower = np.inf, 0.0
    for _ in range(20 * k + 20):
        norm = np.sqrt(dot(corral.x, corral.x))
        if norm <= tolerance:
            return norm, 0.0
        onto = products(columns, corral.x)
        entering = np.argmin(onto)
        lower = max(onto[entering] / norm, 0.0)
        if norm - lower <= tolerance or corral.inside[entering]:
            break
        if not enter(corral, n, entering):
            break
        n = settle(corral, n + 1)
        if n == 0:
            return norm, 0.0
    return norm, lower


@compiled
def begin(corral: Corral, point: int) -> None:
    """The corral is one point, whatever it was."""
    corral.inside[:] = False
    corral.members[0], corral.weights[0], corral.inside[point] = point, 1.0, True
    corral.x[:] = corral.points[point]


@compiled
def enter(corral: Corral, n: int, point: int) -> bool:
    """A point becomes member `n`, with weight 0; False where its edge depends on the others."""
    corral.members[n], corral.weights[n] = point, 0.0
    if not _extend(corral, n):
        return False
    corral.inside[point] = True
    return True


@compiled
def settle(corral: Corral, n: int) -> int:
    """Drop members until the nearest point of the affine hull has positive weights.

    Returns how many are left, 0 where rounding made the edges depend on each other.
    """
    while True:
        affine = _weights(corral.edges, corral.along, n)
        if affine.min() > 0:
            corral.weights[:n] = affine
            return n
        n, same = _shrink(corral, affine, n)
        if not rebuild(corral, n, same):
            return 0


@compiled
def rebuild(corral: Corral, n: int, same: int) -> bool:
    """Basis and nearest point of `n` members, the first `same` of them as before; False where dependent."""
    corral.x[:] = corral.points[corral.members[0]]
    for i in range(same - 1):
        add(corral.x, corral.along[i], corral.basis[i])
    for i in range(max(same, 1), n):  # noqa: SIM110 (numba knows no generators)
        if not _extend(corral, i):
            return False
    return True


@compiled
def _extend(corral: Corral, n: int) -> bool:
    """Add member n's edge to the basis and move `x`; False where the edge depends on the others."""
    basis, edges, along, x = corral.basis, corral.edges, corral.along, corral.x
    edge, new = corral.points[corral.members[n]].copy(), n - 1
    add(edge, -1.0, corral.points[corral.members[0]])
    length = np.sqrt(dot(edge, edge))
    edges[:new, new] = 0.0
    for _ in range(2):
        for i in range(new):
            part = dot(basis[i], edge)
            edges[i, new] += part
            add(edge, -part, basis[i])
    rest = np.sqrt(dot(edge, edge))
    if rest <= DEPENDENT * length:
        return False
    edges[new, new] = rest
    basis[new] = 0.0
    add(basis[new], 1.0 / rest, edge)
    along[new] = 0.0
    for _ in range(2):
        part = dot(basis[new], x)
        along[new] -= part
        add(x, -part, basis[new])
    return True


@compiled
def add(x: np.ndarray, factor: float, y: np.ndarray) -> None:
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
def _shrink(corral: Corral, affine: np.ndarray, n: int) -> tuple[int, int]:
    """Step towards the affine minimiser, float64 [n], until a weight vanishes.

    Returns the corral's new size, and how many of its first members stay where they are.
    """
    members, weights = corral.members, corral.weights
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
            members[size], weights[size] = members[i], weights[i]
            size += 1
        else:
            corral.inside[members[i]] = False
            same = min(same, i)
    return size, same
