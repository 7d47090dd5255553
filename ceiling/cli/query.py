"""``ceiling query``: SQL over a store."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.options import ConfigOption, ReadStoreOption
from ceiling.problem import InputError

if TYPE_CHECKING:
    import polars as pl


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"


def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="One SELECT over the tables instances, certificates, zero_errors, scores, "
            "losses, audit, audit_ceilings, documents, rows and the views ceiling, cells, profile, "
            "prediction, fits."
        ),
    ],
    store: ReadStoreOption = "store",
    format: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.TABLE,
    config: ConfigOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the optimised plan instead of running it.")
    ] = False,
) -> None:
    """Ask the store a question in SQL (polars dialect, reading only).

    Example: ceiling query --store demo/store "SELECT model, s, n, closable FROM ceiling ORDER BY model, s".
    More in QUERIES.md.
    """
    from ceiling.analysis.views import VIEWS
    from ceiling.store import open_store, run_sql

    if format is Format.PARQUET and sys.stdout.isatty():
        raise InputError("format: parquet is binary; redirect it, e.g. > result.parquet")
    frame = run_sql(open_store(store, config), sql, VIEWS, explain=explain)
    if format is Format.PARQUET:
        frame.write_parquet(sys.stdout.buffer)
    else:
        typer.echo(as_text(frame, format), nl=False)


def as_text(frame: "pl.DataFrame", format: Format = Format.TABLE) -> str:
    """The whole frame, however long and wide, and a newline; of bytes, how many they are."""
    import polars as pl
    import polars.selectors as cs

    frame = frame.with_columns(pl.format("{} bytes", cs.binary().bin.size()).name.keep())
    if format is Format.CSV:
        lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
        return frame.with_columns(pl.col(lists).cast(pl.List(pl.String)).list.join(" ")).write_csv()
    if format is Format.JSON:
        return frame.write_json() + "\n"
    if frame.columns == ["Logical Plan"]:  # EXPLAIN
        return "\n".join(frame.to_series()) + "\n"
    with pl.Config(
        tbl_formatting="ASCII_MARKDOWN" if format is Format.MARKDOWN else "UTF8_FULL_CONDENSED",
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=65_535,
        fmt_str_lengths=1_000,
        fmt_table_cell_list_len=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
    ):
        return f"{frame}\n"
