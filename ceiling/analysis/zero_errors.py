"""The zero-error question on rounded rows: answers and solving times by keys, bits and engine."""

import polars as pl

from ceiling.problem import InputError, Status

COLUMNS = (
    "model",
    "text_id",
    "layer",
    "head",
    "position",
    "s",
    "bits",
    "dump",
    "document",
    "rounded_keys",
    "status",
    "engine",
    "seconds",
)
"""The columns of table `zero_errors` that the analysis reads."""

ANSWERS = (Status.YES, Status.NO, Status.UNKNOWN)


def answer_table(zero_errors: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """How the questions of every model and number of bits ended.

    Parameters
    ----------
    zero_errors : polars.DataFrame or LazyFrame
        The store's table of that name.

    Returns
    -------
    polars.DataFrame
        One row per model and `bits`: `documents`, `n` questions that are none of the `trivial` ones (at
        most s keys are left), `yes`, `no`, `unknown`, the median and largest number of `keys` left, and
        `seconds` of all.

    Raises
    ------
    InputError
        Empty frame or missing column.
    """
    trivial = pl.col("status") == Status.TRIVIAL
    return (
        _checked(zero_errors)
        .group_by("model", "bits")
        .agg(
            documents=pl.coalesce("text_id", pl.format("{} {}", "dump", "document"))
            .n_unique()
            .cast(pl.Int64),
            n=(~trivial).sum().cast(pl.Int64),
            trivial=trivial.sum().cast(pl.Int64),
            **_answers(),
            keys=pl.col("rounded_keys").filter(~trivial).median(),
            keys_max=pl.col("rounded_keys").filter(~trivial).max(),
            seconds=pl.col("seconds").filter(~trivial).sum(),
        )
        .sort("model", "bits")
    )


def solving_times(zero_errors: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Seconds of a question by the keys m that rounding leaves, the bits, and the engine that ended it.

    Returns
    -------
    polars.DataFrame
        One row per model, `bits`, `engine` and range of m: `m_from`, `m_to` (keys, powers of two: 9 to 16,
        17 to 32, ...), `n`, `yes`, `no`, `unknown`, and of the seconds `seconds` (median), `seconds_p90`,
        `seconds_max`. Trivial questions are left out; an unknown one counts with the time it was given.

    Raises
    ------
    InputError
        Empty frame or missing column, or nothing but trivial questions.
    """
    frame = _checked(zero_errors).filter(pl.col("status") != Status.TRIVIAL)
    if frame.is_empty():
        raise InputError("zero_errors: all are trivial; ask with more --bits, which leave more keys")
    # m - 1/2 lies strictly between powers of two: no rounding of a logarithm moves it across one
    top = pl.lit(2.0).pow((pl.col("rounded_keys") - 0.5).log(2).floor() + 1).cast(pl.Int64)
    return (
        frame.with_columns(m_to=top)
        .group_by("model", "bits", "engine", "m_to")
        .agg(
            n=pl.len().cast(pl.Int64),
            **_answers(),
            seconds=pl.col("seconds").median(),
            seconds_p90=pl.col("seconds").quantile(0.9, "linear"),
            seconds_max=pl.col("seconds").max(),
        )
        .with_columns(m_from=pl.col("m_to") // 2 + 1)
        .select(
            "model",
            "bits",
            "engine",
            "m_from",
            "m_to",
            pl.exclude("model", "bits", "engine", "m_from", "m_to"),
        )
        .sort("model", "bits", "engine", "m_to")
    )


def _answers() -> dict[str, pl.Expr]:
    return {str(answer): (pl.col("status") == answer).sum().cast(pl.Int64) for answer in ANSWERS}


def _checked(zero_errors: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The columns read; a row of one text that several dumps of a model hold counts once."""
    lazy = zero_errors.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(f"zero_errors: no column {missing[0]!r}; expected those of the store's zero_errors")
    frame = lazy.select(COLUMNS).collect()
    if frame.is_empty():
        raise InputError("zero_errors: the store holds none; run `ceiling zero-error` on a dump first")
    repeated = pl.col("text_id").is_not_null() & ~pl.struct(COLUMNS[:7]).is_first_distinct()
    return frame.filter(~repeated)
