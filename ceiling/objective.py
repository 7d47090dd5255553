"""Every definition, once, in plain numpy float64: the reference for everything fast.

Symbols follow Shi & Gu, arXiv 2608.25230, section 3: masses ``p``, values ``v_j``, dense output
``mu = sum p_j v_j``, residuals ``z_j = p_j (v_j - mu)``, kept mass ``p(A)``, forced error
``e_S(A) = |mu - sum_A (p_j / p(A)) v_j| = |sum_A z_j| / p(A)``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

import numpy as np

from ceiling.problem import InputError, Row, check_budget, check_kept

TIE = 1e-12
"""Relative: errors this close tie. Direct sums of at most a few hundred terms differ from the
exact value by about 1e-14 relative, so equal errors never look different."""

ZERO = 1e-14
"""In units of sigma: an error below this is rounding of an exact zero, so all such errors tie. Sums of
residuals carry about 1e-16 sigma, errors that over p(A): exact zeros of sets that keep less than
about a hundredth of the mass may lie above, and then count as different."""

FREE_TOLERANCE = 1e-10
"""In units of sigma: how far a free error may lie above the true distance to the hull."""

FLAT = 1e-5
"""Of ``|v_j - mu|^2``: a key whose squared distance from an affine hull is less counts as inside it."""

POOL_CAP = 200_000
"""Subsets: the paper's cap on one exhaustive enumeration."""

EXTRA_CAP = 24
"""Keys: the paper's largest number of candidates beside the top-mass set."""

MAX_SUBSETS = 10**10
"""Subsets an instance: seconds of one core, minutes where proofs exclude little, and hours where all sets
tie; beyond that a grid never ends."""

MAX_POOL = 8192
"""Keys: the inner products of a larger pool take more than half a gigabyte a row."""

LEVERAGE_RIDGE = 1e-2
"""Ridge of the leverage scores, in units of the mean eigenvalue of ``K^T K``. The paper gives no
value; one hundredth damps directions the keys hardly use and leaves the others alone."""


@dataclass(frozen=True, eq=False, slots=True)
class CentredRow:
    """What a row computes once; only keys of positive mass, ascending by position.

    Attributes
    ----------
    positions : ndarray of int64, shape (n,)
        Where the keys stand in the row.
    masses : ndarray of float64, shape (n,)
    centred : ndarray of float64, shape (n, d)
        ``v_j - mu``.
    residuals : ndarray of float64, shape (n, d)
        ``z_j = p_j (v_j - mu)``; they sum to 0.
    distances : ndarray of float64, shape (n,)
        ``|v_j - mu|``.
    radius : float
        ``D = max_j |v_j - mu|``, in the units of the values.
    sigma : float
        ``sqrt(sum p_j |v_j - mu|^2)``, in the units of the values.
    """

    positions: np.ndarray
    masses: np.ndarray
    centred: np.ndarray
    residuals: np.ndarray
    distances: np.ndarray
    radius: float
    sigma: float


def centre(row: Row) -> CentredRow:
    """Residuals and distances of a row about its dense output (section 3).

    Values are first taken relative to the heaviest key's, which changes nothing but the rounding:
    equal values give exact zeros, and a common offset costs no digits.
    """
    positions = np.flatnonzero(row.masses)
    whole = len(positions) == len(row.masses)
    masses = row.masses if whole else row.masses[positions]
    values = row.values if whole else row.values[positions]
    shifted = values - values[np.argmax(masses)]
    centred = shifted - masses @ shifted
    squares = np.einsum("jd,jd->j", centred, centred)
    return CentredRow(
        positions,
        masses,
        centred,
        residuals=masses[:, None] * centred,
        distances=np.sqrt(squares),
        radius=float(np.sqrt(squares.max())),
        sigma=float(np.sqrt(masses @ squares)),
    )


def ranked(scores: np.ndarray) -> np.ndarray:
    """Indices by descending score; ties go to the lowest index."""
    return np.argsort(-scores, kind="stable")


