"""Bytes: scores beside what was held in memory, at matched held bytes, and the cost of an answer."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_cells import (
    DRAWS,
    EQUAL,
    TRIVIAL,
    Board,
    average,
    boards,
    budget_order,
    paired_note,
    ranked,
)
from ceiling.analysis.audit_gate import ANCHOR, ASKED, gate
from ceiling.analysis.bootstrap import estimate
from ceiling.analysis.tables import table
from ceiling.problem import InputError

SLACK = 0.005
"""Relative: held shares this close are the same budget. Presses round the number of kept keys, by up to one
key of some hundreds."""


def bytes_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """Mean score against bytes held, for every press and budget: the figure the paper lacks.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, arm, label (the anchor too) and budget: `press, role`, `score` with `_low` and
        `_high` (mean over the axes above the floor), `nominal_share` and `held_share` (bytes promised and
        held after eviction, of the same tokens' full cache), `begin_share` (bytes held when the answer
        begins, of the anchor's then: this compares arms), `begin_bytes` (mean) and `pareto` (in its model
        and arm nothing scores as well with fewer bytes, nor better with as many).

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where every cell is at the floor.
    """
    frame = gate(audit)
    found = ranked(boards(frame, draws))
    held = {(r["model"], r["arm"], r["label"], r["budget"]): r for r in _shares(frame).iter_rows(named=True)}
    rows = []
    for (model, arm, label, budget), share in held.items():
        some = [board for board in found if board.model == model]
        if some:
            score = average(_means(board, arm, label, budget) for board in some)
            rows.append(share | estimate("score", score))
    front = _front(table(rows))
    return front.with_columns(interval=pl.lit(paired_note(found)))


def _means(board: Board, arm: str, label: str, budget: str) -> np.ndarray:
    """Mean scores of a press at a budget, or of the anchor, [1 + draws]."""
    a = board.arms.index(arm)
    if label == ANCHOR:
        return board.full[a]
    return board.means[a, board.budgets.index(budget), board.labels.index(label)]


def _shares(frame: pl.DataFrame) -> pl.DataFrame:
    """Bytes of every press and budget, by model and arm."""
    full = pl.col("full_bytes").sum()
    begin = (
        frame.filter(pl.col("label") == ANCHOR)
        .group_by("model", "arm")
        .agg(whole=pl.col("begin_bytes").mean())
    )
    place = pl.col("budget").replace_strict(
        {b: i for i, b in enumerate(sorted(frame["budget"].unique(), key=budget_order))}
    )
    return (
        frame.group_by("model", "arm", "label", "budget")
        .agg(
            pl.col("press", "role").first(),
            nominal_share=pl.col("nominal_bytes").sum() / full,
            held_share=pl.col("held_bytes").sum() / full,
            begin_bytes=pl.col("begin_bytes").mean(),
        )
        .join(begin, on=("model", "arm"))
        .with_columns(begin_share=pl.col("begin_bytes") / pl.col("whole"))
        .sort("model", "arm", "label", place)
        .drop("whole")
    )


def _front(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with `pareto`: no other row of its model and arm is as good in both and better in one."""
    flags = []
    for row in frame.iter_rows(named=True):
        peers = frame.filter(model=row["model"], arm=row["arm"])
        fewer = peers["begin_share"] - row["begin_share"]
        more = peers["score"] - row["score"]
        beaten = ((fewer <= EQUAL) & (more >= -EQUAL)) & ((fewer < -EQUAL) | (more > EQUAL))
        flags.append(not beaten.any())
    return frame.with_columns(pareto=pl.Series(flags, dtype=pl.Boolean))


