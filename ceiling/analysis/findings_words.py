"""Words of findings: spans, counts of cases, estimates and what they rest on, the same in every sentence."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from ceiling.analysis.cells import MAP_BUDGET
from ceiling.analysis.summary import number
from ceiling.analysis.tables import shown

MOST = 3
"""Families, or estimates (count), that are named one by one; of more, the least and the greatest are."""


def span(values: Iterable[float | None], show: Callable[[float], str] = number) -> str:
    """The least of `values` to the greatest, one number where both read the same; nulls are left out."""
    known = [round(value, 12) + 0.0 for value in values if value is not None]  # no -0.0 of a rounded zero
    if not known:
        return "undefined"
    low, high = show(min(known)), show(max(known))
    return low if low == high else f"{low} to {high}"


def listed(words: Sequence[str]) -> str:
    """Words in a row: "a", "a and b", "a, b and c"; "none" without any."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def by_family(frame: pl.DataFrame, quantity: str, show: Callable[[float], str] = number) -> str:
    """The `span` of a column in every family, or over all where they are many."""
    families = frame.partition_by("model", as_dict=True, maintain_order=True)
    if len(families) > MOST:
        return f"{span(frame[quantity], show)} ({len(families)} families)"
    return listed([f"{span(part[quantity], show)} ({model})" for (model,), part in families.items()])


def cases(hits: Iterable[bool | None]) -> str:
    """In how many cases something holds; a null is no case."""
    known = [hit for hit in hits if hit is not None]
    return f"in {sum(known)} of {len(known)}"


def away(rows: pl.DataFrame, quantity: str, at: float) -> list[int | None]:
    """Per row 1 where the interval of `quantity` is above `at`, -1 below, 0 where it reaches it; a value
    without an interval is compared itself, a null is null."""
    found: list[int | None] = []
    for row in rows.iter_rows(named=True):
        value, low, high = (row[quantity + part] for part in ("", "_low", "_high"))
        ends = (value, value) if low is None else (low, high)
        found.append(None if value is None else int(ends[0] > at) - int(ends[1] < at))
    return found


def sided(found: Sequence[int | None], side: int) -> str:
    """In how many cases `away` found this `side`."""
    return cases([None if where is None else where == side for where in found])


def grounds(rows: pl.DataFrame, quantity: str) -> str:
    """What `away` goes by: intervals, or values where there are none."""
    known = rows.drop_nulls(quantity)
    without = known[f"{quantity}_low"].null_count()
    if without in (0, known.height):
        return "by values, there being no interval" if without else "by intervals"
    return f"by intervals, {without} without one by their value"


def at_map(frame: pl.DataFrame) -> pl.DataFrame:
    """Every family's row at the map's budget, or at the nearest to it."""
    distance = (pl.col("s") - MAP_BUDGET).abs()
    return frame.sort("model", distance, maintain_order=True).unique(
        "model", keep="first", maintain_order=True
    )


def greatest(frame: pl.DataFrame, quantity: str) -> pl.DataFrame:
    """Every family's row of the greatest `quantity`; none of a family that has none."""
    order = frame.drop_nulls(quantity).sort("model", quantity, descending=[False, True], maintain_order=True)
    return order.unique("model", keep="first", maintain_order=True)


def named(row: dict[str, Any], by: Sequence[str] = ()) -> str:
    """Whose number a row holds: its model, what `by` says, its budget."""
    words = [row["model"], *(row[key] for key in by)]
    return ", ".join(words + ([] if row.get("s") is None else [f"s = {row['s']}"]))


def estimates(rows: pl.DataFrame, quantity: str, by: Sequence[str] = ()) -> str:
    """`quantity` of the rows with intervals, or why there is none; of many rows, least and greatest."""
    known = rows.drop_nulls(quantity)
    if known.is_empty():
        return "none: undefined"
    if known.height > MOST:
        known = known.sort(quantity, maintain_order=True).gather([0, -1])
    parts = [f"{shown(row, quantity)} ({named(row, by)})" for row in known.iter_rows(named=True)]
    return f"{'; '.join(parts)}: {'; '.join(known['interval'].unique(maintain_order=True))}"


def rests(frame: pl.DataFrame, n: str = "n", of: str = "instances") -> str:
    """How many rows of how many documents a table's families rest on, its budgets summed."""
    families = frame.group_by("model", maintain_order=True).agg(pl.col(n).sum(), pl.col("documents").max())
    if families.height > MOST:
        total, documents = families[n].sum(), families["documents"].sum()
        return f"{total:,} {of} of {documents} documents, {families.height} families"
    parts = [
        f"{rows:,} {of} of {documents} documents ({model})" for model, rows, documents in families.rows()
    ]
    return "; ".join(parts)


def stated(paper: pl.DataFrame, quantity: str) -> str:
    """What the paper's text states of a quantity: `paper` has `quantity, low, high`, and perhaps `s`."""
    parts = [
        span((float(row["low"]), float(row["high"])), plain)
        + ("" if row.get("s") is None else f" at s = {row['s']}")
        for row in paper.filter(quantity=quantity).iter_rows(named=True)
    ]
    return "; ".join(parts) or "none: not in its text"


def column(paper: pl.DataFrame, name: str) -> str:
    """The span of a column of one of the paper's tables, empty fields left out."""
    known = paper.get_column(name).cast(pl.String)
    return span((float(text) for text in known.drop_nulls() if text), plain)


def plain(x: float) -> str:
    """`x` as the paper writes it, without zeros at the end."""
    return f"{x:g}"
