"""Contrasts: paired differences on the same instances, between two presses or two attention backends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_cells import DRAWS, budget_order, resamplings
from ceiling.analysis.audit_gate import ANCHOR, ASKED, gate, records
from ceiling.analysis.bootstrap import FEWEST_DOCUMENTS, estimate
from ceiling.analysis.tables import table
from ceiling.kernels.paired import resampled_means
from ceiling.problem import InputError

CONTROLS = (ANCHOR, "keydiff", "streaming_llm")
"""What the backend control is made of: no press of these reads attention."""

POOLED = "pooled"


def contrast_table(
    audit: pl.DataFrame | pl.LazyFrame, first: str, second: str, *, draws: int = DRAWS
) -> pl.DataFrame:
    """Score of one press minus that of another, instance by instance.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    first, second : str
        Labels. The anchor, which has no budget, may be the second: it is compared with every budget.
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, arm and budget (and "all"): `first, second, pairs` (records each) and
        `difference` with `_low` and `_high`, the mean over instances of all tasks, resampled within tasks.
        A press against its alias, which keeps the same, has an interval that contains 0: a negative control.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also for a label without records, or the anchor as the first.
    """
    frame = gate(audit)
    if first == ANCHOR:
        raise InputError(f"audit: a contrast with the anchor has it second: {second!r}, {first!r}")
    keys = ("model", "arm", *ASKED) if second == ANCHOR else ("model", "arm", "budget", *ASKED)
    one, other = (frame.filter(pl.col("label") == label) for label in (first, second))
    for label, side in ((first, one), (second, other)):
        if side.is_empty():
            known = ", ".join(frame["label"].unique().sort())
            raise InputError(f"audit: no record of press {label!r}; there are {known}")
    both = one.join(other.select(*keys, other="score"), on=keys, maintain_order="left")
    both = both.with_columns(difference=pl.col("score") - pl.col("other"))
    rows = []
    for (model, arm), part in both.partition_by("model", "arm", as_dict=True).items():
        budgets = sorted(part["budget"].unique(), key=budget_order)
        for budget in ("all", *budgets):
            some = part if budget == "all" else part.filter(pl.col("budget") == budget)
            where = {"model": model, "arm": arm, "budget": budget, "first": first, "second": second}
            rows.append(where | _difference(some, draws))
    return table(rows).sort("model", "arm", maintain_order=True)


def backend_table(
    audit: pl.DataFrame | pl.LazyFrame,
    labels: Sequence[str] = CONTROLS,
    *,
    backends: tuple[str, str] = ("eager", "sdpa"),
    draws: int = DRAWS,
) -> pl.DataFrame:
    """What the attention backend alone does to scores (arXiv 2607.11942, section 6.2, figure 5).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
        The one table that may hold two backends.
    labels : sequence of str
        Presses that do not need one of the backends.
    backends : tuple of str
        The difference is the first's score minus the second's.
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, dtype, label and budget, then one `POOLED` a model and dtype: `pairs` and
        `difference` with `_low` and `_high`, over all arms and tasks, instances resampled within tasks.

    Raises
    ------
    InputError
        Where each backend is not a whole grid in itself, both do not hold the same records of these
        presses, or one of them is missing.
    """
    frame = records(audit).filter(pl.col("label").is_in(list(labels)))
    keys = ("model", "dtype", "label", "arm", "budget", *ASKED)
    one, other = (frame.filter(pl.col("backend") == backend) for backend in backends)
    for backend, side, against in zip(backends, (one, other), (other, one), strict=True):
        if side.is_empty():
            raise InputError(
                f"audit: no record of {', '.join(labels)} on backend {backend}; the backend control needs "
                f"{' and '.join(backends)}"
            )
        if (lost := against.join(side, on=keys, how="anti")).height:
            where = ", ".join(f"{name} {lost[name][0]}" for name in keys)
            raise InputError(
                f"audit: {lost.height} records have no partner on backend {backend}, the first {where}; only "
                "equal instance sets are compared"
            )
    both = one.select(*keys, "score").join(other.select(*keys, other="score"), on=keys, maintain_order="left")
    both = both.with_columns(difference=pl.col("score") - pl.col("other"))
    rows: list[dict[str, Any]] = []
    for (model, dtype), part in both.partition_by("model", "dtype", as_dict=True).items():
        told = {"model": model, "dtype": dtype}
        runs = part.select("label", "budget").unique().iter_rows()
        for label, budget in sorted(runs, key=lambda run: (labels.index(run[0]), budget_order(run[1]))):
            some = part.filter(pl.col("label") == label, pl.col("budget") == budget)
            rows.append(told | {"label": label, "budget": budget} | _difference(some, draws))
        rows.append(told | {"label": POOLED, "budget": "all"} | _difference(part, draws))
    return table(rows)


def _difference(part: pl.DataFrame, draws: int) -> dict[str, Any]:
    """Mean of the paired differences over instances, with its interval."""
    units = part.group_by("task", "instance").agg(pl.col("difference").mean()).sort("task", "instance")
    tasks = dict(units.group_by("task").len().sort("task").iter_rows())
    draws = draws if min(tasks.values()) >= FEWEST_DOCUMENTS else 0
    values = np.ascontiguousarray(units["difference"].to_numpy()[:, None])
    means = resampled_means(values, resamplings(tasks, draws))[0]
    return {"pairs": part.height} | estimate("difference", means)
