"""Exact minimum of the forced error over a wide pool, by depth-first branch and bound.

The tree enumerates the smaller of the kept and the dropped set, ``k`` keys. A node has chosen some
of them; ``r`` more are to come, a set ``B`` of the keys after the last chosen one. With ``g`` and
``p`` the sum of residuals and the mass of what is kept so far (dropping, of the pool less the
chosen), a set ``A`` below the node that is no worse than the incumbent ``tau`` has, by Cauchy-Schwarz,

    <g, g_A>  <=  |g| |g_A|  <=  |g| tau p(A),

which is linear in ``B``:

    |g|^2 - tau |g| p + sum_B c_j  <=  0,      c_j = +-(<g, z_j> - tau |g| p_j), minus when dropping.

So a node is left where no ``c_j`` is as small as their mean must be, and its child of key ``j`` where
``c_j`` and the ``r - 1`` smallest ``c`` after ``j`` sum to too much. Once a single key is missing, the form
``|g_A|^2 - tau^2 p(A)^2`` tells. Keys come by descending ``|z_j| + tau p_j``, the most that one can do:
late ones are too small to cancel what was chosen. The tree keeps ``|g|^2`` and every ``a_j = +-<g, z_j>``;
choosing key ``i`` adds ``<z_i, z_j>`` to it. Neither holds ``tau``, which tightens on the way.

Proof of the slack.  Let ``W`` be the sum of ``|z_j| + tau p_j`` over the keys that enter a test: dropping,
all of the pool; keeping, at most ``k``, none before the first chosen one, hence no more than the sum over
the ``k`` keys from there on. Written out in inner products and masses, the terms of a test have absolute
sum at most ``8 W^2``, as ``|g| <= W``. Each carries at most ``N = d + 5 m + 16`` roundings of ``eps / 2``:
``d`` of its inner product, ``2 m`` of the pool's totals, ``3 k <= 2 m`` of the choices; or ``m`` of the
totals and ``2 m`` of the running sum of smallest ``c``. That makes ``4 N eps W^2``; the direct sum, squared,
strays by less than ``N eps W^2``, and an error up to ``tau (1 + TIE)`` adds at most ``3 TIE W^2``. With

    slack = (16 N eps + 4 TIE) W^2 + TINY

in place of 0, three times what rounding can do for any d and any pool, no such set is left out; ``|g|`` is
rounded up to ``sqrt(|g|^2 + slack)``, which can only let more through. Whoever passes is decided by the
direct float64 sum, so the answer is the direct sum's minimum whatever else the tests let through.
"""

import numpy as np

from ceiling.kernels.compiled import compiled
from ceiling.kernels.direct import decide, forced_error
from ceiling.kernels.forms import EPSILON

TINY = 1e-300
"""Underflow takes up to 5e-324 from a product, and no test has 1e20 of them; squares that matter are
far larger (`ceiling.problem.Row`)."""


@compiled
def search(
    gram: np.ndarray,  # float64 [u, u], <z_i, z_j>
    residuals: np.ndarray,  # float64 [u, d]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m], ascending indices
    s: int,
    tau: float,  # error of a size-s set of this pool
    tie: float,  # relative tolerance of ties
    zero: float,  # errors up to this are zero
    cap: int,  # nodes a pass may visit
    best: np.ndarray,  # bool [m], out: the winner
) -> tuple[float, int, int, int]:
    """Write the winning set into `best`; return its error, the ties, the subsets evaluated, the nodes.

    The winner is the lexicographically smallest of all sets within the tie tolerance of the
    minimum. A first pass finds the two smallest errors; only where they tie, a second counts.
    Evaluated are the subsets whose form the first pass computed; the others it excluded by proof.
    Where a pass is not done after `cap` nodes, nodes is -1 and nothing is proved: the error is the
    smallest met, or infinite, and every subset has to be enumerated.
    """
    if s == len(pool):
        best[:] = True
        return forced_error(residuals, masses, pool, best, np.empty(residuals.shape[1])), 1, 1, 1
    found = np.zeros(3)  # smallest and second smallest error, count
    found[0], found[1] = np.inf, np.inf
    evaluated, nodes = _scan(
        gram, residuals, masses, pool, s, max(tau, zero), tie, zero, -1.0, cap, best, found
    )
    limit = max(found[0] * (1 + tie), zero)
    if nodes < 0 or found[1] > limit:
        return found[0], 1, evaluated, nodes
    _, more = _scan(gram, residuals, masses, pool, s, limit, tie, zero, limit, cap, best, found)
    error = forced_error(residuals, masses, pool, best, np.empty(residuals.shape[1]))
    return error, int(found[2]), evaluated, nodes + more if more >= 0 else -1


