"""Sight: how visible the question is in each press's score, measured and beside the protocol's effect."""

from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_cells import DRAWS, resamplings
from ceiling.analysis.audit_gate import ANCHOR, ASKED, gate
from ceiling.analysis.audit_verdicts import AGNOSTIC, ALL_AXES, AWARE, column, verdict_table
from ceiling.analysis.bootstrap import FEWEST_DOCUMENTS, estimate
from ceiling.analysis.tables import table
from ceiling.kernels.paired import resampled_means
from ceiling.problem import InputError

SEES = {
    "snapkv": (3, "attention of the last window of queries: the question, as far as it fills the window"),
    "adakv": (3, "SnapKV's score, compared across heads"),
    "tova": (3, "attention of the last query: the question's last token"),
    "h2o": (2, "attention summed over all queries: the question's are few among them"),
    "expected_attention": (2, "statistics of all queries: the question's are few among them"),
    "keydiff": (1, "no query; the question's keys move the mean key direction a little"),
    "random": (0, "nothing"),
    "knorm": (0, "the key's own norm"),
    "streaming_llm": (0, "the position"),
}
"""What the score of a press reads in kvpress 0.5.5, and from it how visible the question is: 3 the last
queries, which are the question's, 2 all queries alike, 1 keys only, 0 nothing that a question adds."""


def visibility_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """How often the question changes what a press keeps of the context (arXiv 2607.11942, table 4).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
        With the arms agnostic and aware-scores, which keep equally many tokens of the same context.
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model and label, most visible first: `press, role`, `sight` and `sees` (see `SEES`; null
        for a press unknown there), mean `question_tokens`, `pairs` of records compared, and `seen`, the share
        of them whose kept sets differ, with `_low` and `_high` (instances resampled within tasks).

    Raises
    ------
    InputError
        See `ceiling.analysis.audit_gate.gate`; also where one of the two arms is missing.

    Notes
    -----
    The paper reads visibility from source code, as `SEES` does; `seen` checks it. One position of one head
    that changes makes a kept set another, so `seen` tells whether the score can see the question, not how
    much of it: a blind press has 0, most others are near 1. `sight_table` has the effect beside it.
    """
    frame = gate(audit).filter(pl.col("label") != ANCHOR)
    sides = [frame.filter(pl.col("arm") == arm) for arm in (AGNOSTIC, AWARE[0])]
    if any(side.is_empty() for side in sides):
        raise InputError(f"audit: visibility needs the arms {AGNOSTIC} and {AWARE[0]}")
    keys = ("model", "label", "budget", *ASKED)
    both = sides[0].join(sides[1].select(*keys, other="kept_id"), on=keys, maintain_order="left")
    changed = both.with_columns(changed=pl.col("kept_id") != pl.col("other"))
    rows = []
    for (model, label), part in changed.partition_by("model", "label", as_dict=True).items():
        first = part.row(0, named=True)
        rows.append(
            {
                **{"model": model, "label": label, "press": first["press"], "role": first["role"]},
                **dict(zip(("sight", "sees"), SEES.get(first["press"], (None, None)), strict=True)),
                "question_tokens": part["question_tokens"].mean(),
                **{"pairs": part.height, **_share(part, draws)},
            }
        )
    order = ["model", "sight", "seen", "label"]
    return table(rows).sort(order, descending=[False, True, True, False], nulls_last=True)


def _share(part: pl.DataFrame, draws: int) -> dict[str, Any]:
    units = (
        part.group_by("task", "instance").agg(pl.col("changed").mean(), n=pl.len()).sort("task", "instance")
    )
    tasks = dict(units.group_by("task").len().sort("task").iter_rows())
    draws = draws if min(tasks.values()) >= FEWEST_DOCUMENTS else 0
    changed = np.ascontiguousarray(units["changed"].to_numpy()[:, None])
    return estimate("seen", resampled_means(changed, resamplings(tasks, draws))[0])


def sight_table(audit: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS) -> pl.DataFrame:
    """The protocol's effect on every press, largest first, beside the question's visibility (figure 3).

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
    draws : int

    Returns
    -------
    polars.DataFrame
        One row per model (and all of them, where there are several), reading of aware and label: `press,
        role`, `delta` with `_low` and `_high` (of `ceiling.analysis.audit_verdicts.verdict_table`), `sight`
        (see `SEES`), and the model's `seen`, null where several are pooled or an arm is missing.

    Raises
    ------
    InputError
        Where no reading of aware stands beside agnostic; see also
        `ceiling.analysis.audit_verdicts.verdict_table`.
    """
    frame = audit.lazy().collect()
    verdicts = verdict_table(frame, draws=draws).filter(axis=ALL_AXES)
    parts = []
    for arm in AWARE:
        delta = f"delta_{column(arm)}"
        ends = {f"delta{end}": pl.col(f"{delta}{end}") for end in ("", "_low", "_high")}
        rows = verdicts.filter(pl.col(delta).is_not_null())
        parts.append(rows.select("model", "label", "press", "role", reading=pl.lit(arm), **ends))
    levels = {press: level for press, (level, _) in SEES.items()}
    sight = pl.col("press").replace_strict(levels, default=None, return_dtype=pl.Int64)
    both = pl.concat(parts).with_columns(sight=sight)
    if both.is_empty():
        raise InputError(
            f"audit: no press in both {AGNOSTIC} and one of {', '.join(AWARE)}; what the question's sight "
            "does needs two arms"
        )
    if {AGNOSTIC, AWARE[0]} <= set(frame["arm"].unique()):
        seen = visibility_table(frame, draws=0).select("model", "label", "seen")
        both = both.join(seen, on=("model", "label"), how="left", maintain_order="left")
    else:
        both = both.with_columns(seen=pl.lit(None, pl.Float64))
    return both.sort("model", "reading", "delta", "label", descending=[False, True, True, False])
