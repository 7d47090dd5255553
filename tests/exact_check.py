"""Brute force on random instances of an enumerated dump: is the stored minimum that of every subset?

Run by hand, ``python -m tests.exact_check DUMP STORE [--instances 2000]``; minutes. Every subset of a pool is
summed directly in numpy, through the smaller of the kept and the dropped set where that is faster. Another
set than the stored one passes only where the two errors are within 1e-10.
"""

import argparse
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import polars as pl

from ceiling.dump import open_dump
from ceiling.objective import TIE, CentredRow, by_error, centre, fill, largest
from ceiling.store import open_store

CHUNK = 2**14
"""Subsets summed at once: their residuals stay in cache."""

ROUNDING = 1e-10
"""Relative: how far the product's errors, whose mean is summed in another order, may lie from these."""


def brute_force(row: CentredRow, pool: np.ndarray, s: int) -> np.ndarray:
    """Forced error of every size-`s` subset of `pool`, key indices, in lexicographic order of the sets."""
    z, p = row.residuals[pool], row.masses[pool]
    m = len(pool)
    dropping = m - s < s
    picks = _picks(m, min(s, m - s))
    if dropping:
        picks = picks[::-1]  # the first set keeps the first keys and drops the last
    errors = np.empty(len(picks))
    for at in range(0, len(picks), CHUNK):
        some = picks[at : at + CHUNK]
        g, mass = z[some].sum(axis=1), p[some].sum(axis=1)
        if dropping:
            g, mass = z.sum(axis=0) - g, p.sum() - mass
        errors[at : at + CHUNK] = np.sqrt(np.einsum("jd,jd->j", g, g)) / mass
    return errors


@cache
def _picks(m: int, k: int) -> np.ndarray:
    return np.array(list(combinations(range(m), k)), dtype=np.intp).reshape(comb(m, k), k)


def disagreement(row: CentredRow, s: int, extra: int, found: dict) -> str | None:
    """What the store's `found` gets wrong of one instance, if anything."""
    pool = fill(largest(row.masses, s), by_error(row), s + extra)
    errors = brute_force(row, pool, s)
    if found["pool_size"] != len(pool) or found["subsets"] + found["excluded"] != len(errors):
        return f"pool of {len(pool)}, {len(errors)} subsets"
    least = errors.min()
    if abs(found["e_pool"] - least) > ROUNDING * least:
        return f"error {found['e_pool']!r}, brute force {least!r}"
    first = int(np.argmax(errors <= least * (1 + TIE)))
    kept = set_of_rank(len(pool), s, first)
    if found["kept_pool"] != row.positions[pool[list(kept)]].tolist():
        mine = np.searchsorted(row.positions[pool], found["kept_pool"])
        g = row.residuals[pool[mine]].sum(axis=0)
        if np.sqrt(g @ g) / row.masses[pool[mine]].sum() > least * (1 + ROUNDING):
            return f"set {found['kept_pool']}, brute force {row.positions[pool[list(kept)]].tolist()}"
    return None


def set_of_rank(m: int, s: int, rank: int) -> tuple[int, ...]:
    """The set of that rank among the size-`s` subsets of ``0 .. m - 1`` in lexicographic order."""
    kept: list[int] = []
    j = 0
    while len(kept) < s:
        without = comb(m - j - 1, s - len(kept) - 1)  # sets that keep key j
        if rank < without:
            kept.append(j)
        else:
            rank -= without
        j += 1
    return tuple(kept)


def main(argv: Sequence[str] | None = None) -> int:
    """Print how many instances were compared, a line a budget, and all that disagree; return how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump")
    parser.add_argument("store")
    parser.add_argument("--config")
    parser.add_argument("--instances", type=int, default=2000, help="a budget")
    args = parser.parse_args(argv)
    dump = open_dump(args.dump)
    stored = open_store(args.store, args.config).instances
    instances = stored.filter((pl.col("dump") == dump.id) & (pl.col("status") != "trivial")).collect()
    wrong = 0
    for (s,), group in instances.sort("s").group_by("s", maintain_order=True):
        for found in group.sample(min(args.instances, len(group)), seed=0).to_dicts():
            document = dump.document(found["document"])
            r = document.query_positions.tolist().index(found["position"])
            row = centre(document.row(found["layer"], found["head"], r))
            extra = found["pool_size"] - s
            if (said := disagreement(row, s, extra, found)) is not None:
                wrong += 1
                print(
                    f"s={s} document {found['document']} layer {found['layer']} head {found['head']}: {said}"
                )
        print(f"s={s}: {min(args.instances, len(group)):,} instances compared", flush=True)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