@compiled
def _scan(
    gram: np.ndarray,  # float64 [u, u]
    residuals: np.ndarray,  # float64 [u, d]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m]
    s: int,
    tau: float,
    tie: float,
    zero: float,
    limit: float,  # < 0: find the two smallest errors; else: count errors <= limit
    cap: int,
    best: np.ndarray,  # bool [m], out
    found: np.ndarray,  # float64 [3], out
) -> tuple[int, int]:
    """Visit the tree, deciding directly on what the tests let through; return evaluated and nodes."""
    m, d = len(pool), residuals.shape[1]
    dropping = m - s < s
    k = m - s if dropping else s
    unit = 16.0 * (d + 5 * m + 16) * EPSILON + 4.0 * tie
    order, slacks = _order(gram, masses, pool, k, dropping, tau, unit)
    levels = np.zeros((k, m + 1))  # levels[depth, j] is a_j, levels[depth, m] is |g|^2
    inner = _inner(gram, pool, order, dropping, levels[0])
    mass = np.zeros(k)  # p, by depth
    squares, steps, scaled = np.empty(m), np.empty(m), np.empty(m)
    for j in range(m):
        squares[j] = inner[j, j]
        steps[j] = masses[pool[order[j]]]  # what choosing a key adds to p
        if dropping:
            mass[0] += steps[j]
            steps[j] = -steps[j]
        scaled[j] = tau * steps[j]
    chosen, live = np.zeros(k, dtype=np.int64), np.zeros((k, m), dtype=np.bool_)
    passing, costs, least = np.empty(m, dtype=np.int64), np.empty(m), np.empty(k)
    kept, g = np.empty(m, dtype=np.bool_), np.empty(d)
    evaluated, nodes, depth, start = 0, 0, 0, 0
    while nodes < cap:
        nodes += 1
        r, a, slack = k - depth, levels[depth], slacks[chosen[0] if depth > 0 else 0]
        if r > 1:
            chosen[depth] = start - 1  # its children follow, if any stays live
            if not _branch(a, tau * mass[depth], scaled, slack, start, r, costs, least, live[depth]):
                depth -= 1
        else:
            evaluated += m - start
            for n in range(_last(a, tau * mass[depth], scaled, squares, slack, start, passing)):
                chosen[depth] = passing[n]
                kept[:] = dropping
                for c in range(k):
                    kept[order[chosen[c]]] = not dropping
                decide(forced_error(residuals, masses, pool, kept, g), kept, limit, best, found)
            if limit < 0 and max(found[0], zero) < tau:
                tau = max(found[0], zero)
                for j in range(m):
                    scaled[j] = tau * steps[j]
            depth -= 1
        i = m
        while depth >= 0 and i == m:  # the next live child of the deepest node that has one
            i = chosen[depth] + 1
            while i < m and not live[depth, i]:
                i += 1
            depth -= i == m
        if depth < 0:
            return evaluated, nodes
        a, deeper, row = levels[depth], levels[depth + 1], inner[i]
        for j in range(i + 1, m):
            deeper[j] = a[j] + row[j]
        deeper[m] = a[m] + 2.0 * a[i] + row[i]
        mass[depth + 1] = mass[depth] + steps[i]
        chosen[depth] = i
        depth, start = depth + 1, i + 1
    return evaluated, -1


