"""Toy results: frames that look like a store's tables, made from a seed, for analysis and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ceiling.store import TABLES

EXTRA = {4: 24, 8: 12, 16: 6, 32: 4}


def toy_instances(
    model: str = "toy-1",
    *,
    documents: int = 8,
    layers: int = 6,
    heads: int = 4,
    rows: int = 6,
    budgets: Sequence[int] = (4, 8, 16, 32),
    seed: int = 0,
) -> pl.DataFrame:
    """A frame with the store's columns: flat cells drop more mass and have more to close.

    About 1% of the rows are trivial, as many degenerate, a few have a pool optimum too small to
    divide by, and on a third top-mass is the optimum.
    """
    rng = np.random.default_rng(seed)
    axes = (documents, layers, heads, rows, len(budgets))
    document, layer, head, row, b = (a.ravel() for a in np.meshgrid(*map(np.arange, axes), indexing="ij"))
    s, n = np.asarray(budgets)[b], len(b)
    cell = rng.normal(-0.6, 1.1, (layers, heads)) + 0.8 * np.cos(np.linspace(0, np.pi, layers))[:, None]
    by_document = rng.normal(0, 0.15, documents)
    logit = cell[layer, head] + by_document[document] + rng.normal(0, 0.7, n) - 0.7 * np.log(s / 8)
    mass = 1 / (1 + np.exp(-logit))
    sigma = rng.lognormal(0, 0.2, n)
    e_top = 0.6 * mass * sigma * rng.lognormal(0, 0.3, n)
    gain = rng.beta(0.6 + 2.2 * mass, 9, n) * (rng.random(n) > 0.35 - 0.2 * (s > 4))
    e_pool = e_top * (1 - gain)
    e_pool = np.where(rng.random(n) < 0.002, 1e-8 * sigma, e_pool)
    e_balance = e_pool + (e_top - e_pool) * np.where(rng.random(n) < 0.7, 0, rng.random(n))
    ef = e_pool / (1 + 0.25 * mass * np.sqrt(s) * rng.lognormal(0, 0.5, n))
    status = np.where(rng.random(n) < 0.01, "trivial", np.where(rng.random(n) < 0.01, "degenerate", "exact"))
    trivial, degenerate = status == "trivial", status == "degenerate"
    e_top = np.where(trivial, 0.0, np.where(degenerate, 1e-8 * sigma, e_top))
    e_pool, e_balance = np.minimum(e_pool, e_top), np.minimum(e_balance, e_top)
    measured, resolved = status == "exact", e_pool >= 1e-6 * sigma

    def known(values: np.ndarray, where: np.ndarray) -> pl.Series:
        return pl.Series(values, dtype=pl.Float64).scatter(np.flatnonzero(~where), None)

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = {
            "kappa": known(e_top / e_pool, measured & resolved),
            "closable": known(1 - e_pool / e_top, measured),
            "closable_balance": known(1 - e_balance / e_top, measured),
            "recovered": known((e_top - e_balance) / (e_top - e_pool), measured & (e_pool < e_top)),
            "pi": known(e_pool / ef, measured & resolved),
            "pi_improved": known(np.maximum(e_pool / (0.6 * ef), 1), measured & resolved),
        }
    kept = pl.Series([list(range(k)) for k in s], dtype=pl.List(pl.Int64))
    extra = np.array([EXTRA.get(int(k), 1) for k in budgets])[b]
    columns = {
        "dump": model.encode()[-6:].hex(),
        "config": "0" * 8,
        "model": model,
        **{"document": document, "layer": layer, "head": head, "kv_head": head // 2},
        **{"position": 256 + 100 * row, "n_keys": np.where(trivial, s, 257 + 100 * row), "s": s},
        **{"e_top": e_top, "e_pool": e_pool, "e_balance": e_balance},
        **{"e_geometric": e_top * rng.lognormal(0.4, 0.2, n), "e_leverage": e_top * rng.lognormal(2, 0.4, n)},
        **{
            "free_top": 0.8 * e_top,
            "free_pool": 0.8 * e_pool,
            "ef_fw": ef,
            "ef": np.minimum(0.6 * ef, e_pool),
        },
        **{"dropped_mass": mass, "phi": e_top * (1 - mass), "radius": 3 * sigma, "sigma": sigma},
        "spectral": known(1 - 0.8 * mass * rng.random(n), measured),
        **ratios,
        **{"pool_size": s + extra, "subsets": 1000 * s, "excluded": 0, "swaps": 1, "ties": 1},
        **{"degenerate": degenerate, "status": status},
        **{"kept_top": kept, "kept_pool": kept, "kept_balance": kept},
        **{"text_id": None, "engine": "toy", "host": "toy", "seconds": 1e-3},
    }
    return pl.DataFrame(columns, schema_overrides=TABLES["instances"]).select(*TABLES["instances"])


def toy_certificates(
    instances: pl.DataFrame, *, floors: Sequence[float] = (0.0, 0.5, 0.9), every: int = 1, seed: int = 0
) -> pl.DataFrame:
    """Certificates of every so many `instances`: a set some percent better than the pool's on a third.

    The higher the floor, the closer the interval and the less there is to win; most are proved.
    """
    rng = np.random.default_rng(seed)
    frame = instances.gather_every(every)
    n, trivial = frame.height, (frame["status"] == "trivial").to_numpy()
    fair = (frame["status"] == "exact").to_numpy()
    e_top, e_pool, mass = (frame[c].to_numpy() for c in ("e_top", "e_pool", "dropped_mass"))
    better, hard = (rng.random(n) < 0.35) * rng.beta(1, 6, n), rng.random(n) < 0.6 * mass
    parts = []
    for floor in floors:
        upper = np.where(trivial, 0.0, np.minimum(e_top, e_pool * (1 - (1 - floor) * better)))
        open_ = hard & (rng.random(n) > floor) & ~trivial
        lower = np.where(open_, upper * rng.uniform(0.5, 1, n), upper)
        top_share = np.where(better > 0, floor + (1 - floor) * rng.random(n), 1.0)
        ends = {"closable_lower": upper, "closable_upper": lower}
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = {
                name: pl.Series(1 - e / e_top).scatter(np.flatnonzero(~fair), None)
                for name, e in ends.items()
            }
        columns = {
            **{name: frame[name] for name in TABLES["certificates"] if name in TABLES["instances"]},
            **{"config": "c" * 8, "mass_floor": floor, "decile": None},
            **{"es_lower": lower, "es_upper": upper, **shares},
            **{"kept": frame["kept_pool"], "kept_mass": top_share * (1 - mass), "top_share": top_share},
            "status": np.where(trivial, "trivial", np.where(open_, "gap", "optimal")),
            "stopped_by": np.where(open_, "nodes", "none"),
            **{"nodes": np.where(open_, 10**6, rng.integers(1, 10**5, n)), "proof": b"toy", "proof_bytes": 3},
            "seconds": np.where(open_, 10.0, rng.lognormal(-2, 1, n)),
        }
        schema = TABLES["certificates"]
        parts.append(pl.DataFrame(columns, schema_overrides=schema).select(*schema))
    return pl.concat(parts)


def toy_zero_errors(
    model: str = "toy-1", *, documents: int = 5, rows: int = 40, bits: Sequence[int] = (6, 8), seed: int = 0
) -> pl.DataFrame:
    """Questions whose keys double with the bits and whose times double with every eight keys."""
    rng = np.random.default_rng(seed)
    axes = (documents, 3, rows, len(bits))
    document, layer, row, b = (a.ravel() for a in np.meshgrid(*map(np.arange, axes), indexing="ij"))
    n, m = len(b), 1 + rng.poisson(4 * 2.0 ** (1 + b) * rng.uniform(0.2, 2.5, len(b)))
    seconds = 1e-4 * 2.0 ** (m / 8) * rng.lognormal(0, 0.5, n)
    unknown, trivial = seconds > 1, m <= 4
    engine = np.where(m > 24, "cp-sat", np.where(rng.random(n) < 0.5, "meet-in-the-middle", "subset-sum"))
    columns = {
        **{"dump": model.encode()[-6:].hex(), "config": "z" * 8, "model": model, "document": document},
        **{
            "text_id": None,
            "layer": layer,
            "head": 0,
            "kv_head": 0,
            "position": 256 + row,
            "n_keys": 257 + row,
        },
        **{"s": 4, "bits": np.asarray(bits)[b], "rounded_keys": m},
        "status": np.where(trivial, "trivial", np.where(unknown, "unknown", np.where(m % 29, "no", "yes"))),
        "kept": [None if k % 29 else [0, 1, 2, 3] for k in m],
        "stopped_by": np.where(unknown, "nodes", "none"),
        **{"engine": np.where(trivial, "none", engine), "host": "toy", "seconds": np.minimum(seconds, 1.0)},
    }
    schema = TABLES["zero_errors"]
    return pl.DataFrame(columns, schema_overrides=schema).select(*schema)


SELECTORS = {
    ("top-mass", "per-query"): 0.0,
    ("balancing", "per-query"): 0.0,
    ("snapkv", "per-query"): 0.3,
    ("snapkv", "cache"): 0.6,
    ("h2o", "per-query"): 0.5,
    ("h2o", "cache"): 0.7,
    ("quest", "per-query"): 0.2,
    ("streaming-llm", "per-query"): 1.0,
    ("streaming-llm", "cache"): 1.0,
    ("tova", "per-query"): 0.0,
    ("tova", "cache"): 0.5,
    ("leverage", "per-query"): 2.0,
    ("geometric", "per-query"): 0.4,
    ("group-vote", "per-query"): 0.1,
}
"""Selectors and readings of `toy_scores`, with about the median logarithm of their error over top-mass's."""


