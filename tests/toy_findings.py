"""Toy tables for findings: estimates with intervals or without, as analysis makes them."""

from typing import Any

import polars as pl
import polars.selectors as cs


def frame(interval: bool = True, **columns: Any) -> pl.DataFrame:
    """A table of one row a model and budget; floats are estimates and get narrow intervals."""
    height = max(len(values) for values in columns.values())
    rows = pl.DataFrame(columns).with_columns(cs.by_dtype(pl.Null).cast(pl.Float64))
    ends = {
        f"{name}{end}": rows[name] * factor if interval else pl.Series([None] * height, dtype=pl.Float64)
        for name in rows.columns
        if rows[name].dtype == pl.Float64
        for end, factor in (("_low", 0.99), ("_high", 1.01))
    }
    identity: dict[str, list[Any]] = {
        "model": ["a"] * height,
        "s": [4, 8, 16][:height],
        "documents": [6] * height,
        "n": [1200] * height,
    }
    known = rows.select(pl.Series(name, values) for name, values in identity.items() if name not in columns)
    note = pl.lit("95% percentile" if interval else "none: 2 documents")
    return pl.concat([known, rows, pl.DataFrame(ends)], how="horizontal").with_columns(interval=note)


def holes(text: str) -> list[str]:
    """What no text of a finding holds: undefined numbers and stray blanks."""
    return [hole for hole in ("None", "nan", "null", "  ", " .", " ,") if hole in text]
