"""Cells of the audit: mean scores of every press in every arm and budget, resampled together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from ceiling.analysis.audit_gate import ANCHOR, gate
from ceiling.analysis.bootstrap import FEWEST_DOCUMENTS, LEVEL, estimate
from ceiling.analysis.tables import table
from ceiling.kernels.paired import resampled_means
from ceiling.problem import InputError

DRAWS = 50_000
"""Resamplings (count) of the paired bootstrap: B of arXiv 2607.11942, section 3.4."""

FLOOR = 0.3
"""Mean score of the full cache below which no rank is claimed: there is too little left to lose."""

EQUAL = 1e-9
"""Mean scores this close are equal: they are means of shares of few gold strings, so unequal ones differ
by more than 1e-6, and sums in float64 stray by 1e-15."""

NATURAL = "natural"
"""The axis of natural text (LongBench), which no verdict on generated tasks includes."""

REAL, TRIVIAL = "real", "trivial"

ALL_MODELS = "all models"


@dataclass(frozen=True, eq=False)
class Board:
    """The cells of one model and task axis: all its arms and budgets, on the same instances.

    Attributes
    ----------
    model, axis : str
    arms, budgets, labels : tuple of str
        Budgets from the most kept to the least; presses without the anchor.
    presses, roles : tuple of str
        Of each label.
    tasks : dict of str to int
        Instances of each task, in the order of the rows of `scores`.
    facts : tuple of (task, instance, seed)
        Of each row of `scores`: what its facts are made from, so equal ones are equal for every model.
    scores : ndarray of float64, shape (instances, arms, budgets, labels)
        Mean over the questions of an instance.
    anchors : ndarray of float64, shape (instances, arms)
    draws : int
        Resamplings; 0 where a task has too few instances for an interval.

    Notes
    -----
    What is resampled is the instance of a task, with all its questions, within its task, so that every
    resampling has as many instances of each task as there are. Seeds are the CRC-32 of the task's name:
    all arms, budgets, presses and models share the resamplings of a task.
    """

    model: str
    axis: str
    arms: tuple[str, ...]
    budgets: tuple[str, ...]
    labels: tuple[str, ...]
    presses: tuple[str, ...]
    roles: tuple[str, ...]
    tasks: dict[str, int]
    facts: tuple[tuple[str, int, int], ...]
    scores: np.ndarray
    anchors: np.ndarray
    draws: int

    @property
    def anchor(self) -> float:
        """Mean score of the full cache in the agnostic arm, or in the first there is."""
        return float(self.anchors[:, 0].mean())

    @property
    def floor(self) -> bool:
        """Whether no rank is claimed here, by the anchor alone."""
        return self.anchor < FLOOR

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of `scores` of every resampling, int32 [1 + draws, instances]; first each row once."""
        return resamplings(self.tasks, self.draws)

    @cached_property
    def means(self) -> np.ndarray:
        """Mean scores, float64 [arms, budgets, labels, 1 + draws]; first the estimate itself."""
        flat = self.scores.reshape(len(self.scores), -1)
        return resampled_means(flat, self.rows).reshape(*self.scores.shape[1:], -1)

    @cached_property
    def full(self) -> np.ndarray:
        """The anchor's mean scores, float64 [arms, 1 + draws]."""
        return resampled_means(np.ascontiguousarray(self.anchors), self.rows)

    def group(self, role: str) -> tuple[int, ...]:
        """Which labels stand for the presses of a role: each press once.

        By its default form; where there is none, by the first of its other forms in alphabetical order.
        So a press at several windows does not enter a best-of several times.
        """
        first: dict[str, int] = {}
        for i in sorted(range(len(self.labels)), key=lambda i: self.labels[i]):
            if self.roles[i] == role:
                first.setdefault(self.presses[i], i)
        return tuple(sorted(first.values()))

    @cached_property
    def target(self) -> np.ndarray:
        """The label of the best trivial press of every cell, int64 [arms, budgets].

        The one of the largest mean score, ties to the first label; it stays fixed over the resamplings.
        """
        trivial = np.array(self.group(TRIVIAL), dtype=np.int64)
        if not len(trivial):
            raise InputError(
                f"audit: model {self.model} has no trivial press; add random, knorm, streaming_llm"
            )
        return trivial[first_best(self.means[:, :, trivial, 0])]

    @cached_property
    def gaps(self) -> np.ndarray:
        """Mean score of every press minus that of the best trivial press, as `means`."""
        target = self.target[:, :, None, None]
        return self.means - np.take_along_axis(self.means, target, axis=2)


def boards(audit: pl.DataFrame | pl.LazyFrame, draws: int = DRAWS) -> list[Board]:
    """The cells of every model and axis, in that order.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int
        Resamplings; none where some task has fewer than five instances.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`.
    """
    frame = gate(audit)
    fewest = frame.group_by("model", "task").agg(pl.col("instance").n_unique())["instance"].min()
    draws = draws if int(fewest) >= FEWEST_DOCUMENTS else 0  # type: ignore[arg-type]
    found = []
    for (model, axis), part in sorted(frame.partition_by("model", "axis", as_dict=True).items()):
        found.append(_board(str(model), str(axis), part, draws))
    return found


def resamplings(tasks: dict[str, int], draws: int) -> np.ndarray:
    """Rows of every resampling within tasks, int32 [1 + draws, instances]; the first has each row once."""
    return _resamplings(tuple(tasks.items()), draws)


@lru_cache(maxsize=8)  # the axes of a model and all its tasks: every table of an audit draws the same
def _resamplings(tasks: tuple[tuple[str, int], ...], draws: int) -> np.ndarray:
    parts, start = [], 0
    for task, count in tasks:
        rng = np.random.default_rng(crc32(f"audit/{task}".encode()))
        own = rng.integers(0, count, size=(draws, count), dtype=np.int32)
        parts.append(start + np.concatenate([np.arange(count, dtype=np.int32)[None], own]))
        start += count
    rows = np.concatenate(parts, axis=1)
    rows.flags.writeable = False
    return rows


