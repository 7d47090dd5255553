"""Notes: what a table of the audit rests on, in words, for captions."""

from collections.abc import Iterator, Sequence

import polars as pl
import polars.selectors as cs

from ceiling.analysis.audit_cells import FLOOR, anchor_table
from ceiling.analysis.audit_gate import gate, records
from ceiling.analysis.tables import shown

PAPERS_TOKENS = 8192
"""Length (tokens, nominal) of the paper's RULER instances."""


DECIMALS = 9
"""Decimals (count) that are set: paired differences of equal means leave some 1e-17 that say nothing."""


def without_noise(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with its floats rounded to `DECIMALS`, and no negative zero."""
    return frame.with_columns(cs.float().round(DECIMALS) + 0.0)


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


def lengths(audit: pl.DataFrame | pl.LazyFrame) -> str:
    """Models, tasks, instances, lengths and settings of the records, which may be of several backends."""
    return " ".join(_models(records(audit)))


def _models(frame: pl.DataFrame) -> Iterator[str]:
    keys = ("model", "backend", "dtype")
    for (model, backend, dtype), part in sorted(frame.partition_by(keys, as_dict=True).items()):
        instances = part.select("task", "instance").n_unique()
        questions = part.select("task", "instance", "question").n_unique()
        asked = "" if questions == instances else f", {questions} questions"
        whole = (part["prompt_tokens"] + part["room_tokens"]).unique()
        low, high = (f"{int(end):,}" for end in (whole.min(), whole.max()))  # type: ignore[arg-type]
        tokens = low if low == high else f"{low} to {high}"
        yield (
            f"{model}: n = {instances} instances of {part['task'].n_unique()} tasks{asked}, {tokens} tokens "
            f"with the answer's room (the paper's: {PAPERS_TOKENS:,}), {backend}, {dtype}."
        )


def _floor(frame: pl.DataFrame) -> Iterator[str]:
    anchors = anchor_table(frame, draws=0).filter("floor")
    names = [f"{row['model']} {row['axis']} ({row['anchor']:.2f})" for row in anchors.iter_rows(named=True)]
    if names:
        yield f"At the floor (anchor below {FLOOR}), left out of means and verdicts: {', '.join(names)}."
    else:
        yield f"No axis is at the floor (anchor below {FLOOR})."


def as_text(frame: pl.DataFrame, keys: Sequence[str], quantities: Sequence[str]) -> pl.DataFrame:
    """The columns `keys`, then every quantity as "value [low, high]", an en dash where undefined."""
    frame = without_noise(frame)
    return frame.select(
        *keys,
        *(
            pl.Series(name, [shown(row, name) for row in frame.iter_rows(named=True)], dtype=pl.String)
            for name in quantities
        ),
    )
