"""Verdicts of the audit: who beats the best trivial press, in which arm, and what the protocol changes."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_cells import (
    DRAWS,
    EQUAL,
    NATURAL,
    REAL,
    TRIVIAL,
    Board,
    average,
    boards,
    families,
    first_best,
    paired_note,
    ranked,
)
from ceiling.analysis.bootstrap import estimate
from ceiling.analysis.tables import table
from ceiling.problem import InputError

AGNOSTIC = "agnostic"
AWARE = ("aware-scores", "aware-kvpress")
"""The two readings of query-aware: scores that see the question while only the context is evicted, and
kvpress's convention, which compresses the question too."""

ALL_AXES = "all axes"


def column(arm: str) -> str:
    """An arm's name as the beginning of a column's."""
    return arm.replace("-", "_")


def verdict_table(
    audit: pl.DataFrame | pl.LazyFrame, *, by_axis: bool = False, draws: int = DRAWS
) -> pl.DataFrame:
    """Every press against the best trivial one in all cells (arXiv 2607.11942, table 2; by axis 3 and 6).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    by_axis : bool
        A verdict for each axis.
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model (and all of them, where there are several), axis and label: `press, role`,
        `cells` (models times axes times budgets) and `floor_cells` (left out); for each arm, its name
        with underscores, `<arm>_wins` (cells whose mean paired gap is positive) and `<arm>_gap` (mean
        over cells) with `_low` and `_high`; for each reading of aware, `delta_<arm>`: its gap minus the
        agnostic one, on the same resamplings, with `_low` and `_high`. Null for an arm that was not run.
        `interval` says what the intervals are.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where every cell is at the floor, or no press trivial.
    """
    found = [board for board in boards(audit, draws) if board.axis != NATURAL]
    above_floor = sorted({board.axis for board in ranked(found)})
    axes = above_floor if by_axis else [ALL_AXES]
    rows = []
    for model, family in families(found):
        for axis in axes:
            mine = [board for board in family if axis in (ALL_AXES, board.axis)]
            above = [board for board in mine if not board.floor]
            floor = sum(len(board.budgets) for board in mine if board.floor)
            for label in sorted({label for board in above for label in board.labels}):
                rows.append({"model": model, "axis": axis} | _verdict(above, label, floor))
    return table(row | {"interval": paired_note(found)} for row in rows)


def _verdict(found: Sequence[Board], label: str, floor: int) -> dict[str, Any]:
    having = [board for board in found if label in board.labels]
    at = having[0].labels.index(label)
    row: dict[str, Any] = {
        "label": label,
        "press": having[0].presses[at],
        "role": having[0].roles[at],
        "cells": sum(len(board.budgets) for board in having),
        "floor_cells": floor,
    }
    mean: dict[str, np.ndarray] = {}
    for arm in (AGNOSTIC, *AWARE):
        gaps = [
            board.gaps[board.arms.index(arm), b, board.labels.index(label)]
            for board in having
            if arm in board.arms
            for b in range(len(board.budgets))
        ]
        mean[arm] = average(gaps) if len(gaps) == row["cells"] else np.array([np.nan])
        wins = sum(bool(gap[0] > EQUAL) for gap in gaps)
        row |= {f"{column(arm)}_wins": wins if len(gaps) == row["cells"] else None}
        row |= estimate(f"{column(arm)}_gap", mean[arm])
    for arm in AWARE:
        row |= estimate(f"delta_{column(arm)}", mean[arm] - mean[AGNOSTIC])
    return row


def group_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """The best real press against the best trivial one, with fewer presses and without the luck of choice.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, arm and `without` (label of the press left out, null for none): how many `real`
        and `trivial` presses are left, `cells`, `wins` and `gap` of the best real press, then `fair_wins`
        and `fair_gap`, the mean over all subsets of the real presses that are as many as the trivial ones
        (20 best-of-3 of six). Both gaps with `_low` and `_high`.

    Raises
    ------
    InputError
        See `verdict_table`; also where there is no real press.

    Notes
    -----
    arXiv 2607.11942, section 4.4. The best of a group is chosen by the cell's mean scores and stays fixed
    over the resamplings, so the intervals are of paired means and not of the choice, which is what the
    subsets correct. A press enters by one of its forms: see `Board.group`.
    """
    found = ranked(boards(audit, draws))
    rows = []
    for model, family in families(found):
        for arm in dict.fromkeys(arm for board in family for arm in board.arms):
            having = [board for board in family if arm in board.arms]
            members = {b.labels[i] for b in having for role in (REAL, TRIVIAL) for i in b.group(role)}
            for without in (None, *sorted(members)):
                if row := _group(having, arm, without):
                    rows.append({"model": model, "arm": arm, "without": without} | row)
    if not rows:
        raise InputError("audit: there is no real press beside a trivial one; no group verdict")
    return table(row | {"interval": paired_note(found)} for row in rows)


