"""Flips: where two arms or two models disagree about the best press, and the sharpest case."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_cells import (
    DRAWS,
    EQUAL,
    REAL,
    TRIVIAL,
    Board,
    boards,
    cell_table,
    paired_note,
    ranked,
)
from ceiling.analysis.audit_verdicts import AGNOSTIC, AWARE
from ceiling.analysis.tables import table
from ceiling.problem import InputError


def arm_flips(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """How often two arms disagree about the best press of a cell (arXiv 2607.11942, section 3.4).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, axis, budget and pair of arms: `first`, `second`, `first_winner`,
        `second_winner` (labels; equal ones joined by " = "), `disagree`, and `probability`, the share of
        resamplings in which they disagree; null where there are none.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where every cell is at the floor, or one arm was run.

    Notes
    -----
    The best press is sought among the real and the trivial, each press in one form (`Board.group`), anew in
    every resampling. Both arms are read on the same resampled instances. They disagree when no press is
    best in both: presses of equal mean are all best.
    """
    found = ranked(boards(audit, draws))
    rows = []
    for board in found:
        pool = sorted((*board.group(REAL), *board.group(TRIVIAL)))
        names = [board.labels[i] for i in pool]
        for a, b in combinations(range(len(board.arms)), 2):
            for k, budget in enumerate(board.budgets):
                compared = _flip(names, board.means[a, k][pool], board.means[b, k][pool])
                where = {"model": board.model, "axis": board.axis, "budget": budget}
                rows.append(where | {"first": board.arms[a], "second": board.arms[b]} | compared)
    if not rows:
        raise InputError("audit: one arm only; that arms disagree takes two")
    return table(row | {"interval": paired_note(found)} for row in rows)


def model_flips(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """How often two models disagree about the best press of a cell.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per axis, arm, budget and pair of models, columns as in `arm_flips` with `arm` in place of
        `model`; the presses that both models have.

    Raises
    ------
    InputError
        See `arm_flips`; also where there is one model, or two were asked about unequal instances: the seed of
        the facts makes instance i of a task the same for every model, and only so is a resampling joint.
    """
    found = ranked(boards(audit, draws))
    rows: list[dict[str, Any]] = []
    for one, other in combinations(found, 2):
        if one.axis == other.axis:
            rows += _between(one, other)
    if not rows:
        raise InputError("audit: no axis of two models above the floor; that models disagree takes two")
    return table(row | {"interval": paired_note(found)} for row in rows)


def _between(one: Board, other: Board) -> Iterator[dict[str, Any]]:
    if one.tasks != other.tasks:
        raise InputError(
            f"audit: axis {one.axis} is {_counts(one)} for {one.model} but {_counts(other)} for "
            f"{other.model}; joint resampling needs the same instances: choose the tasks that both have"
        )
    if lost := sorted(set(one.facts) - set(other.facts)):
        task, instance, seed = lost[0]
        raise InputError(
            f"audit: axis {one.axis}: {one.model} has {len(lost)} instances that {other.model} lacks, the "
            f"first {task} {instance} of seed {seed}; joint resampling needs the same instances: audit "
            f"both with one seed"
        )
    groups = [{b.labels[i]: i for role in (REAL, TRIVIAL) for i in b.group(role)} for b in (one, other)]
    names = sorted(groups[0].keys() & groups[1].keys())
    for a, arm in enumerate(one.arms):
        for k, budget in enumerate(one.budgets):
            if arm in other.arms and budget in other.budgets and names:
                there = other.means[other.arms.index(arm), other.budgets.index(budget)]
                means = one.means[a, k][[groups[0][n] for n in names]], there[[groups[1][n] for n in names]]
                yield {
                    **{"axis": one.axis, "arm": arm, "budget": budget},
                    **{"first": one.model, "second": other.model},
                    **_flip(names, *means),
                }


def _flip(names: Sequence[str], one: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """Winners and their disagreement, from mean scores [labels, 1 + draws] of the same resamplings."""
    first, second = (means >= means.max(axis=0) - EQUAL for means in (one, other))
    apart = ~(first & second).any(axis=0)
    return {
        "first_winner": _winners(names, first),
        "second_winner": _winners(names, second),
        "disagree": bool(apart[0]),
        "probability": float(apart[1:].mean()) if len(apart) > 1 else None,
    }


def _winners(names: Sequence[str], best: np.ndarray) -> str:
    return " = ".join(name for name, wins in zip(names, best[:, 0], strict=True) if wins)


def _counts(board: Board) -> str:
    return ", ".join(f"{task} × {count}" for task, count in board.tasks.items())


def sharp_cell(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """The one cell where sight of the question changes a verdict most (figure 2).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        The rows of `ceiling.analysis.audit_cells.cell_table` of that model, axis and budget in the agnostic
        and the aware arm, and `flipped`, the label that the cell was chosen for.

    Raises
    ------
    InputError
        See `arm_flips`; also where there is no agnostic or no aware arm, or no real press.

    Notes
    -----
    The rule: aware is aware-scores, or aware-kvpress where that was not run. Of the cells above the floor
    and the real presses, those come first whose gap to the best trivial press is positive in one arm and
    not in the other; among these, or among all where there are none, the largest change of the gap; equal
    ones go to the first in the order of the table.
    """
    frame = audit.lazy().collect()
    cells = cell_table(frame, draws=0)
    aware = next((arm for arm in AWARE if arm in cells["arm"]), None)
    if aware is None or AGNOSTIC not in cells["arm"]:
        raise InputError(f"audit: a sharp cell needs the arm {AGNOSTIC} and one of {', '.join(AWARE)}")
    above = cells.filter(~pl.col("floor"), pl.col("role") == REAL)
    where = ("model", "axis", "budget")
    sides = [above.filter(arm=arm).select(*where, "label", "gap", "wins") for arm in (AGNOSTIC, aware)]
    both = sides[0].join(sides[1], on=(*where, "label"), suffix="_aware", maintain_order="left")
    if both.is_empty():
        raise InputError("audit: no real press in a cell above the floor; there is none to show")
    swing = (pl.col("gap_aware") - pl.col("gap")).abs()
    order = both.with_columns(turns=pl.col("wins") != pl.col("wins_aware"), swing=swing.round(9))
    top = order.sort("turns", "swing", descending=True, maintain_order=True).row(0, named=True)
    here = cell_table(frame.filter(model=top["model"], axis=top["axis"]), draws=draws)
    chosen = here.filter(pl.col("budget") == top["budget"], pl.col("arm").is_in([AGNOSTIC, aware]))
    return chosen.with_columns(flipped=pl.lit(top["label"]))
