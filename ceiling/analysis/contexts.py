"""Contexts: which text the rows of a store were captured on, and which texts a table counts."""

import difflib

import polars as pl

from ceiling.problem import InputError

TASKS = "task:"
"""How the names of task-structured contexts begin."""

ASIDE = ("python-code",)
"""Texts that, like tasks, are counted only where they are asked for: the paper's headline numbers are of
prose, and code is a row of its content table."""

PAPERS_TOKENS = 4096
"""Tokens of the shortest contexts of arXiv 2608.25230."""

UNKNOWN = "unknown text"
"""What a dump is called that the table of documents does not name."""


def context(documents: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The text of every dump.

    Parameters
    ----------
    documents : polars.DataFrame or LazyFrame
        The store's `documents`.

    Returns
    -------
    polars.DataFrame
        `dump, text`, one row a dump, sorted.
    """
    return documents.lazy().select("dump", "text").drop_nulls().unique("dump").sort("dump", "text").collect()


def of_text(
    frame: pl.DataFrame | pl.LazyFrame, documents: pl.DataFrame | pl.LazyFrame, text: str | None = None
) -> pl.LazyFrame:
    """The rows of one text.

    Parameters
    ----------
    frame : polars.DataFrame or LazyFrame
        Any table of the store that has a column `dump`.
    documents : polars.DataFrame or LazyFrame
        The store's `documents`, which say what text a dump is of.
    text : str, optional
        The text's name, e.g. ``python-docs`` or ``task:needle``. None is the main text: every text but
        `ASIDE` and the tasks, or all where nothing is left. A dump of unknown text belongs to the main text.

    Returns
    -------
    polars.LazyFrame

    Raises
    ------
    InputError
        When the store has no dump of this text; near names are listed.
    """
    dumps = context(documents)
    if text is None:
        left_out = dumps.filter(_is_aside())["dump"].to_list()
        main = frame.lazy().filter(~pl.col("dump").is_in(left_out))
        return main if left_out and main.head(1).collect().height else frame.lazy()
    wanted = dumps.filter(text=text)["dump"].to_list()
    if not wanted:
        there = dumps["text"].unique().sort().to_list()
        near = ", ".join(difflib.get_close_matches(text, there, cutoff=0.4) or there) or "none is recorded"
        raise InputError(f"text: no dump of this store is of {text!r} (texts: {near})")
    return frame.lazy().filter(pl.col("dump").is_in(wanted))


def by_context(
    frame: pl.DataFrame | pl.LazyFrame, documents: pl.DataFrame | pl.LazyFrame
) -> dict[str, pl.DataFrame]:
    """The rows of every text, by its name: the main texts first, each part in alphabetic order.

    Parameters
    ----------
    frame, documents
        As in `of_text`.

    Returns
    -------
    dict of str to polars.DataFrame
        Rows of dumps that `documents` does not name stand under `UNKNOWN`.
    """
    text = pl.col("text").fill_null(UNKNOWN)
    rows = frame.lazy().join(context(documents).lazy(), on="dump", how="left", maintain_order="left")
    parts = rows.with_columns(text).collect().partition_by("text", as_dict=True, include_key=False)
    names = pl.DataFrame({"text": [str(name) for (name,) in parts]}, schema={"text": pl.String})
    return {name: parts[(name,)] for name in names.sort(_is_aside(), "text")["text"]}


def texts_note(
    frame: pl.DataFrame | pl.LazyFrame, documents: pl.DataFrame | pl.LazyFrame, text: str | None = None
) -> str:
    """Which texts the rows of `of_text(frame, documents, text)` are of, and which are left out, in words."""
    counted = of_text(frame, documents, text)
    there = _lengths(counted, documents)["text"]
    left_out = [name for name in _lengths(frame, documents)["text"] if name not in there]
    note = f"Text: {lengths_note(counted, documents)}."
    return note + (f" Left out: {', '.join(left_out)} (`--text NAME` counts another)." if left_out else "")


def lengths_note(frame: pl.DataFrame | pl.LazyFrame, documents: pl.DataFrame | pl.LazyFrame) -> str:
    """The texts of the rows and how long their documents are, in words, or "none".

    Parameters
    ----------
    frame, documents
        As in `of_text`; of the documents, those that `frame` has rows of are counted.
    """
    parts, shorter = [], False
    for name, least, most in _lengths(frame, documents).iter_rows():
        if least is None:
            parts.append(name)
            continue
        tokens = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        parts.append(f"{name}, {tokens} tokens a document")
        shorter |= least < PAPERS_TOKENS
    paper = f" (the paper's: {PAPERS_TOKENS:,} and more: budgets are a larger share of ours)"
    return ("; ".join(parts) or "none") + (paper if shorter else "")


def _lengths(frame: pl.DataFrame | pl.LazyFrame, documents: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """`text, least, most` of the rows, sorted: tokens of their documents, null where none is recorded."""
    where = ("dump", "document")
    tokens = documents.lazy().select(*where, "tokens").unique(where)
    return (
        frame.lazy()
        .select(where)
        .unique()
        .join(context(documents).lazy(), on="dump", how="left")
        .join(tokens, on=where, how="left")
        .group_by(pl.col("text").fill_null(UNKNOWN))
        .agg(least=pl.col("tokens").min(), most=pl.col("tokens").max())
        .sort("text")
        .collect()
    )


def _is_aside() -> pl.Expr:
    return pl.col("text").is_in(ASIDE) | pl.col("text").str.starts_with(TASKS)