def first_best(means: np.ndarray) -> np.ndarray:
    """Index of the largest entry along the last axis, equal ones to the first."""
    return (means >= means.max(axis=-1, keepdims=True) - EQUAL).argmax(axis=-1)


def average(replicates: Iterable[np.ndarray]) -> np.ndarray:
    """Mean of replicates, resampling by resampling."""
    stack = list(replicates)
    return np.sum(stack, axis=0) / len(stack)


def ranked(found: Sequence[Board]) -> list[Board]:
    """The boards of which ranks may be claimed: generated tasks above the floor.

    Raises
    ------
    InputError
        Where there is none.
    """
    above = [board for board in found if board.axis != NATURAL and not board.floor]
    if not above:
        names = ", ".join(f"{b.model} {b.axis} {b.anchor:.3f}" for b in found)
        raise InputError(
            f"audit: no axis of any model has an anchor of {FLOOR} or more ({names}); no rank is claimed"
        )
    return above


def families(found: Sequence[Board]) -> Iterator[tuple[str, list[Board]]]:
    """The boards of each model, and of all where there are several."""
    names = list(dict.fromkeys(board.model for board in found))
    for name in names:
        yield name, [board for board in found if board.model == name]
    if len(names) > 1:
        yield ALL_MODELS, list(found)


def paired_note(found: Sequence[Board]) -> str:
    """What the interval columns are, or why they are empty, for captions."""
    draws = min(board.draws for board in found)
    if draws == 0:
        return f"none: a task has fewer than {FEWEST_DOCUMENTS} instances, or no resamplings were asked for"
    return f"{LEVEL:.0%} percentile, {draws} paired resamplings of instances within tasks"


def anchor_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """Scores of the full cache, which bound what any press can reach (arXiv 2607.11942, table 1).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model and axis: `tasks`, `instances`, `anchor` with `_low` and `_high` (agnostic arm,
        or the first there is), `floor` (below `FLOOR`: left out of rank claims), `interval`.

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`.
    """
    found = boards(audit, draws)
    return table(
        {
            "model": board.model,
            "axis": board.axis,
            "tasks": len(board.tasks),
            "instances": len(board.scores),
            **estimate("anchor", board.full[0]),
            "floor": board.floor,
            "interval": paired_note(found),
        }
        for board in found
    )


def cell_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """Every press in every cell, beside the best trivial press (the points of figure 1).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model, axis, arm, budget and label: `press, role, instances, anchor, floor`, `score`
        with `_low` and `_high`, `target` (label of the best trivial press), `gap` (paired, to the target)
        with `_low` and `_high`, and `wins` (the gap is positive; null in cells at the floor).

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where there is no trivial press.
    """
    return table(row for board in boards(audit, draws) for row in _cells(board))


def natural_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """The rows of `cell_table` on natural text (table 5 and figure 4); none where it was not audited."""
    return cell_table(audit, draws=draws).filter(pl.col("axis") == NATURAL)


def _cells(board: Board) -> Iterator[dict[str, Any]]:
    for a, arm in enumerate(board.arms):
        for b, budget in enumerate(board.budgets):
            for i, label in enumerate(board.labels):
                gap = board.gaps[a, b, i]
                yield {
                    "model": board.model,
                    "axis": board.axis,
                    "arm": arm,
                    "budget": budget,
                    "label": label,
                    "press": board.presses[i],
                    "role": board.roles[i],
                    "instances": len(board.scores),
                    "anchor": board.anchor,
                    "floor": board.floor,
                    **estimate("score", board.means[a, b, i]),
                    "target": board.labels[board.target[a, b]],
                    **estimate("gap", gap),
                    "wins": None if board.floor else bool(gap[0] > EQUAL),
                }


def _board(model: str, axis: str, part: pl.DataFrame, draws: int) -> Board:
    """The arrays of one model and axis; the gate has seen that they have no holes."""
    unit = ("task", "instance")
    keys = ("arm", "budget", "label")
    mean = part.group_by(*unit, *keys, maintain_order=True).agg(pl.col("score").mean())
    tasks = dict(part.group_by("task").agg(pl.col("instance").n_unique()).sort("task").iter_rows())
    arms = tuple(part["arm"].unique().sort())
    full = mean.filter(pl.col("label") == ANCHOR).sort(*unit, "arm")["score"].to_numpy()
    rest = mean.filter(pl.col("label") != ANCHOR)
    budgets = tuple(sorted(rest["budget"].unique(), key=budget_order))
    names = part.filter(pl.col("label") != ANCHOR).select("label", "press", "role").unique().sort("label")
    place = pl.col("budget").replace_strict(budgets, range(len(budgets)), return_dtype=pl.Int64)
    scores = rest.sort(*unit, "arm", place, "label")["score"].to_numpy()
    shape = (sum(tasks.values()), len(arms), len(budgets), names.height)
    return Board(
        model=model,
        axis=axis,
        arms=arms,
        budgets=budgets,
        labels=tuple(names["label"]),
        presses=tuple(names["press"]),
        roles=tuple(names["role"]),
        tasks=tasks,
        facts=tuple(part.select(*unit, "seed").unique().sort(unit).iter_rows()),
        scores=scores.reshape(shape),
        anchors=full.reshape(shape[:2]),
        draws=draws,
    )


def budget_order(budget: str) -> tuple[str, float]:
    """Sorts budgets by kind, then from the most kept to the least."""
    kind, _, value = budget.partition("=")
    number = float(value or 0)
    return kind, number if kind == "ratio" else -number