def _group(found: Sequence[Board], arm: str, without: str | None) -> dict[str, Any]:
    """The verdict of the groups that are left, or nothing where one of them is empty."""
    cells, wins, fair_wins = 0, 0, 0.0
    best, fair = [], []
    for board in found:
        real, trivial = (
            [i for i in board.group(role) if board.labels[i] != without] for role in (REAL, TRIVIAL)
        )
        if not real or not trivial:
            return {}
        means = board.means[board.arms.index(arm)]
        subsets = list(combinations(real, min(len(real), len(trivial))))
        target = _chosen(means, trivial)
        for pool, kind in (([tuple(real)], "best"), (subsets, "fair")):
            weight = np.zeros(means.shape[:2])
            won = 0.0
            for subset in pool:
                chosen = _chosen(means, subset)
                for b, (i, j) in enumerate(zip(chosen, target, strict=True)):
                    weight[b, i] += 1 / len(pool)
                    weight[b, j] -= 1 / len(pool)
                    won += bool(means[b, i, 0] - means[b, j, 0] > EQUAL) / len(pool)
            gap = np.tensordot(weight, means, axes=2)
            if kind == "best":
                best.append(gap)
                wins += round(won)
            else:
                fair.append(gap)
                fair_wins += won
        cells += len(board.budgets)
    return {
        **{"real": len(real), "trivial": len(trivial), "cells": cells, "wins": wins},
        **estimate("gap", np.sum(best, axis=0) / cells),
        "fair_wins": fair_wins,
        **estimate("fair_gap", np.sum(fair, axis=0) / cells),
    }


def _chosen(means: np.ndarray, members: Sequence[int]) -> np.ndarray:
    """The best of `members` at every budget, by the mean scores themselves."""
    return np.array(members)[first_best(means[:, list(members), 0])]


def protocol_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """What sight of the question does to a press's own score, instance by instance.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, axis (and `ALL_AXES`), label, reading of aware and budget (and "all"): `press,
        role`, mean scores `agnostic` and `aware`, and `effect`, aware minus agnostic, each with `_low` and
        `_high`. Budgets and axes are pooled with equal weights; axes at the floor are left out.

    Raises
    ------
    InputError
        See `verdict_table`; also where the agnostic arm or both readings of aware are missing.
    """
    found = ranked(boards(audit, draws))
    readings = [arm for arm in AWARE if all(arm in board.arms for board in found)]
    if not readings or any(AGNOSTIC not in board.arms for board in found):
        raise InputError(f"audit: a protocol effect needs the arm {AGNOSTIC} and one of {', '.join(AWARE)}")
    rows = []
    for model in dict.fromkeys(board.model for board in found):
        mine = [board for board in found if board.model == model]
        for axis in (ALL_AXES, *(board.axis for board in mine)):
            some = [board for board in mine if axis in (ALL_AXES, board.axis)]
            for reading in readings:
                rows += [{"model": model, "axis": axis} | row for row in _effects(some, reading)]
    return table(row | {"interval": paired_note(found)} for row in rows)


def _effects(found: Sequence[Board], reading: str) -> Iterator[dict[str, Any]]:
    first = found[0]
    for i, label in enumerate(first.labels):
        both = [
            [board.means[board.arms.index(arm), :, board.labels.index(label)] for board in found]
            for arm in (AGNOSTIC, reading)
        ]
        agnostic, aware = (np.mean(arm, axis=0) for arm in both)  # [budgets, 1 + draws]
        for budget, of in (("all", slice(None)), *((b, [k]) for k, b in enumerate(first.budgets))):
            without, with_ = agnostic[of].mean(axis=0), aware[of].mean(axis=0)
            yield {
                **{"label": label, "press": first.presses[i], "role": first.roles[i]},
                **{"reading": reading, "budget": budget},
                **estimate("agnostic", without),
                **estimate("aware", with_),
                **estimate("effect", with_ - without),
            }
