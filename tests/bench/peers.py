"""Five plain ways to the least forced error over a pool's size-s subsets, and the peak of such a loop.

A library for the benchmarks; nothing here comes from the package. Every peer takes ``residuals``
float64 [m, d], ``masses`` float64 [m] and ``s``, picks its minimum by its own arithmetic and returns
that set with its direct sum. What depends on m and s alone, the list of the subsets and its
indicator matrix, is made once and kept: a gift to the peers, made before any timing.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, islice
from math import comb

import numba
import numpy as np
import torch

Found = tuple[float, np.ndarray]
"""The least error, in the units of the values, and its set: int64 [s], ascending."""

GATHERED = 2**22
"""Bytes of residuals that a gathering peer takes at a time; twice as many gain a few percent at best."""
ONE_HOT = 4096
"""Subsets that the one-hot peer takes at a time; no power of two is faster by more than a few percent."""
SAMPLE = 1000
"""Subsets of an instance that the slowest peer looks at."""
CELLS = 2**14
"""Bytes the peak's loop runs over: half of a common L1 cache."""
PASSES = 10_000
"""Times the peak's loop runs over them: a few milliseconds."""


def direct(residuals: np.ndarray, masses: np.ndarray, kept: np.ndarray) -> float:
    """``|sum_A z_j| / p(A)``."""
    return float(np.linalg.norm(residuals[kept].sum(axis=0)) / masses[kept].sum())


@cache
def subsets(m: int, s: int) -> np.ndarray:
    """All of them in the order of `itertools.combinations`, int64 [C(m, s), s]."""
    flat = np.fromiter((j for subset in combinations(range(m), s) for j in subset), np.int64)
    return flat.reshape(-1, s)


@cache
def across(m: int, s: int) -> np.ndarray:
    """`subsets` with the members along the first axis, which numpy sums faster; int64 [s, C(m, s)]."""
    return np.ascontiguousarray(subsets(m, s).T)


@cache
def indicators(m: int, s: int) -> torch.Tensor:
    """`subsets` as rows of zeros and ones, float64 [C(m, s), m]."""
    marks = np.zeros((comb(m, s), m))
    np.put_along_axis(marks, subsets(m, s), 1.0, axis=1)
    return torch.from_numpy(marks)


def chunks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover ``range(total)``."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def itertools_numpy(residuals: np.ndarray, masses: np.ndarray, s: int, limit: int | None = SAMPLE) -> Found:
    """One numpy evaluation a subset, for the first `limit` subsets (None: all)."""
    least, best = np.inf, tuple[int, ...]()
    for kept in islice(combinations(range(len(masses)), s), limit):
        chosen = list(kept)
        g = residuals[chosen].sum(axis=0)
        error = np.sqrt(g @ g) / masses[chosen].sum()
        if error < least:
            least, best = error, kept
    winner = np.array(best, dtype=np.int64)
    return direct(residuals, masses, winner), winner