def matched_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """Every press against the best trivial one at as many held bytes, whatever its budget was called.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, arm, `level` (a share of the full cache that some budget promises) and label:
        `press, role, budget` (the press's own that holds most within the level; null where every one holds
        more, as of a press that only masks), its `held_share`, `cells`, `wins` and the mean `score` and
        `gap` with `_low` and `_high`, null where there is no such budget.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where every cell is at the floor.

    Notes
    -----
    The budget is chosen by bytes, never by score. The best trivial press of a cell is the one of the
    largest mean score among those that fit the level too, and stays fixed over the resamplings.
    """
    frame = gate(audit)
    found = ranked(boards(frame, draws))
    rows = []
    for (model, arm), shares in _shares(frame).partition_by("model", "arm", as_dict=True).items():
        some = [board for board in found if board.model == model]
        presses = shares.filter(pl.col("label") != ANCHOR)
        levels = presses.group_by("budget").agg(pl.col("nominal_share").mean().round(6))["nominal_share"]
        for level in levels.unique().sort(descending=True):
            if some:
                where = {"model": model, "arm": arm, "level": level}
                rows += [where | row for row in _at_level(some, str(arm), presses, level)]
    return table(row | {"interval": paired_note(found)} for row in rows)


def _at_level(
    found: Sequence[Board], arm: str, presses: pl.DataFrame, level: float
) -> Iterator[dict[str, Any]]:
    fitting = presses.filter(pl.col("held_share") <= level * (1 + SLACK))
    most = fitting.sort("held_share", descending=True, maintain_order=True).unique("label", keep="first")
    chosen = {row["label"]: row for row in most.iter_rows(named=True)}
    targets = []
    for board in found:
        names = [board.labels[i] for i in board.group(TRIVIAL)]
        means = [_means(board, arm, name, chosen[name]["budget"]) for name in names if name in chosen]
        targets.append(max(means, key=lambda mean: mean[0]) if means else None)
    for label, press, role in presses.select("label", "press", "role").unique().sort("label").iter_rows():
        row = {"label": label, "press": press, "role": role, "budget": None, "held_share": None}
        own = chosen.get(label)
        if own is None or any(target is None for target in targets):
            yield row | {"cells": 0, "wins": None} | _nothing("score") | _nothing("gap")
            continue
        scores = [_means(board, arm, label, own["budget"]) for board in found]
        gaps = [score - target for score, target in zip(scores, targets, strict=True)]
        yield {
            **row,
            **{"budget": own["budget"], "held_share": own["held_share"], "cells": len(gaps)},
            "wins": sum(bool(gap[0] > EQUAL) for gap in gaps),
            **estimate("score", average(scores)),
            **estimate("gap", average(gaps)),
        }


def _nothing(name: str) -> dict[str, None]:
    return {name: None, f"{name}_low": None, f"{name}_high": None}


def cost_table(audit: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """What an answered question costs where several follow one context: reuse, the point of a cache.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
        With several questions an instance.

    Returns
    -------
    polars.DataFrame
        One row per model, arm, label and budget: `press, role`, `questions` (mean, of an instance),
        `answers`, mean `score`, `seconds` (CPU time an answer: its decoding and its share of prefill), and
        `held_bytes` an answer: the agnostic arm answers all questions from one cache, which counts once;
        an aware arm holds a cache for each.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where every instance has one question.
    """
    frame = gate(audit)
    per = frame.select("model", *ASKED).unique().group_by("model", "task", "instance").len("questions")
    if per["questions"].max() == 1:
        raise InputError("audit: one question an instance; a cost by question needs --questions 2 or more")
    caches = pl.when(pl.col("arm") == "agnostic").then("questions").otherwise(1)
    place = {budget: i for i, budget in enumerate(sorted(frame["budget"].unique(), key=budget_order))}
    return (
        frame.join(per, on=("model", "task", "instance"))
        .group_by("model", "arm", "label", "budget")
        .agg(
            pl.col("press", "role").first(),
            questions=pl.len() / pl.struct("task", "instance").n_unique(),
            answers=pl.len(),
            score=pl.col("score").mean(),
            seconds=pl.col("seconds").mean(),
            held_bytes=(pl.col("held_bytes") / caches).mean(),
        )
        .sort("model", "arm", "label", pl.col("budget").replace_strict(place))
    )
