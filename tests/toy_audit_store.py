"""A toy store of audits: shards and records of configurations, as `ceiling audit` lays them out."""

import json
from pathlib import Path

import polars as pl


def write_toy_audit(folder: Path, frame: pl.DataFrame, table: str = "audit") -> Path:
    """Write `frame` as the shards of a table, one per task, instance and arm; return the store's folder."""
    keys = ("dump", "config", "task", "instance", "arm")
    for (dump, config, task, instance, arm), shard in frame.partition_by(keys, as_dict=True).items():
        home = folder / table / f"dump={dump}" / f"config={config}"
        home.mkdir(parents=True, exist_ok=True)
        shard.write_parquet(home / f"{task}.{instance:05d}.{arm}.parquet")
    for (dump, config), part in frame.partition_by("dump", "config", as_dict=True).items():
        answered = {name: part[name][0] for name in ("backend", "dtype")}
        labels = sorted(part["press"].unique())
        record = answered | {"presses": labels, "budgets": sorted(part["budget"].unique()), "tokens": 1000}
        path = folder / table / f"dump={dump}" / f"config={config}" / "config.json"
        path.write_text(json.dumps(record))
    return folder
