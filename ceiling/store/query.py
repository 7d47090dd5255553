"""SQL over a store, reading only."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

import polars as pl
from polars.exceptions import ColumnNotFoundError, PolarsError

from ceiling.problem import InputError
from ceiling.store.reader import Store
from ceiling.store.schema import TABLES

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\w+|\S", re.DOTALL)
_WRITING = {"ALTER", "COPY", "CREATE", "DELETE", "DROP", "INSERT", "INTO", "TRUNCATE", "UPDATE"}

View = Callable[[pl.LazyFrame, pl.LazyFrame], pl.LazyFrame]
"""What makes a named frame of the store's `instances` and `documents`."""

_OF_VIEWS = ("instances", "documents")


def run_sql(
    store: Store, sql: str, views: Mapping[str, View] | None = None, *, explain: bool = False
) -> pl.DataFrame:
    """Run one SELECT or EXPLAIN over the tables of `store`.

    Parameters
    ----------
    store : Store
    sql : str
        In polars' dialect.
    views : mapping of str to function, optional
        Names usable like tables; a function is called, with the tables `instances` and `documents`,
        only for a name that the SQL holds.
    explain : bool
        Return the optimised plan, as EXPLAIN before the SQL does, and read nothing (but see the views).

    Raises
    ------
    InputError
        For anything that writes or reads other files, and for SQL that does not parse or names
        an unknown table or column.
    """
    tokens = _tokens(sql)
    _check_reading(tokens)
    if explain and tokens[0].upper() != "EXPLAIN":
        sql = f"EXPLAIN {sql}"
    views = {} if views is None else views
    frames = _frames(store, views, {token.strip('"`') for token in tokens})
    try:
        return pl.SQLContext(frames).execute(sql, eager=False).collect(engine="streaming")
    except PolarsError as error:
        raise InputError(f"sql: {_explained(error, frames, [*TABLES, *views])}") from None


def _frames(store: Store, views: Mapping[str, View], named: set[str]) -> dict[str, pl.LazyFrame]:
    """What `named` needs; its views and `instances` see the same shards, also while the store grows."""
    made = {name: view for name, view in views.items() if name in named}
    tables = {name: store.table(name) for name in TABLES if name in named or (made and name in _OF_VIEWS)}
    frames = {name: frame for name, frame in tables.items() if name in named}
    return frames | {name: view(*(tables[t] for t in _OF_VIEWS)) for name, view in made.items()}


def _tokens(sql: str) -> list[str]:
    return [t for t in _TOKEN.findall(sql) if not t.startswith(("--", "/*"))]


def _check_reading(tokens: list[str]) -> None:
    words = [t.upper() for t in tokens]
    if not words:
        raise InputError("sql: empty; write a SELECT")
    if words[0] not in {"SELECT", "WITH", "EXPLAIN"}:
        raise InputError(f"sql: {tokens[0]} is refused; a query starts with SELECT, WITH or EXPLAIN")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in _WRITING:
            raise InputError(f"sql: {word} is refused; the store is read, never written, by SQL")
        if following == "(" and word.strip('"`').startswith(("READ_", "SCAN_")):
            raise InputError(f"sql: {word.lower()}() is refused; only the tables of the store are read")
    if ";" in words[:-1]:
        raise InputError("sql: several statements; write one")


def _explained(error: PolarsError, frames: Mapping[str, pl.LazyFrame], tables: list[str]) -> str:
    """One line: an unknown name with its nearest, else the first line of what polars says."""
    message = str(error).splitlines()[0]
    quoted = re.search(r"""(["'])(.*?)\1""", message)
    if quoted is None:
        return message
    name = quoted[2]
    if message.startswith("relation "):
        return f"no table {name!r}{_nearest(name, 'tables', tables)}"
    columns = list(dict.fromkeys(c for frame in frames.values() for c in frame.collect_schema()))
    about_columns = isinstance(error, ColumnNotFoundError) or re.search(r"column named|GROUP BY", message)
    if about_columns and name not in columns:
        return f"no column {name!r}{_nearest(name, 'columns', columns)}"
    return message


def _nearest(name: str, kind: str, known: list[str]) -> str:
    if not known:
        return ""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(near)}?" if near else f"; {kind}: {', '.join(known)}"