@compiled
def _branch(
    a: np.ndarray,  # float64 [m + 1], every a_j and |g|^2
    mass: float,  # tau p
    scaled: np.ndarray,  # float64 [m], +- tau p_j
    slack: float,
    start: int,  # first of the keys to choose from
    r: int,  # keys to come, 2 or more
    costs: np.ndarray,  # float64 [m], scratch
    least: np.ndarray,  # float64 [>= r - 1], scratch
    live: np.ndarray,  # bool [m], out: from `start` on, which keys' children need a visit
) -> bool:
    """The linear test of a node and of its children; False where the node is left as a whole."""
    m, rest = len(scaled), r - 1
    square = max(a[m], 0.0)
    norm = np.sqrt(square + slack)
    room = slack - square + norm * mass  # what the costs to come may sum to
    mean, small = room / r, 0
    for j in range(start, m):
        costs[j] = a[j] - norm * scaled[j]
        small += costs[j] <= mean  # summed as an integer, so that this loop vectorises
    if small == 0:
        return False
    total = 0.0  # of `least`: the smallest costs after j, ascending, as many as there are up to `rest`
    for j in range(m - 1, start - 1, -1):
        cost, at = costs[j], m - 1 - j
        live[j] = at >= rest and cost + total <= room
        if at >= rest:
            if cost >= least[rest - 1]:
                continue
            at = rest - 1
            total -= least[at]
        total += cost
        while at > 0 and least[at - 1] > cost:
            least[at] = least[at - 1]
            at -= 1
        least[at] = cost
    return True


@compiled
def _last(
    a: np.ndarray,  # float64 [m + 1]
    mass: float,  # tau p
    scaled: np.ndarray,  # float64 [m], +- tau p_j
    squares: np.ndarray,  # float64 [m], |z_j|^2
    slack: float,
    start: int,
    passing: np.ndarray,  # int64 [m], out: keys from `start` on whose form is within the slack
) -> int:
    """The form with every last key; return how many pass."""
    m, hits = len(scaled), 0
    bound = slack - a[m]
    for j in range(start, m):
        weight = mass + scaled[j]
        hits += 2.0 * a[j] + squares[j] - weight * weight <= bound
    if hits == 0:
        return 0
    hits = 0
    for j in range(start, m):
        weight = mass + scaled[j]
        if 2.0 * a[j] + squares[j] - weight * weight <= bound:
            passing[hits] = j
            hits += 1
    return hits


@compiled
def _order(
    gram: np.ndarray,  # float64 [u, u]
    masses: np.ndarray,  # float64 [u]
    pool: np.ndarray,  # int64 [m]
    k: int,
    dropping: bool,
    tau: float,
    unit: float,  # slack in units of W^2
) -> tuple[np.ndarray, np.ndarray]:
    """Positions by descending ``|z_j| + tau p_j``; the slack by first chosen key, float64 [m]."""
    m, everything = len(pool), 0.0
    order, weights, slacks = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m)
    for j in range(m):
        weight = np.sqrt(gram[pool[j], pool[j]]) + tau * masses[pool[j]]
        everything += weight
        at = j
        while at > 0 and weights[at - 1] < weight:  # a compiled np.argsort takes seconds to compile
            order[at], weights[at] = order[at - 1], weights[at - 1]
            at -= 1
        order[at], weights[at] = j, weight
    for i in range(m):
        reach = everything if dropping else 0.0
        for j in range(i, i if dropping else min(i + k, m)):
            reach += weights[j]
        slacks[i] = unit * reach * reach + TINY
    return order, slacks


@compiled
def _inner(
    gram: np.ndarray,  # float64 [u, u]
    pool: np.ndarray,  # int64 [m]
    order: np.ndarray,  # int64 [m]
    dropping: bool,
    start: np.ndarray,  # float64 [m + 1], zeros; out: every a_j and |g|^2 before any choice
) -> np.ndarray:
    """``<z_i, z_j>``, float64 [m, m], in the order of the tree."""
    m = len(order)
    keys, inner = np.empty(m, dtype=np.uint64), np.empty((m, m))  # unsigned: no index is from the end
    for i in range(m):
        keys[i] = pool[order[i]]
    for i in range(m):
        row, here = gram[keys[i]], inner[i]
        for j in range(m):
            here[j] = row[keys[j]]
        if dropping:
            for j in range(m):
                start[j] -= here[j]
    for j in range(m):
        start[m] -= start[j]
    return inner
