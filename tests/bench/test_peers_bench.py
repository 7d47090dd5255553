"""The exhaustive engine beside five plain peers and the machine's peak: same instances, same run, one core.

Run with ``make bench``; a minute and a half on one core. The last test prints the table. Pools are made
before any timing, and so are the peers' lists of subsets (`tests.bench.peers`). Seconds are those of the
process, not of the wall: all contestants are serial, and the machine may be shared.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import ceil, comb
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from ceiling.objective import by_error, centre, default_extra, fill, largest
from ceiling.problem import Row
from ceiling.search import head_of
from ceiling.search.batch import Batch
from ceiling.search.candidates import search
from tests.bench.peers import CELLS, PASSES, PEERS, SAMPLE, itertools_numpy, numpy_gather, peak_loop

ROWS = Path(__file__).parents[1] / "cases" / "rows"
BUDGETS = (4, 8, 16, 32)
AGREE = 1e-9
"""Relative: how closely all minima agree; the cases' own tolerance."""
SECONDS = 1.0
"""What one measurement lasts at least, in rounds over all instances ..."""
ROUNDS = 3, 200
"""... of which there are no fewer and no more."""
COPIES = 3
"""How often each row occurs in a batch of the engine, which searches sixteen rows side by side: 54 rows are
one layer of a document; the eighteen alone would leave the second sixteen nearly empty."""


class Instances(NamedTuple):
    """The case rows at one budget, each with its default pool."""

    s: int
    pools: list[tuple[np.ndarray, np.ndarray]]  # residuals float64 [m, d] and masses float64 [m]
    batch: Batch  # the same rows, `COPIES` times


def ours(instances: Instances) -> np.ndarray:
    """Minima by the engine, all in: incumbents by balancing, set-up, enumeration, ties."""
    return search(instances.batch, 0).pool


OURS = "ours"
RATES: dict[tuple[str, int], float] = {}
"""Subsets a second by contestant and budget; the tests fill it in, the last one prints it."""
PEAKS: dict[str, float] = {}
"""Numbers a second by type."""


@cache
def instances_at(s: int) -> Instances:
    """The case rows at budget `s`; the peers' pools come from the definition, ours from the engine."""
    files = [np.load(file) for file in sorted(ROWS.glob("*.npz"))]
    rows = [Row(arrays["masses"], arrays["values"]) for arrays in files]
    pools = []
    for centred in map(centre, rows):
        pool = fill(largest(centred.masses, s), by_error(centred), s + default_extra(s))
        pools.append((centred.residuals[pool], centred.masses[pool]))
    longest, d = max(row.values.shape for row in rows)
    batch = Batch({s: default_extra(s)}, COPIES * len(rows), longest, d)
    for r, row in enumerate(rows * COPIES):
        batch.read(r, head_of(row.values), row.masses)
    return Instances(s, pools, batch.close())


@cache
def minima(s: int, limit: int | None) -> list[float]:
    """The least error of every instance, over the first `limit` subsets of its pool (None: all)."""
    return [numpy_gather(*pool, s, limit)[0] for pool in instances_at(s).pools]


def contestant(name: str) -> Callable[[Instances], Iterable[float]]:
    """One pass over the instances, to their minima."""
    if name == OURS:
        return ours
    minimum = PEERS[name]
    return lambda instances: [minimum(*pool, instances.s)[0] for pool in instances.pools]


@pytest.fixture(autouse=True, scope="module")
def _one_core() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the other peers never leave their thread
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("s", BUDGETS)
def test_the_reference_is_the_cases_own(s: int):
    answers = json.loads((ROWS / "answers.json").read_text())
    known = [answers[name][str(s)]["es_pool"] for name in sorted(answers)]
    assert minima(s, None) == pytest.approx(known, rel=AGREE, abs=0)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("name", [*PEERS, OURS])
@pytest.mark.parametrize("s", BUDGETS)
def test_subsets_per_second(s: int, name: str, benchmark):
    instances, enumerate_all = instances_at(s), contestant(name)
    limit = SAMPLE if PEERS.get(name) is itertools_numpy else None
    errors = list(enumerate_all(instances))  # this first pass also compiles
    copies = COPIES if name == OURS else 1
    assert errors == pytest.approx(minima(s, limit) * copies, rel=AGREE, abs=0)
    rounds = rounds_of(lambda: enumerate_all(instances))
    benchmark.pedantic(enumerate_all, args=(instances,), rounds=rounds)
    subsets = sum(comb(len(masses), s) if limit is None else limit for _, masses in instances.pools)
    RATES[name, s] = copies * subsets / benchmark.stats.stats.median


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_peak(dtype: type, benchmark):
    loop = peak_loop(dtype)
    loop()
    benchmark.pedantic(loop, rounds=rounds_of(loop))
    kind = np.dtype(dtype)
    # A peak: the fastest round.
    PEAKS[kind.name] = CELLS // kind.itemsize * PASSES / benchmark.stats.stats.min


def test_table(capsys):
    missing = {(name, s) for name in (*PEERS, OURS) for s in BUDGETS} - RATES.keys()
    if missing or len(PEAKS) < 2:
        pytest.skip("needs the rates of a whole run")
    with capsys.disabled():
        print("\n\n" + "\n".join([*rate_lines(), *peak_lines()]))


def rounds_of(work: Callable[[], object]) -> int:
    """How many rounds of `work` make a steady median."""
    start = time.process_time()
    work()
    fewest, most = ROUNDS
    return min(max(ceil(SECONDS / (time.process_time() - start)), fewest), most)


def rate_lines() -> list[str]:
    """Every contestant's rate, and in brackets how many times faster ours is."""
    lines = [
        "| subsets/s, one core (ours / peer) | " + " | ".join(f"s = {s}" for s in BUDGETS) + " |",
        "|---|" + "---|" * len(BUDGETS),
    ]
    for name in PEERS:
        cells = [f"{written(RATES[name, s])} ({digits(RATES[OURS, s] / RATES[name, s])}×)" for s in BUDGETS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, f"| {OURS} | " + " | ".join(written(RATES[OURS, s]) for s in BUDGETS) + " |"]


def peak_lines() -> list[str]:
    """The fraction of each peak that ours reaches, at a load, an addition and a minimum a subset."""
    return [
        f"| {OURS} / peak, {written(peak)} (load, add, minimum), {np.dtype(kind).itemsize} bytes ({kind}) | "
        + " | ".join(f"{RATES[OURS, s] / peak:.1%}" for s in BUDGETS)
        + " |"
        for kind, peak in PEAKS.items()
    ]


def written(rate: float) -> str:
    """Three digits and a unit: k, M or G."""
    unit, name = next(pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if rate >= pair[0])
    return f"{digits(rate / unit)} {name}"


def digits(number: float) -> str:
    """Three significant digits, more where they are whole."""
    return f"{number:,.0f}" if number >= 100 else f"{number:#.3g}"
