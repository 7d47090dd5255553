"""SQL over a store, reading only."""

import re
from difflib import get_close_matches

import polars as pl
from polars.exceptions import ColumnNotFoundError, PolarsError

from ceiling.problem import InputError
from ceiling.store.reader import Store
from ceiling.store.schema import TABLES

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\w+|\S", re.DOTALL)
_WRITING = {"ALTER", "COPY", "CREATE", "DELETE", "DROP", "INSERT", "INTO", "TRUNCATE", "UPDATE"}


def run_sql(store: Store, sql: str) -> pl.DataFrame:
    """Run one SELECT or EXPLAIN over the tables of `store`.

    Raises
    ------
    InputError
        For anything that writes or reads other files, and for SQL that does not parse or names
        an unknown table or column.
    """
    _check_reading(sql)
    context = pl.SQLContext({name: store.table(name) for name in TABLES})
    try:
        return context.execute(sql, eager=False).collect(engine="streaming")
    except ColumnNotFoundError as error:
        raise InputError(f"sql: {_unknown_column(error)}") from None
    except PolarsError as error:
        tables = f"; tables: {', '.join(TABLES)}" if "relation" in str(error) else ""
        raise InputError(f"sql: {str(error).splitlines()[0]}{tables}") from None


def _check_reading(sql: str) -> None:
    tokens = [t for t in _TOKEN.findall(sql) if not t.startswith(("--", "/*"))]
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


def _unknown_column(error: ColumnNotFoundError) -> str:
    message = str(error).splitlines()[0]
    named = re.findall(r'"([^"]*)"', message)
    if not named:
        return message
    known = [column for schema in TABLES.values() for column in schema]
    near = list(dict.fromkeys(get_close_matches(named[0], known, n=3, cutoff=0.5)))
    return f"no column {named[0]!r}" + (f"; did you mean {', '.join(near)}?" if near else f"; {message}")
