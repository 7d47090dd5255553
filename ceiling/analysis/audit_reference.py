"""The audit paper's numbers under our names, beside ours, and where ours differ, in words."""

from collections.abc import Sequence

import polars as pl

from ceiling.analysis.audit_notes import without_noise
from ceiling.analysis.reference import differences
from ceiling.analysis.tables import shown, table

LABELS = {
    "FullCache": "full",
    "SnapKV": "snapkv",
    "H2O": "h2o",
    "TOVA": "tova",
    "ExpectedAttention": "expected_attention",
    "AdaKV": "adakv",
    "KeyDiff": "keydiff",
    "StreamingLLM": "streaming_llm",
}
"""Our label of every press that the paper (arXiv 2607.11942) states numbers of."""

AWARE = "aware_kvpress"
"""The arm that the paper's query-aware numbers stand beside: it ran kvpress, whose reading this is."""

VERDICTS = (
    *("agnostic_wins", "agnostic_gap", "aware_scores_wins", "aware_scores_gap"),
    *("aware_kvpress_wins", "aware_kvpress_gap", "delta_aware_scores", "delta_aware_kvpress"),
)
"""What a verdict is made of: columns of `ceiling.analysis.audit_verdicts.verdict_table`."""

CELLS, AXIS_CELLS = 36, 12
"""Cells (count) of the paper's verdicts: 3 models x 3 axes x 4 ratios, and those of one axis."""

WHOSE = "paper, 3 models"

NOT_AUDITED = (
    "The paper's models (Llama-3.1-8B, Qwen2.5-7B, R1-Distill-Qwen-7B, at 8,192 tokens) are not audited "
    "here: their weights need a hub and a GPU; `ceiling audit --model ID --tokens 8192 --device cuda`."
)
"""Why the paper's rows have none of ours beside them."""


def paper_anchors(paper: pl.DataFrame) -> pl.DataFrame:
    """Table 1 as text: `model, axis, anchor`; `paper` is the reference read as text."""
    axes = ("retrieval", "aggregation", "multihop")
    return paper.unpivot(axes, index="model", variable_name="axis", value_name="anchor")


def paper_verdicts(paper: pl.DataFrame) -> pl.DataFrame:
    """Table 2 as text, with the columns of `ceiling.analysis.audit_verdicts.verdict_table`."""
    return paper.select(
        label=pl.col("press").replace_strict(LABELS),
        cells=pl.lit(str(CELLS)),
        agnostic_wins="agnostic_wins",
        agnostic_gap="agnostic_gap",
        **{f"{AWARE}_wins": "aware_wins", f"{AWARE}_gap": "aware_gap", f"delta_{AWARE}": "delta"},
    )


def paper_deltas(paper: pl.DataFrame) -> pl.DataFrame:
    """The protocol's effects of table 2 as text, with the columns of `audit_sight.sight_table`."""
    deltas = paper_verdicts(paper).select("label", delta=f"delta_{AWARE}")
    return deltas.with_columns(reading=pl.lit(AWARE.replace("_", "-")))


def paper_axes(paper: pl.DataFrame) -> pl.DataFrame:
    """Tables 3 (agnostic) and 6 (aware) as text: a row an axis and label, columns as `paper_verdicts`."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in paper.iter_rows(named=True):
        arm = row["arm"] if row["arm"] == "agnostic" else AWARE
        for axis in ("retrieval", "aggregation", "multihop"):
            label = LABELS[row["press"]]
            own = rows.setdefault((axis, label), {"axis": axis, "label": label, "cells": str(AXIS_CELLS)})
            own |= {f"{arm}_{quantity}": row[f"{axis}_{quantity}"] for quantity in ("wins", "gap")}
    return table(rows.values())


def paper_backends(paper: pl.DataFrame) -> pl.DataFrame:
    """Figure 5 as text, with the columns of `ceiling.analysis.audit_contrasts.backend_table`."""
    rows = []
    for row in paper.iter_rows(named=True):
        name, _, rest = row["row"].partition(" ")
        ratio = f"ratio{rest.removeprefix('r')}" if rest.startswith("r=") else "all"
        run = {"label": LABELS.get(name, name), "budget": "none" if name == "FullCache" else ratio}
        ends = {f"difference_{end}": row[end] for end in ("low", "high")}
        rows.append(run | {"difference": row["delta_eager_minus_sdpa"]} | ends)
    return table(rows)


def numeric(paper: pl.DataFrame, quantities: Sequence[str]) -> pl.DataFrame:
    """`paper` with these columns as numbers, for drawing; empty fields are null."""
    there = [name for name in quantities if name in paper.columns]
    return paper.with_columns(pl.col(there).replace("", None).cast(pl.Float64))


def beside_paper(
    ours: pl.DataFrame, paper: pl.DataFrame, quantities: Sequence[str], by: Sequence[str] = ("label",)
) -> pl.DataFrame:
    """Our rows, then the paper's, as text.

    Parameters
    ----------
    ours : polars.DataFrame
        `model`, the columns `by`, estimates; `cells` where a quantity counts wins.
    paper : polars.DataFrame
        As text, columns named as ours; without `model`, its rows pool its models.
    quantities, by : sequence of str
        A quantity that ends in "wins" is set as wins of cells.

    Returns
    -------
    polars.DataFrame
        `whose`, the columns `by`, the quantities; an en dash where there is none.
    """
    rows = []
    for row in without_noise(ours).iter_rows(named=True):
        values = {q: _wins(row, q) if q.endswith("wins") else shown(row, q) for q in quantities}
        rows.append({"whose": row["model"], **{key: str(row[key]) for key in by}, **values})
    for row in paper.iter_rows(named=True):
        whose = f"paper, {row['model']}" if "model" in row else WHOSE
        values = {q: _wins(row, q) if q.endswith("wins") else _stated(row, q) for q in quantities}
        rows.append({"whose": whose, **{key: row[key] for key in by}, **values})
    return table(rows)


def paper_differs(
    ours: pl.DataFrame, paper: pl.DataFrame, quantities: Sequence[str], by: Sequence[str] = ("label",)
) -> str:
    """Where our estimates leave the paper's numbers, in words; see `ceiling.analysis.reference.differences`.

    Each row of ours is compared with the paper's of the same `by`; of the paper's several models, with their
    range.
    """
    name = "press" if tuple(by) == ("label",) else "row"
    key = pl.concat_str(by, separator=" ").alias(name)
    there = [q for q in quantities if q in paper.columns and not q.endswith("wins")]
    long = paper.select(key, *there).unpivot(index=name, variable_name="quantity")
    known = long.filter(pl.col("value").fill_null("") != "")
    ordered = known.sort(pl.col("value").cast(pl.Float64), maintain_order=True)
    stated = ordered.group_by("quantity", name, maintain_order=True).agg(
        low=pl.col("value").first(), high=pl.col("value").last()
    )
    both = ours.with_columns(key).filter(pl.col(name).is_in(stated[name].to_list()))
    return differences(both, stated, name)


def _wins(row: dict[str, object], quantity: str) -> str:
    wins = row.get(quantity)
    return "–" if wins in (None, "") else f"{wins} of {row['cells']}"


def _stated(row: dict[str, object], quantity: str) -> str:
    value, low, high = (row.get(quantity + end) for end in ("", "_low", "_high"))
    if not value:
        return "–"
    return f"{value} [{low}, {high}]" if low and high else str(value)
