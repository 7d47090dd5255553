"""Gates of the audit: what a table of records must be before anything is claimed of it."""

from collections.abc import Iterator

import polars as pl

from ceiling.problem import InputError

ANCHOR = "full"
"""The press that keeps everything: what a cell can reach at all."""

LISTED = 12
"""Problems (count) named in one refusal; the rest are counted."""

ASKED = ("task", "instance", "question")
"""What is answered: one question about one instance."""

RUN = ("arm", "label", "budget")
"""By whom: one press at one budget in one arm."""

COLUMNS = (
    *("model", "backend", "dtype", "versions", "seed", "axis", *ASKED),
    *("arm", "press", "parameters", "budget", "role"),
    *("score", "status", "truncated"),
    *("prompt_tokens", "context_tokens", "question_tokens", "prefix_tokens", "room_tokens"),
    *("nominal_bytes", "held_bytes", "full_bytes", "begin_bytes", "kept_id", "seconds"),
)
"""The columns of the table that the analysis reads."""

_SAME = (
    *("versions", "seed", "axis"),
    *("prompt_tokens", "context_tokens", "question_tokens", "prefix_tokens", "room_tokens"),
)
"""What all records of one question of a model agree in: else a difference is not the press's alone."""


def gate(audit: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The records, if one ranking may be made of them.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame
        The store's `audit`.

    Returns
    -------
    polars.DataFrame
        `COLUMNS` and `label` (press, and its parameters after a colon), sorted by what tells records apart.

    Raises
    ------
    InputError
        With a list, where the table is empty or lacks a column; has records that are not finite; mixes
        backends or dtypes; has a record twice; lacks one: every press must have answered the same
        questions of the same instances at every budget in every arm of its model, every task have the same
        instances; lacks the anchor; or where one question was put in unequal prompts or answer rooms, under
        unequal seeds or by unequal versions of the libraries.

    Notes
    -----
    The coverage check of arXiv 2607.11942, section 3.4, which found 331 holes; its backend control,
    section 6.2, moved scores by more than most presses differ, so no ranking crosses backends here.
    """
    frame = records(audit)
    for column in ("backend", "dtype"):
        if len(found := frame[column].unique().sort().to_list()) > 1:
            raise InputError(
                f"audit: records of {column}s {', '.join(found)}; no ranking is made across them: choose one"
            )
    return frame


def records(audit: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The records as `gate` returns them, each backend and dtype whole in itself, but maybe several."""
    lazy = audit.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(f"audit: no column {missing[0]!r}; expected the columns of the store's audit")
    label = (
        pl.when(pl.col("parameters") == "").then("press").otherwise(pl.format("{}:{}", "press", "parameters"))
    )
    frame = lazy.select(COLUMNS).with_columns(label=label).collect()
    if frame.is_empty():
        raise InputError("audit: the store holds no records; run `ceiling audit` first")
    problems = list(_problems(frame))
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise InputError(f"audit: not one whole grid: {'; '.join(problems[:LISTED])}{more}")
    return frame.sort("model", "backend", "dtype", *RUN, *ASKED)


def _problems(frame: pl.DataFrame) -> Iterator[str]:
    """Everything that is wrong, in words."""
    wrong = ~pl.col("score").is_between(0, 1).fill_null(False) | (pl.col("status") != "answered")
    for row in frame.filter(wrong).iter_rows(named=True):
        yield f"{_name(row)} has no score (status {row['status']}, score {row['score']})"
    identity = ("model", "backend", "dtype", *RUN, *ASKED)
    twice = frame.group_by(identity, maintain_order=True).len().filter(pl.col("len") > 1)
    for row in twice.iter_rows(named=True):
        yield f"{_name(row)} stands there {row['len']} times"
    for _, part in frame.group_by("model", "backend", "dtype", maintain_order=True):
        yield from _uneven(part)
        yield from _holes(part)


def _uneven(part: pl.DataFrame) -> Iterator[str]:
    """Questions that were not put alike to all presses."""
    kinds = part.group_by(ASKED, maintain_order=True).agg(pl.col(_SAME).n_unique(), pl.col("model").first())
    for name in _SAME:
        for row in kinds.filter(pl.col(name) > 1).iter_rows(named=True):
            yield (
                f"model {row['model']}, task {row['task']}, instance {row['instance']}, question "
                f"{row['question']} has {row[name]} different {name}"
            )


def _holes(part: pl.DataFrame) -> Iterator[str]:
    """Records of one model on one backend that should be there and are not."""
    arms, asked = part.select("arm").unique(), part.select("task", "question").unique()
    asked = asked.join(part.select("instance").unique(), how="cross")  # every task has the same instances
    presses = part.filter(pl.col("label") != ANCHOR)
    runs = presses.select("label").unique().join(presses.select("budget").unique(), how="cross")
    full = part.filter(pl.col("label") == ANCHOR).select("label", "budget").unique()
    where = part.select("model", "backend").row(0, named=True)
    if full.is_empty():
        yield f"model {where['model']} on {where['backend']} has no records of the anchor {ANCHOR}"
    runs = arms.join(pl.concat([runs, full]), how="cross")
    lost = runs.join(part.select(RUN).unique(), on=RUN, how="anti")
    for row in lost.sort(RUN).iter_rows(named=True):
        yield f"model {where['model']}, arm {row['arm']} has no record of {row['label']} at {row['budget']}"
    there = runs.join(lost, on=RUN, how="anti").join(asked, how="cross")
    for row in there.join(part, on=(*RUN, *ASKED), how="anti").sort(*RUN, *ASKED).iter_rows(named=True):
        yield f"{_name(where | row)} is missing"


def _name(row: dict[str, object]) -> str:
    return (
        f"model {row['model']} on {row['backend']}, arm {row['arm']}, {row['label']} at {row['budget']}, "
        f"task {row['task']}, instance {row['instance']}, question {row['question']}"
    )


def length_table(audit: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """How long prompts were in the model's own tokens, and how many answers their room cut short.

    Parameters
    ----------
    audit : polars.DataFrame or LazyFrame

    Returns
    -------
    polars.DataFrame
        One row per model, axis, task and arm: `records`, `prompt_min`, `prompt_max`, `question_min`,
        `question_max`, `room_max` (tokens), `truncated` (records whose room ended the answer),
        `truncated_share`, and `anchor_truncated`, the same share of the anchor's answers: what the task and
        not a press does.

    Raises
    ------
    InputError
        See `gate`.

    Notes
    -----
    A prompt with its room never exceeds the tokens asked for nor the model's positions: such an audit is
    refused before it starts (arXiv 2607.11942, section 6.3, where 7 of 13 tasks were zeroed silently).
    """
    anchor = pl.col("truncated").filter(pl.col("label") == ANCHOR)
    return (
        gate(audit)
        .group_by("model", "axis", "task", "arm")
        .agg(
            records=pl.len(),
            prompt_min=pl.col("prompt_tokens").min(),
            prompt_max=pl.col("prompt_tokens").max(),
            question_min=pl.col("question_tokens").min(),
            question_max=pl.col("question_tokens").max(),
            room_max=pl.col("room_tokens").max(),
            truncated=pl.col("truncated").sum(),
            truncated_share=pl.col("truncated").mean(),
            anchor_truncated=anchor.mean(),
        )
        .sort("model", "axis", "task", "arm")
    )
