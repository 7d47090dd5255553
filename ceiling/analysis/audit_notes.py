"""Notes: what a table of the audit rests on, in words, for captions."""

from collections.abc import Iterator

import polars as pl

from ceiling.analysis.audit_cells import FLOOR, anchor_table
from ceiling.analysis.audit_gate import gate

PAPERS_TOKENS = 8192
"""Length (tokens, nominal) of the paper's RULER instances."""


def rests_on(audit: pl.DataFrame | pl.LazyFrame, intervals: str | None = None) -> str:
    """Models, tasks, instances, lengths and settings of the records, and which axes are at the floor.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    intervals : str, optional
        The column `interval` of the table the caption is of.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`.
    """
    frame = gate(audit)
    parts = [*_models(frame), *_floor(frame)]
    if intervals:
        parts.append(f"Intervals: {intervals}.")
    return " ".join(parts)


def _models(frame: pl.DataFrame) -> Iterator[str]:
    for (model,), part in sorted(frame.partition_by("model", as_dict=True).items()):
        instances = part.select("task", "instance").n_unique()
        questions = part.select("task", "instance", "question").n_unique()
        asked = "" if questions == instances else f", {questions} questions"
        lengths = (part["prompt_tokens"] + part["room_tokens"]).unique()
        low, high = lengths.min(), lengths.max()
        tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        yield (
            f"{model}: n = {instances} instances of {part['task'].n_unique()} tasks{asked}, {tokens} tokens with "
            f"the answer's room (the paper's: {PAPERS_TOKENS:,}), {part['backend'][0]}, {part['dtype'][0]}."
        )


def _floor(frame: pl.DataFrame) -> Iterator[str]:
    anchors = anchor_table(frame, draws=0).filter("floor")
    names = [f"{row['model']} {row['axis']} ({row['anchor']:.2f})" for row in anchors.iter_rows(named=True)]
    if names:
        yield f"At the floor (anchor below {FLOOR}), left out of means and verdicts: {', '.join(names)}."
    else:
        yield f"No axis is at the floor (anchor below {FLOOR})."