def largest(scores: np.ndarray, count: int) -> np.ndarray:
    """Ascending indices of the `count` largest scores; ties go to the lowest index."""
    return np.sort(ranked(scores)[:count])


def fill(chosen: np.ndarray, ranking: np.ndarray, count: int) -> np.ndarray:
    """Ascending indices: `chosen`, filled up to `count` from the front of a ranking."""
    marks = np.zeros(len(ranking), dtype=bool)
    marks[chosen] = True
    head = ranking[:count]
    marks[head[~marks[head]][: max(count - len(chosen), 0)]] = True
    return np.flatnonzero(marks)


def top_mass(row: Row, s: int) -> np.ndarray:
    """Top-mass set ``A*_s``: the `s` largest masses, ties to the lowest position.

    Returns
    -------
    ndarray of int64, shape (min(s, n_keys),)
        Ascending positions.
    """
    return largest(row.masses, min(check_budget(s), row.n_keys)).astype(np.int64)


def dropped_mass(row: Row, kept: Iterable[int]) -> float:
    """``1 - p(A)``, summed over the dropped keys so that a small value keeps its digits."""
    dropped = row.masses.copy()
    dropped[check_kept(row, kept)] = 0
    return float(dropped.sum())


def forced_error(row: Row, kept: Iterable[int]) -> float:
    """``e_S(A) = |sum_A z_j| / p(A)``: distance of the renormalised output from the dense one.

    Sums run over kept positions in ascending order. Keeping every key is exact, error 0.

    Returns
    -------
    float
        In the units of the values.
    """
    centred = centre(row)
    return forced_error_at(centred, np.searchsorted(centred.positions, check_kept(row, kept)))


def forced_error_at(row: CentredRow, kept: np.ndarray) -> float:
    """`forced_error` of the ascending key indices `kept` of a centred row."""
    if len(kept) == len(row.masses):
        return 0.0
    g = row.residuals[kept].sum(axis=0)
    return float(np.sqrt(g @ g) / row.masses[kept].sum())


def free_error(row: Row, kept: Iterable[int]) -> float:
    """``e_F(A) = dist(mu, conv{v_j : j in A})``: the error when the weights are re-solved.

    Returns
    -------
    float
        In the units of the values, at most 1e-10 sigma above the true distance, plus rounding of
        about ``d eps D`` (below that unless a key lies thousands of sigma away).

    Raises
    ------
    ArithmeticError
        When rounding keeps the duality gap above that tolerance.
    """
    centred = centre(row)
    points = centred.centred[np.searchsorted(centred.positions, check_kept(row, kept))]
    return min_norm(points, FREE_TOLERANCE * centred.sigma)


def min_norm(points: np.ndarray, tolerance: float) -> float:
    """Norm of the point of ``conv(points)`` nearest the origin, by Wolfe's algorithm.

    Any ``x`` of the hull bounds the distance from above by ``|x|`` and from below by
    ``min_j <x, v_j> / |x|``; the search ends when the two are `tolerance` apart.

    Parameters
    ----------
    points : ndarray of float64, shape (k, d)
    tolerance : float
        In the units of the points.

    References
    ----------
    P. Wolfe, "Finding the nearest point in a polytope", Math. Programming 11 (1976).
    """
    return float(np.linalg.norm(_nearest(points, tolerance)[1]))


def _nearest(points: np.ndarray, tolerance: float) -> tuple[list[int], np.ndarray]:
    """Indices of the points that carry the nearest point of the hull, and that point (`min_norm`)."""
    corral = [int(np.argmin(np.einsum("jd,jd->j", points, points)))]
    weights, x = np.ones(1), points[corral[0]]
    for _ in range(20 * len(points) + 20):
        norm = float(np.sqrt(x @ x))
        products = points @ x
        if norm <= tolerance or norm - products.min() / norm <= tolerance:
            return corral, x
        entering = int(np.argmin(products))
        if entering in corral:
            break
        corral.append(entering)
        weights = np.append(weights, 0.0)
        while True:
            affine, x = _affine_minimiser(points[corral])
            if (affine > 0).all():
                weights = affine
                break
            shrinking = affine <= 0
            steps = np.full(len(corral), np.inf)
            steps[shrinking] = weights[shrinking] / (weights[shrinking] - affine[shrinking])
            weights = weights + steps.min() * (affine - weights)
            stays = (steps > steps.min()) & (weights > 0)
            corral = [j for j, stay in zip(corral, stays, strict=True) if stay]
            weights = weights[stays]
    raise ArithmeticError(f"free error: duality gap stays above {tolerance:.3g} for {len(points)} keys")


