"""Toy losses: a frame of the store's table, made from a seed, in which each arm costs what it is told to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ceiling.store import TABLES

DEPLOYED = {"snapkv": 0.9, "h2o": 1.4, "quest": 0.6, "streaming-llm": 3.0}
"""About the excess loss of each deployed rule without the switch, nats a token."""

GAINS = {"flat": 0.05, "random": 0.02, "all": 0.06}
"""What balancing in these cells takes off the excess of top-mass, 0.3 nats a token."""


def toy_losses(
    model: str = "toy-1",
    *,
    documents: int = 6,
    budgets: Sequence[int] = (8,),
    draws: int = 3,
    gains: Mapping[str, float] = GAINS,
    switch: float = 0.1,
    noise: float = 0.01,
    seed: int = 0,
) -> pl.DataFrame:
    """Every arm of every document: documents differ by much, arms within one by a little `noise`."""
    rng = np.random.default_rng(seed)
    arms = [("top-mass", "none", 0, 0.3)]
    for balanced, gain in gains.items():
        arms += [("top-mass", balanced, d, 0.3 - gain) for d in range(draws if balanced == "random" else 1)]
    for rule, excess in DEPLOYED.items():
        arms += [(rule, "none", 0, excess), (rule, "flat", 0, excess - switch)]
    dense, harder = rng.normal(2.5, 0.3, documents), rng.lognormal(0, 0.2, documents)
    cells = {"none": 0, "flat": 30, "random": 30, "all": 100}
    rows: list[dict[str, Any]] = [
        {
            **{"dump": model.encode()[-6:].hex(), "config": "1" * 8, "model": model, "document": document},
            **{"s": s, "rule": rule, "balanced": balanced, "draw": draw, "context": 512, "tokens": 511},
            **{"cells": 100, "balanced_cells": cells[balanced], "dense_loss": dense[document]},
            "loss": dense[document] + excess * 8 / s * harder[document] + rng.normal(0, noise),
            **{"kl": 0.9 * excess * 8 / s, "agreement": 1 / (1 + excess), "kept_mass": 0.7},
            **{"deviation": 2e-5, "engine": "toy", "host": "toy", "seconds": 1.0},
        }
        for document in range(documents)
        for s in budgets
        for rule, balanced, draw, excess in arms
    ]
    return pl.DataFrame(rows, schema=TABLES["losses"])


def write_toy_losses(folder: Path, *frames: pl.DataFrame) -> Path:
    """Write `frames` as shards of the table, one a document, and return the store's folder."""
    for frame in frames:
        parts = frame.partition_by("dump", "config", "document", as_dict=True)
        for (dump, config, document), shard in parts.items():
            home = folder / "losses" / f"dump={dump}" / f"config={config}"
            home.mkdir(parents=True, exist_ok=True)
            shard.write_parquet(home / f"doc-{document:05d}.parquet")
    return folder
