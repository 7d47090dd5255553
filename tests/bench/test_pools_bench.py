"""Candidate pools of one layer at four budgets, means to Gram matrices, beside the numpy definition.

Run with ``make bench``; seconds. The rows have the shape of a smollm2 layer at 4 096 tokens, nine heads over
three KV heads at six positions, with made-up numbers: the cost hardly depends on them. CPU seconds, one core.
"""

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ceiling.objective import by_error, centre, default_extra, fill, largest
from ceiling.problem import Row
from ceiling.search import head_of
from ceiling.search.batch import Batch

TOKENS, DIM, KV_HEADS, GROUP, ROWS = 4096, 64, 3, 3, 6
EXTRAS = {s: default_extra(s) for s in (4, 8, 16, 32)}


@pytest.fixture(scope="module")
def layer() -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Values of every KV head, float32 [TOKENS, DIM], and the softmax rows over them."""
    rng = np.random.default_rng(0)
    positions = np.sort(rng.choice(np.arange(TOKENS // 4, TOKENS), ROWS, replace=False))
    heads = []
    for _ in range(KV_HEADS):
        rows = []
        for position in np.repeat(positions, GROUP):
            weights = np.exp(3 * rng.standard_normal(position + 1))
            rows.append((weights / weights.sum()).astype(np.float32))
        heads.append((rng.standard_normal((TOKENS, DIM)).astype(np.float32), rows))
    return heads


def pools(layer: list[tuple[np.ndarray, list[np.ndarray]]]) -> Batch:
    """One pass over every row."""
    batch = Batch(EXTRAS, KV_HEADS * GROUP * ROWS, TOKENS, DIM)
    r = 0
    for values, rows in layer:
        head = head_of(values)
        for softmax in rows:
            batch.read(r, head, softmax)
            r += 1
    return batch.close()


def definition(layer: list[tuple[np.ndarray, list[np.ndarray]]]) -> list[list[np.ndarray]]:
    """Each row centred once, then ranked, gathered and multiplied for every budget."""
    found: list[list[np.ndarray]] = []
    for values, rows in layer:
        for softmax in rows:
            row = centre(Row(softmax, values[: len(softmax)]))
            found.append([])
            for s, extra in EXTRAS.items():
                pool = fill(largest(row.masses, s), by_error(row), s + extra)
                z = row.residuals[pool]
                np.matmul(z, z.T)
                found[-1].append(row.positions[pool])
    return found


@pytest.mark.benchmark(timer=time.process_time)
def test_pools(layer, benchmark):
    with threadpool_limits(1):
        batch, wanted = pools(layer), definition(layer)
        for r, of_row in enumerate(wanted):
            for b, pool in enumerate(of_row):
                assert batch.keys[r, batch.pools[b, r, : batch.sizes[b, r]]].tolist() == pool.tolist()
        slow = []
        for _ in range(5):
            start = time.process_time()
            definition(layer)
            slow.append(time.process_time() - start)
        benchmark.pedantic(pools, args=(layer,), rounds=20, warmup_rounds=1)
    fast, rows = benchmark.stats.stats.median, len(wanted)
    print(
        f"\npools: {fast / rows * 1e3:.3f} ms a row; the definition {np.median(slow) / rows * 1e3:.2f} ms, "
        f"{np.median(slow) / fast:.1f} times that"
    )