def numpy_gather(residuals: np.ndarray, masses: np.ndarray, s: int, limit: int | None = None) -> Found:
    """``residuals[index].sum``, chunk by chunk, over the first `limit` subsets (None: all)."""
    index = across(len(masses), s)[:, :limit]
    least, best = np.inf, 0
    for chunk in chunks(index.shape[1], GATHERED // (s * residuals[0].nbytes)):
        members = index[:, chunk]
        g = residuals[members].sum(axis=0)
        squares = np.einsum("nd,nd->n", g, g) / masses[members].sum(axis=0) ** 2
        if squares[at := int(squares.argmin())] < least:
            least, best = squares[at], chunk.start + at
    return direct(residuals, masses, index[:, best]), index[:, best]


def torch_gather(residuals: np.ndarray, masses: np.ndarray, s: int) -> Found:
    """The same in torch by its fused gather and sum, which beats ``residuals[index].sum(1)``."""
    z, p = torch.from_numpy(residuals), torch.from_numpy(masses)
    index = torch.from_numpy(subsets(len(masses), s))
    least, best = np.inf, 0
    for chunk in chunks(len(index), GATHERED // (s * residuals[0].nbytes)):
        members = index[chunk]
        g = torch.nn.functional.embedding_bag(members, z, mode="sum")
        smallest, at = ((g * g).sum(1) / p[members].sum(1) ** 2).min(0)
        if smallest.item() < least:
            least, best = smallest.item(), chunk.start + int(at)
    winner = subsets(len(masses), s)[best]
    return direct(residuals, masses, winner), winner


def torch_one_hot(residuals: np.ndarray, masses: np.ndarray, s: int) -> Found:
    """``x^T G x / (x^T p)^2`` by matrix products, x the indicator of a subset, G the Gram matrix."""
    z, p = torch.from_numpy(residuals), torch.from_numpy(masses)
    gram, marks = z @ z.T, indicators(len(masses), s)
    least, best = np.inf, 0
    for chunk in chunks(len(marks), ONE_HOT):
        x = marks[chunk]
        smallest, at = (((x @ gram) * x).sum(1) / (x @ p) ** 2).min(0)
        if smallest.item() < least:
            least, best = smallest.item(), chunk.start + int(at)
    winner = subsets(len(masses), s)[best]
    return direct(residuals, masses, winner), winner


def plain_dfs(residuals: np.ndarray, masses: np.ndarray, s: int) -> Found:
    """Depth first over the smaller of the kept and the dropped set, in compiled code; s < m.

    Dropping ``B`` leaves ``|g - g_B|^2 = |g|^2 - 2 <g, g_B> + |g_B|^2``, g the sum over the pool.
    """
    m = len(masses)
    dropping = m - s < s
    gram = residuals @ residuals.T
    joins, square, mass, sign = gram.diagonal().copy(), 0.0, 0.0, 1.0
    if dropping:
        joins -= 2 * gram.sum(axis=1)
        square, mass, sign = float(gram.sum()), float(masses.sum()), -1.0
    chosen = _descend(2 * gram, sign * masses, joins, square, mass, min(s, m - s))
    kept = np.setdiff1d(np.arange(m), chosen) if dropping else chosen
    return direct(residuals, masses, kept), kept


@numba.njit
def _descend(
    twice: np.ndarray,  # float64 [m, m], 2 G
    masses: np.ndarray,  # float64 [m], negative where keys are dropped
    joins: np.ndarray,  # float64 [m], what each key adds to the square, before any choice
    square: float,  # |g|^2 before any choice
    mass: float,  # the mass before any choice
    k: int,  # keys to choose, >= 1
) -> np.ndarray:
    """The chosen keys, ascending, whose square over squared mass is least."""
    m = len(masses)
    adds, squares, weights = np.empty((k, m)), np.empty(k), np.empty(k)
    adds[0], squares[0], weights[0] = joins, square, mass
    cursor, best = np.full(k, -1), np.empty(k, dtype=np.int64)
    least, depth = np.inf, 0
    while depth >= 0:
        if depth == k - 1:
            for j in range(cursor[depth] + 1, m):
                weight = weights[depth] + masses[j]
                value = (squares[depth] + adds[depth, j]) / (weight * weight)
                if value < least:
                    least = value
                    best[:depth], best[depth] = cursor[:depth], j
            depth -= 1
            continue
        cursor[depth] += 1
        i = cursor[depth]
        if i > m - k + depth:
            depth -= 1
            continue
        for j in range(i + 1, m):
            adds[depth + 1, j] = adds[depth, j] + twice[i, j]
        squares[depth + 1] = squares[depth] + adds[depth, i]
        weights[depth + 1] = weights[depth] + masses[i]
        cursor[depth + 1] = i
        depth += 1
    return best


PEERS: dict[str, Callable[[np.ndarray, np.ndarray, int], Found]] = {
    "itertools + numpy": itertools_numpy,
    "numpy gather": numpy_gather,
    "torch gather": torch_gather,
    "torch one-hot Gram": torch_one_hot,
    "plain DFS": plain_dfs,
}
"""By the name in the table, slowest first."""


def peak_loop(dtype: type) -> Callable[[], float]:
    """One load, one addition and one minimum a number, `PASSES` times over `CELLS` bytes of numbers.

    What an enumeration reaches if a subset costs one of each and nothing else.
    """
    cells = aligned((8, CELLS // 8 // np.dtype(dtype).itemsize), dtype)
    cells[:] = np.random.default_rng(0).integers(0, 1000, cells.shape)
    offsets: np.ndarray = np.arange(PASSES).astype(dtype)
    lows = aligned(cells.shape[1:], dtype)
    if np.issubdtype(dtype, np.integer):
        flat = cells.reshape(-1)
        return lambda: float(_least_integer(flat, offsets))
    return lambda: float(_least_float(cells, offsets, lows))


def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """An empty array that starts on a cache line, so that no vector straddles two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


@numba.njit
def _least_integer(cells: np.ndarray, offsets: np.ndarray) -> int:
    least = cells[0]
    for offset in offsets:
        for j in range(len(cells)):  # integers: the compiler may reorder the minimum into vectors
            least = min(least, np.int32(cells[j] + offset))
    return least


@numba.njit
def _least_float(cells: np.ndarray, offsets: np.ndarray, lows: np.ndarray) -> float:
    lows[:] = np.inf
    for offset in offsets:
        for j in range(len(lows)):  # floats: a column a lane, as a minimum over lanes is not reordered
            low = lows[j]
            for i in range(8):  # one load and one store of `low` for eight numbers
                value = cells[i, j] + offset
                low = value if value < low else low
            lows[j] = low
    return lows.min()
