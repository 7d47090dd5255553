"""Reference: our rows beside the paper's, why one is missing, and where ours differ, in words."""

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from ceiling.analysis.instances import ALL_FAMILIES
from ceiling.analysis.tables import shown, table

HEADLINE = ("Qwen2.5-1.5B", "Llama-3.2-1B", "OLMo-2-1B", "Qwen3-1.7B")
"""The paper's four headline families: the group `four` of the panel, the others are its group `more`."""

POOLED = "pooled"
"""What the paper calls the rows of its four families together; ours are `ALL_FAMILIES`."""

TUNED = {"instruct", "chat", "it"}
"""Words of a name that make a model another than the paper's family, whose weights are not tuned."""

DIFFERS = (
    "Ours agree with the paper's range where the value lies in it at the paper's rounding, or the interval "
    "reaches it; a value without an interval has to lie in it."
)
"""How `differences` decides."""


def same_model(family: str, models: Sequence[str]) -> str | None:
    """The model that is the paper's `family`: each word of its name is in the model's, none of `TUNED` is."""

    def words(name: str) -> set[str]:
        return set(re.split(r"[^a-z0-9.]+", name.lower()))

    return next((m for m in models if words(family) <= words(m) and not words(m) & TUNED), None)


def here(family: str, models: Sequence[str]) -> str:
    """Which of our `models` stands beside a row of the paper, or why none does."""
    if family == POOLED:
        return f"beside {ALL_FAMILIES}: {', '.join(models)}"
    if (model := same_model(family, models)) is not None:
        return f"beside {model}"
    group = "four" if family in HEADLINE else "more"
    return (
        "not captured: weights need a hub, and the model a GPU; "
        f"`jobs/capture.py --panel jobs/panel.toml --group {group}`"
    )


def beside_rows(
    ours: pl.DataFrame,
    paper: pl.DataFrame,
    quantities: Sequence[str],
    by: Sequence[str] = (),
) -> pl.DataFrame:
    """Our rows, then every row of the paper, with what stands beside it.

    Parameters
    ----------
    ours : polars.DataFrame
        `model, n`, the columns `by`, and estimates.
    paper : polars.DataFrame
        The reference as text (read with ``infer_schema=False``): `family`, the columns `by`, the quantities
        and, where it has them, their `_low` and `_high`.
    quantities, by : sequence of str

    Returns
    -------
    polars.DataFrame
        `whose`, the columns `by`, `n`, the quantities and `here`, all text; an en dash where there is none.
    """
    models = [model for model in ours["model"].unique(maintain_order=True) if model != ALL_FAMILIES]
    rows = []
    for row in ours.iter_rows(named=True):
        keys = {key: _text(row[key]) for key in by}
        values = {q: shown(row, q) for q in quantities}
        rows.append({"whose": row["model"]} | keys | {"n": f"{row['n']:,}"} | values | {"here": "–"})
    for row in paper.iter_rows(named=True):
        name = row["family"]
        keys = {key: _text(row[key]) for key in by}
        values = {q: _stated(row, q) for q in quantities}
        rows.append({"whose": f"paper, {name}"} | keys | {"n": "–"} | values | {"here": here(name, models)})
    return table(rows)


def ranges(paper: pl.DataFrame, quantities: Sequence[str], by: str | None = None) -> pl.DataFrame:
    """The paper's range of every quantity over its rows: `quantity`, `by` (where given), `low`, `high`, text.

    `paper` is a reference as text; a budget `s` becomes a whole number. Empty fields state nothing.
    """
    keys = [] if by is None else [by]
    long = paper.unpivot(quantities, index=keys, variable_name="quantity").filter(pl.col("value") != "")
    ordered = long.sort(pl.col("value").cast(pl.Float64), maintain_order=True)
    ends = ordered.group_by("quantity", *keys).agg(low=pl.col("value").first(), high=pl.col("value").last())
    frame = ends.with_columns(pl.col("s").cast(pl.Int64)) if by == "s" else ends
    return frame.sort(pl.col("quantity").cast(pl.Enum(list(quantities))), *keys)


def differences(ours: pl.DataFrame, stated: pl.DataFrame, by: str = "s") -> str:
    """Where our numbers leave the paper's range, model by model, in words.

    Parameters
    ----------
    ours : polars.DataFrame
        `model`, estimates, and the column `by`.
    stated : polars.DataFrame
        `quantity, low, high` as text, from `ranges` or the paper's own words; with a column `by`, a range
        holds for the rows of that key, a null for all.
    by : str

    Returns
    -------
    str
        A sentence a model, then `DIFFERS`; another where there is nothing to compare. Quantities that
        either side lacks are left out.
    """
    sentences = []
    for rows in ours.partition_by("model", maintain_order=True):
        found: dict[str, list[str]] = {"above": [], "below": [], "in agreement": []}
        for (quantity,), bounds in stated.partition_by("quantity", as_dict=True, maintain_order=True).items():
            for verdict, where in _verdicts(rows, str(quantity), bounds, by).items():
                found[verdict].append(f"{quantity}{where}")
        if parts := [f"{verdict} – {', '.join(names)}" for verdict, names in found.items() if names]:
            sentences.append(f"{rows['model'][0]} against the paper's numbers: {'; '.join(parts)}.")
    if not sentences:
        return "The paper states nothing to compare these rows with."
    return " ".join([*sentences, DIFFERS])


def _verdicts(rows: pl.DataFrame, quantity: str, bounds: pl.DataFrame, by: str) -> dict[str, str]:
    """Every verdict on one quantity, and of which rows: their keys, or the number where there is one row."""
    found: dict[str, list[str]] = {}
    for row in rows.iter_rows(named=True):
        for stated in bounds.iter_rows(named=True):
            if row.get(quantity) is not None and stated.get(by) in (None, row.get(by)):
                verdict, numbers = _verdict(row, quantity, stated["low"], stated["high"])
                found.setdefault(verdict, []).append(numbers if rows.height == 1 else _text(row[by]))
    if rows.height == 1:
        return {verdict: f" ({'; '.join(numbers)})" for verdict, numbers in found.items()}
    return {verdict: f" at {by} = {'/'.join(keys)}" for verdict, keys in found.items()}


def _verdict(row: dict[str, Any], name: str, low: str, high: str) -> tuple[str, str]:
    slack = max(0.5 * 10.0 ** -len(text.partition(".")[2]) for text in (low, high))
    reach = [row[name], row.get(f"{name}_low"), row.get(f"{name}_high")]
    known = [value for value in reach if value is not None]
    against = low if low == high else f"{low} to {high}"
    text = f"{row[name]:.3g} against {against}"
    if max(known) < float(low) - slack:
        return "below", text
    return ("above" if min(known) > float(high) + slack else "in agreement"), text


def _stated(row: dict[str, Any], quantity: str) -> str:
    value, low, high = (row.get(quantity + part) for part in ("", "_low", "_high"))
    if not value:
        return "–"
    return value if not low else f"{value} [{low}, {high}]"


def _text(key: Any) -> str:
    return "all" if key is None else str(key)
