"""Tables: estimates as frames that hold nulls and never NaN, and as text beside the paper's numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
import polars.selectors as cs


def table(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """One frame of `rows`; a column that holds nothing but nulls is a Float64 column of nulls."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    return frame.with_columns(cs.by_dtype(pl.Null).cast(pl.Float64))


def counts(frame: pl.DataFrame) -> str:
    """What a table rests on, in words, for captions: instances, documents, rows left out, intervals.

    `frame` has the identity columns of `ceiling.analysis.instances.Group`, one row per budget.
    """
    parts = []
    for (model,), rows in frame.partition_by("model", as_dict=True, maintain_order=True).items():
        n, trivial, degenerate = (int(rows[c].sum()) for c in ("n", "trivial", "degenerate"))
        parts.append(
            f"{model}: n = {n:,} instances of {rows['documents'][0]} documents "
            f"({trivial:,} trivial and {degenerate:,} degenerate left out); intervals: {rows['interval'][0]}."
        )
    return " ".join(parts)


def readable(frame: pl.DataFrame, quantities: Sequence[str], by: Sequence[str] = ()) -> pl.DataFrame:
    """`model`, `by`, `s, n` and every quantity as text, "value [low, high]", an en dash where undefined."""
    columns = {q: [shown(row, q) for row in frame.iter_rows(named=True)] for q in quantities}
    return frame.select("model", *by, pl.col("s").cast(pl.String).fill_null("all"), "n").with_columns(
        pl.Series(name, text, dtype=pl.String) for name, text in columns.items()
    )


def beside(frame: pl.DataFrame, reference: pl.DataFrame, quantities: Sequence[str]) -> pl.DataFrame:
    """Long form, ours beside the paper's: `quantity, model, s, ours, paper`, all but `s` text.

    `reference` holds the numbers the paper states in its text: `quantity, s` (null: all budgets),
    `low, high`.
    """
    rows = []
    for quantity in quantities:
        stated = {r["s"]: r for r in reference.filter(quantity=quantity).iter_rows(named=True)}
        for row in frame.iter_rows(named=True):
            paper = stated.get(row["s"]) or stated.get(None)
            text = "–" if paper is None else _range(paper["low"], paper["high"])
            ours = {"quantity": quantity, "model": row["model"], "s": row["s"], "ours": shown(row, quantity)}
            rows.append(ours | {"paper": text})
    return table(rows)


def shown(row: dict[str, Any], quantity: str) -> str:
    """One estimate as text with its interval."""
    value, low, high = (row.get(quantity + part) for part in ("", "_low", "_high"))
    if value is None:
        return "–"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if low is None or high is None else f"{text} [{low:.4g}, {high:.4g}]"


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
