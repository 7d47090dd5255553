"""Rate of the exhaustive kernel on the case rows, set-up of each instance included.

Run with ``make bench``; seconds.
"""

from math import comb
from pathlib import Path

import numpy as np
import pytest

from ceiling.kernels import subsets, swaps
from ceiling.objective import TIE, ZERO, by_error, centre, default_extra, fill, largest
from ceiling.problem import Row
from ceiling.search.candidates import mark

FILES = sorted((Path(__file__).parents[1] / "cases" / "rows").glob("*.npz"))


@pytest.mark.parametrize("s", [4, 8, 16, 32])
def test_subsets_per_second(s: int, benchmark):
    instances = []
    for file in FILES:
        arrays = np.load(file)
        row = centre(Row(arrays["masses"], arrays["values"]))
        top = largest(row.masses, s)
        pool = fill(top, by_error(row), s + default_extra(s))
        residuals, masses, zero = row.residuals[pool], row.masses[pool], ZERO * row.sigma
        tau, _ = swaps.balance(residuals, masses, TIE, zero, mark(pool, top))
        instances.append((residuals, masses, s, tau, TIE, zero, np.zeros(len(pool), dtype=bool)))

    def enumerate_all() -> None:
        for instance in instances:
            subsets.minimum(*instance)

    benchmark.pedantic(enumerate_all, rounds=20, warmup_rounds=1)
    covered = len(instances) * comb(s + default_extra(s), s)
    print(f"\ns = {s}: {covered / benchmark.stats.stats.median / 1e9:.2f} G subsets/s")
