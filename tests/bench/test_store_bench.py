"""A store of ten million instances in two thousand shards: check, compact, and the cookbook's questions.

Run with ``make bench``. Made-up numbers in the real schema. Disk: about 2 GB for the store and as much for
its compacted copy, under pytest's temporary folder (``--basetemp``) while it runs.
CEILING_BENCH_ROWS sets another number of instances in as many shards, e.g. 1000000. Prints a markdown table.
"""

import json
import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest

from ceiling.analysis.views import VIEWS
from ceiling.store import TABLES, check_store, compact_store, config_id, open_store, run_sql
from ceiling.store.seal import sealed
from ceiling.store.shards import Shards

QUERIES = Path(__file__).parents[2] / "QUERIES.md"
ROWS = int(os.environ.get("CEILING_BENCH_ROWS", "10_000_000"))
DUMPS, DOCUMENTS, LAYERS, HEADS = 4, 20, 25, 25
EXTRAS = {4: 24, 8: 12, 16: 6, 32: 4}
SHARDS = DUMPS * DOCUMENTS * LAYERS
POSITIONS = ROWS // (SHARDS * HEADS * len(EXTRAS))
CONFIG: dict[str, Any] = {"schema": 1, "engine": "made-up", "extras": {str(s): e for s, e in EXTRAS.items()}}

CHECK_SECONDS = 30.0
QUERY_SECONDS, COMPACTED_SECONDS = 5.0, 3.0
"""What may be taken at full size, on two cores."""

MEDIAN = "SELECT s, count(*) AS n, median(closable) AS c FROM instances GROUP BY s ORDER BY s"


def questions() -> dict[str, str]:
    """The cookbook's SQL by heading, and a median over all rows."""
    found = {"median over all rows": MEDIAN}
    if QUERIES.exists():
        blocks = re.findall(r"\*\*(\d+\..*?)\*\*.*?```sql\n(.*?)```", QUERIES.read_text("utf-8"), re.DOTALL)
        found |= {heading: sql for heading, sql in blocks}
    return found


def template(rng: np.random.Generator) -> pl.DataFrame:
    """The instances of one shard, without what tells shards apart."""
    axes = (HEADS, POSITIONS, len(EXTRAS))
    head, row, b = (axis.ravel() for axis in np.meshgrid(*map(np.arange, axes), indexing="ij"))
    s = np.array(list(EXTRAS))[b]
    n = len(s)
    e_top, share = rng.lognormal(0, 0.5, n), np.where(rng.random(n) < 0.4, 0, rng.beta(1, 9, n))
    e_pool = e_top * (1 - share)
    reals = {
        name: rng.lognormal(0, 0.5, n) for name, dtype in TABLES["instances"].items() if dtype == pl.Float64
    }
    kept = [np.sort(rng.choice(1024, k, replace=False)) for k in s]
    columns: dict[str, Any] = {
        **reals,
        **{"config": config_id(CONFIG), "head": head, "kv_head": head // 5, "s": s},
        **{"position": 256 + 10 * row, "n_keys": 257 + 10 * row, "dropped_mass": rng.random(n)},
        **{"e_top": e_top, "e_pool": e_pool, "e_balance": e_pool, "ef_fw": e_pool * 0.8},
        **{"kappa": e_top / e_pool, "closable": share, "closable_balance": share, "pi": rng.random(n) + 1},
        **{"recovered": np.where(share > 0, 1.0, np.nan)},
        **{"pool_size": s + np.array(list(EXTRAS.values()))[b], "subsets": 20_475, "excluded": 0},
        **{"swaps": rng.integers(0, 9, n), "ties": 1, "degenerate": False, "status": "exact"},
        **{"kept_top": kept, "kept_pool": kept, "kept_balance": kept, "engine": "made-up", "host": "bench"},
    }
    frame = pl.DataFrame(
        columns, schema_overrides={k: v for k, v in TABLES["instances"].items() if k in columns}
    )
    return frame.with_columns(pl.col("recovered").fill_nan(None))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("bench")
    folder = home / "store"
    frames = [template(np.random.default_rng(seed)) for seed in range(LAYERS)]
    positions = frames[0]["position"].unique().sort().to_list()
    number = 0
    for d in range(DUMPS):
        shards = Shards(folder, f"{d:012x}")
        shards.open()
        shards.write_config(CONFIG)
        for document in range(DOCUMENTS):
            of_document: dict[str, list[Any]] = {
                "dump": [shards.dump],
                "document": [document],
                "model": [f"model-{d}"],
                "tokens": [1024],
            }
            of_document |= {"text": ["made-up"], "text_sha256": ["0" * 64]}
            shards.write("documents", shards.path("documents", document), of_document)
            of_rows: dict[str, list[Any]] = {"row": list(range(len(positions))), "position": positions}
            of_rows |= {"dump": [shards.dump] * len(positions), "document": [document] * len(positions)}
            shards.write("rows", shards.path("rows", document), of_rows | {"tags": [[]] * len(positions)})
            for layer, frame in enumerate(frames):
                known = {"dump": shards.dump, "document": document, "layer": layer, "model": f"model-{d}"}
                known |= {"text_id": f"{d:06x}{document:06x}"}
                literals = [pl.lit(v, dtype=TABLES["instances"][k]).alias(k) for k, v in known.items()]
                # other numbers in every shard: repeated ones would be stored once in a merged part
                shard = frame.with_columns(pl.col(pl.Float64) * (1 - 0.1 * number / SHARDS), *literals)
                number += 1
                shard = shard.with_columns(kappa=1 / (1 - pl.col("closable"))).select(*TABLES["instances"])
                path = shards.path("instances", document, layer, config=config_id(CONFIG))
                path.write_bytes(sealed(shard))
    yield folder
    shutil.rmtree(home)  # pytest would keep it for three runs


def timed(what: Callable[..., Any], *arguments: Any, times: int = 1) -> float:
    """Median seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        what(*arguments)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def ask(store: Path, sql: str) -> pl.DataFrame:
    """As ``ceiling query`` does."""
    return run_sql(open_store(store), sql, VIEWS)


def test_a_large_store(store: Path):
    out = store.with_name("compacted")
    check = timed(check_store, store)
    health, memory = check_store(store), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert (health.problems, health.rows["instances"]) == ([], SHARDS * HEADS * POSITIONS * len(EXTRAS))
    before = {name: timed(ask, store, sql, times=3) for name, sql in questions().items()}
    compact = timed(compact_store, store, out)
    done = json.loads((out / "compacted.json").read_text())
    checked = timed(check_store, out)
    after = {name: timed(ask, out, sql, times=3) for name, sql in questions().items()}
    count = health.rows["instances"]
    print(f"\n{count:,} instances; {done['shards']} files, {done['bytes_before'] / 1e9:.2f} GB ->")
    print(f"{done['parts']} files, {done['bytes'] / 1e9:.2f} GB; after check: {memory:,.0f} MB at most\n")
    print("| seconds | shards | compacted |\n|---|---|---|")
    print(f"| `store check` | {check:.1f} | {checked:.1f} |\n| `store compact` | {compact:.1f} | |")
    for name, seconds in before.items():
        print(f"| {name} | {seconds:.2f} | {after[name]:.2f} |")
    assert max(check, checked) <= CHECK_SECONDS
    assert max(before.values()) <= QUERY_SECONDS
    assert max(after.values()) <= COMPACTED_SECONDS
