"""Toy ceilings: a frame that looks like a store's `audit_ceilings`, made of a toy audit's records."""

from zlib import crc32

import numpy as np
import polars as pl

from ceiling.store import TABLES

LAYERS = 3


def toy_ceilings(audit: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Every record that is not the anchor's, judged in three layers on question and answer rows.

    `error_over_top` is 1 + 4 (1 - score) times noise of the record: a better answer, a smaller error.
    """
    keys = audit.filter(pl.col("press") != "full")
    parts = []
    for layer in range(LAYERS):
        for kind in ("question", "answer"):
            rng = np.random.default_rng([seed, crc32(kind.encode()), layer])
            noise = pl.Series(rng.lognormal(0, 0.2, keys.height))
            ratio = (1 + 4 * (1 - pl.col("score"))) * noise
            top = 0.1 + pl.col("ratio") / 2
            parts.append(
                keys.with_columns(
                    **{"layer": pl.lit(layer), "rows_of": pl.lit(kind), "rows": pl.lit(18)},
                    **{
                        "count": 930 * (1 - pl.col("ratio")),
                        "kept_mass": pl.lit(0.7),
                        "top_mass": pl.lit(0.9),
                    },
                    **{"error": ratio * top, "e_top": top, "bound": 4 * top, "error_over_top": ratio},
                )
            )
    schema = TABLES["audit_ceilings"]
    frame = pl.concat(parts)
    absent = [name for name in schema if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in absent).select(
        pl.col(name).cast(kind) for name, kind in schema.items()
    )
