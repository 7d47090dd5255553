"""How a pool is searched: every subset, or branch and bound first."""

from math import comb

from ceiling.objective import POOL_CAP

EXHAUSTIVE = POOL_CAP
"""Subsets: pools up to the paper's cap are enumerated outright, which takes about as long as proofs would."""

SHARE = 100
"""Subsets a node: branch and bound gives up after a hundredth as many nodes as there are subsets, about
when it has taken as long as enumerating them all."""

WIDE = 256
"""Keys: larger pools have few subsets for the size of the enumeration's matrices (4 MB at this one, for
sixteen rows) and are left to branch and bound alone, however many nodes it takes."""


def nodes_first(m: int, s: int) -> int:
    """Nodes of branch and bound to try before every subset of `m` keys at budget `s`; 0 for none."""
    if min(s, m - s) < 2:
        return 0
    if m > WIDE:
        return 2**62
    return comb(m, s) // SHARE if comb(m, s) > EXHAUSTIVE else 0