def _affine_minimiser(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point of the affine hull nearest the origin, and its weights, which sum to 1.

    Solved twice, the second time for what rounding left: the point is then orthogonal to the
    hull even where it is tiny beside the points.
    """
    edges = (points[1:] - points[0]).T
    rest, x = np.zeros(len(points) - 1), points[0]
    for _ in range(2):
        step = np.linalg.lstsq(edges, -x, rcond=None)[0]
        rest, x = rest + step, x + edges @ step
    return np.concatenate(([1 - rest.sum()], rest)), x


def default_extra(s: int, cap: int | None = None) -> int:
    """Candidates beside the top-mass set: 24 / 12 / 6 / 4 at s = 4 / 8 / 16 / 32.

    The largest number up to 24 whose pool has at most 200 000 subsets of size `s`; a `cap` on the
    subsets replaces both limits (section 5, widening sweep).
    """
    check_budget(s)
    if cap is not None and cap > MAX_SUBSETS:
        raise InputError(f"cap: {cap} subsets an instance; at most {MAX_SUBSETS:.0e} are enumerated")
    limit, most = (POOL_CAP, EXTRA_CAP) if cap is None else (check_budget(cap, field="cap"), cap)
    low, high = 0, most  # C(s + extra, s) > extra, so no extra beyond the cap fits
    while low < high:
        middle = (low + high + 1) // 2
        if comb(s + middle, s) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def check_extra(s: int, extra: int | None) -> int:
    """`extra` as int, the default where it is None; `InputError` if negative or not whole."""
    if extra is None:
        return default_extra(s)
    if isinstance(extra, bool) or not isinstance(extra, int | np.integer) or extra < 0:
        raise InputError(f"extra: {extra!r}; the number of further candidates is a whole number >= 0")
    return int(extra)


def check_subsets(candidates: int, s: int) -> None:
    """`InputError` where a pool has more keys, or subsets of size `s`, than any run would take."""
    if candidates > MAX_POOL:
        raise InputError(f"extra: a pool of {candidates} keys; at most {MAX_POOL} are taken")
    if (subsets := comb(candidates, s)) > MAX_SUBSETS:
        raise InputError(
            f"extra: a pool of {candidates} keys has {subsets:.3g} subsets of size {s}; "
            f"at most {MAX_SUBSETS:.0e} are enumerated"
        )


def pool(row: Row, s: int, extra: int | None = None) -> np.ndarray:
    """Candidate pool: top-mass and the `extra` further keys of largest ``p_j |v_j - mu|``.

    Returns
    -------
    ndarray of int64, shape (min(s + extra, n_keys),)
        Ascending positions (section 3, candidate pool).
    """
    s, extra = check_budget(s), check_extra(s, extra)
    centred = centre(row)
    top = largest(centred.masses, s)
    return centred.positions[fill(top, by_error(centred), len(top) + extra)]


def by_error(row: CentredRow) -> np.ndarray:
    """Key indices by descending single-key error ``p_j |v_j - mu|``."""
    return ranked(row.masses * row.distances)


def frank_wolfe(row: CentredRow, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Frank-Wolfe on ``min |mu - conv(v)|`` with exact line search (section 3, geometric set).

    Step 1 takes the key nearest to ``mu``; each further step the key most opposed to the current
    point. Ends early where no key improves.

    Returns
    -------
    keys : ndarray of int64, shape (steps,)
        Key index taken at each step; after the end the last one repeats.
    distances : ndarray of float64, shape (steps,)
        Distance of the point from ``mu`` after each step, in the units of the values.
    """
    keys = np.empty(steps, dtype=np.int64)
    distances = np.empty(steps)
    key = int(np.argmin(row.distances))
    x = row.centred[key].copy()
    for step in range(steps):
        if step:
            products = row.centred @ x
            key = int(np.argmin(products))
            direction = row.centred[key] - x
            gap, length = x @ x - products[key], direction @ direction
            if gap > 0 and length > 0:
                x += min(gap / length, 1.0) * direction
            else:
                key = int(keys[step - 1])
        keys[step], distances[step] = key, np.sqrt(x @ x)
    return keys, distances


def corrective(row: CentredRow, s: int) -> float:
    """Upper estimate of ``EF(s)``, the least `free_error` of `s` keys.

    From the key nearest to ``mu`` on, the key of largest gain joins and all weights are re-solved;
    then kept keys are swapped for the best of the others while that helps.

    Returns
    -------
    float
        Attained by `s` keys, in the units of the values; 0 where they are all, or more than `d`.
    """
    points, tolerance = row.centred, FREE_TOLERANCE * row.sigma
    if s >= len(points) or s > points.shape[1]:
        return 0.0
    kept = [int(np.argmin(row.distances))]
    x = points[kept[0]]
    for _ in range(4 * s):  # few leave again
        if len(kept) == s or (key := _best_gain(row, kept, x)) is None:
            break
        kept, x = _resolved(points, [*kept, key], tolerance)
    for leaving in (swaps := list(kept)):
        if len(rest := [j for j in kept if j != leaving]) in (0, s):
            continue
        rest, y = _resolved(points, rest, tolerance)
        if (key := _best_gain(row, rest, y)) is not None:
            tried, y = _resolved(points, [*rest, key], tolerance)
            if y @ y < (x @ x) * (1 - TIE):
                kept, x = tried, y
                swaps += [j for j in kept if j not in swaps]
    return float(np.sqrt(x @ x))


def _resolved(points: np.ndarray, keys: list[int], tolerance: float) -> tuple[list[int], np.ndarray]:
    """The keys whose weights are positive at the nearest point of the hull of some, and that point."""
    corral, x = _nearest(points[keys], tolerance)
    return [keys[i] for i in corral], x


def _best_gain(row: CentredRow, kept: list[int], x: np.ndarray) -> int | None:
    """The key that brings the affine hull of the kept ones, ``x`` its nearest point, closest to ``mu``."""
    basis = np.linalg.qr((row.centred[kept[1:]] - row.centred[kept[0]]).T)[0]
    away = row.centred - row.centred[kept[0]]
    away = away - (away @ basis) @ basis.T
    gaps, squares = x @ x - row.centred @ x, np.einsum("jd,jd->j", away, away)
    fair = (gaps > 0) & (squares > FLAT * row.distances**2)
    gains = np.where(fair, gaps**2 / np.where(fair, squares, 1.0), 0.0)
    return int(np.argmax(gains)) if gains.max() > 0 else None


def ridge_leverage(keys: np.ndarray, gram: np.ndarray | None = None) -> np.ndarray:
    """Ridge leverage ``k_j^T (K^T K + lambda I)^-1 k_j`` of every key, shape (n,).

    ``lambda`` is `LEVERAGE_RIDGE` times the mean eigenvalue of ``K^T K`` (keys of norm 0 give 0).

    Parameters
    ----------
    keys : ndarray of float64, shape (n, d)
        Post-rotation keys of one KV head, the visible ones.
    gram : ndarray of float64, shape (d, d), optional
        ``K^T K``, where it is known.
    """
    gram = keys.T @ keys if gram is None else gram
    ridge = LEVERAGE_RIDGE * np.trace(gram) / len(gram)
    if ridge == 0:
        return np.zeros(len(keys))
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))  # the ridge keeps it well-conditioned
    return np.einsum("jd,jd->j", keys @ inverse, keys)
