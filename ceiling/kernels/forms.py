"""When a set beats an incumbent: the sign of a quadratic form, and how far rounding can move it.

With an incumbent error ``tau``, a set ``A`` beats it iff

    |g_A|^2 - tau^2 p(A)^2  =  x^T (Z Z^T - tau^2 p p^T) x  <  0,     x the indicator of A,

a form with one fixed matrix ``H``. Searches enumerate the smaller of the kept and the dropped set,
``k`` keys; dropping ``B`` gives ``g_A = g_pool - g_B``. They keep the form of the chosen keys, and
for every key ``j`` what it would add, ``t_j``; choosing key ``i`` adds ``2 H_ij`` to every ``t_j``.

Proof of the slack.  Let ``R`` be the sum of ``|z_j|`` and ``P`` that of ``p_j`` over the pool. The
terms that enter the form of one subset (the pool's total counted as one more vector) have absolute
sum at most ``4 (R^2 + tau^2 P^2)``. Each carries at most ``d + 2 m`` roundings of its dot product
and of the totals, and at most ``3 k + 8 <= (k + 4)^2`` of the additions; the square of the direct
sum strays less. So a set whose direct error is at most ``tau (1 + TIE)`` has a computed form of at
most ``slack = 16 (d + 2 m + (k + 4)^2) eps (R^2 + tau^2 P^2) + 4 TIE tau^2 P^2``, a factor of four
to spare, for any d and any pool (`ceiling.problem.Row` keeps squares away from under- and
overflow). A search may leave out what has a larger form; it decides the rest by the direct float64
sum, so its answer is the direct sum's minimum whatever the screen let through.
"""

import numpy as np

from ceiling.kernels.compiled import compiled

EPSILON = float(np.finfo(np.float64).eps)
"""Relative: spacing of float64."""


@compiled
def slack(d: int, m: int, k: int, terms: float, spread: float, tie: float) -> float:
    """Upper bound of the computed form of any set whose direct error is ``tau (1 + tie)`` or less."""
    return 16.0 * (d + 2 * m + (k + 4) ** 2) * EPSILON * terms + 4.0 * tie * spread