def toy_scores(instances: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """Scores of `instances` by every selector, and top-mass under the allocations map and pyramid.

    Map gives the even heads s/4 keys more and the odd ones as many less, pyramid the other way round: the
    total is matched where the number of heads is even. No error is below the pool's best.
    """
    rng = np.random.default_rng(seed)
    parts = []
    rules = [(*rule, "uniform", shift) for rule, shift in SELECTORS.items()]
    rules += [("top-mass", "per-query", allocation, 0.0) for allocation in ("map", "pyramid")]
    for selector, reading, allocation, shift in rules:
        spread = rng.lognormal(shift, 0.4 * abs(shift), instances.height)
        sign = {"uniform": 0, "map": 1, "pyramid": -1}[allocation]
        more = sign * (1 - 2 * (pl.col("head") % 2))
        error = pl.col("e_top") * pl.Series(spread) * (1 - 0.2 * more)
        parts.append(
            instances.with_columns(
                **{"config": pl.lit("5" * 8), "selector": pl.lit(selector), "reading": pl.lit(reading)},
                **{"allocation": pl.lit(allocation), "group": pl.lit(2), "overlap": pl.lit(0.5)},
                kept_count=pl.col("s") + pl.col("s") // 4 * more,
                error=pl.col("e_balance") if selector == "balancing" else pl.max_horizontal(error, "e_pool"),
                kept_mass=1 - pl.col("dropped_mass"),
                trivial=pl.col("status") == "trivial",
            )
        )
    schema = TABLES["scores"]
    return pl.concat(parts).select(pl.col(name).cast(kind) for name, kind in schema.items())


def toy_rows(instances: pl.DataFrame, retrieval: Sequence[int] = ()) -> pl.DataFrame:
    """The table `rows` of a frame of results; queries at the positions `retrieval` bear that tag."""
    schema = TABLES["rows"]
    rows = instances.select("dump", "document", "position").unique().sort("dump", "document", "position")
    tags = [["retrieval"] if position in retrieval else [] for position in rows["position"]]
    columns = {**rows.to_dict(), "row": rows["position"].rank("dense") - 1, "tags": tags}
    return pl.DataFrame(columns, schema_overrides=schema).select(*schema)


def toy_documents(instances: pl.DataFrame, text: str = "python-docs") -> pl.DataFrame:
    """The table `documents` of the dumps in a frame of results, all of one text."""
    schema = TABLES["documents"]
    rows = instances.select("dump", "model", "document").unique().sort("dump", "document")
    nothing = {"needles": None, "registered": None}
    columns = {**rows.to_dict(), "tokens": 1024, "text": text, "text_sha256": "0" * 64, **nothing}
    return pl.DataFrame(columns, schema_overrides=schema).select(*schema)


def write_toy_documents(folder: Path, *frames: pl.DataFrame, table: str = "documents") -> Path:
    """Write `frames` as shards of the table `documents` or `rows`, and return the store's folder."""
    for frame in frames:
        for (dump, document), shard in frame.partition_by("dump", "document", as_dict=True).items():
            home = folder / table / f"dump={dump}"
            home.mkdir(parents=True, exist_ok=True)
            shard.write_parquet(home / f"doc-{document:05d}.parquet")
    return folder


def write_toy_store(folder: Path, *frames: pl.DataFrame, table: str = "instances") -> Path:
    """Write `frames` as the shards of a table, one per document and layer, and return the store's folder."""
    for frame in frames:
        for (dump, config, document, layer), shard in frame.partition_by(
            "dump", "config", "document", "layer", as_dict=True
        ).items():
            home = folder / table / f"dump={dump}" / f"config={config}"
            home.mkdir(parents=True, exist_ok=True)
            shard.write_parquet(home / f"doc-{document:05d}.layer-{layer:02d}.parquet")
    return folder


def hand_made(*rows: dict[str, Any]) -> pl.DataFrame:
    """Instances with the given columns, everything else ordinary, and the ratios that follow from them."""
    return pl.DataFrame([_completed(row) for row in rows], schema=TABLES["instances"])


def _completed(given: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(TABLES["instances"]) | {
        **{"dump": "d", "config": "c", "model": "toy", "document": 0, "layer": 0, "head": 0, "kv_head": 0},
        **{"position": 100, "n_keys": 101, "s": 8, "e_top": 1.0, "e_pool": 0.9, "e_balance": 0.9},
        **{"e_geometric": 1.5, "e_leverage": 7.0, "ef_fw": 0.8, "ef": 0.5, "dropped_mass": 0.3, "phi": 0.7},
        **{"sigma": 1.0, "radius": 2.0, "degenerate": False, "status": "exact"},
        **given,
    }
    top, pool, balance = row["e_top"], row["e_pool"], row["e_balance"]
    if row["status"] == "exact":
        row["closable"], row["closable_balance"] = 1 - pool / top, 1 - balance / top
        row["recovered"] = (top - balance) / (top - pool) if pool < top else None
        if pool >= 1e-6 * row["sigma"]:
            row["kappa"], row["pi"] = top / pool, pool / row["ef_fw"]
            row["pi_improved"] = pool / row["ef"] if row["ef"] is not None else None
    return row
