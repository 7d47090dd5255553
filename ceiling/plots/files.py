"""Files of a figure: one name, four forms, each whole or absent, the same bytes every time."""

import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from ceiling import durable
from ceiling.plots.style import style
from ceiling.problem import InputError

METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What the formats would otherwise record: when and with which version a file was made."""


def write(
    out: Path,
    name: str,
    figure: Figure,
    data: pl.DataFrame,
    caption: str,
    tables: Mapping[str, pl.DataFrame],
) -> list[Path]:
    """Write `name`.png, .pdf, .csv and .md into the folder `out`.

    Parameters
    ----------
    out : Path
        Made when absent.
    name : str
        Without a suffix.
    figure : matplotlib.figure.Figure
    data : polars.DataFrame
        What is drawn, for the CSV file; nulls are empty fields.
    caption : str
        Begins the Markdown file.
    tables : mapping of str to polars.DataFrame
        Headings and tables of the Markdown file.

    Returns
    -------
    list of Path

    Raises
    ------
    InputError
        `out` cannot be made or written to.
    OSError
        Anything later, such as a full disk; no half-written file stays.
    """
    contents = {".png": _image(figure, "png"), ".pdf": _image(figure, "pdf")}
    contents[".csv"] = data.write_csv().encode()
    sections = (f"## {heading}\n\n{markdown(table)}" for heading, table in tables.items())
    parts = [f"![{name}]({name}.png)", caption, *sections]
    contents[".md"] = ("\n\n".join(parts) + "\n").encode()
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"out: {out} is no folder that can be written to ({error.strerror})") from None
    return [_written(out / f"{name}{suffix}", content) for suffix, content in contents.items()]


def markdown(frame: pl.DataFrame) -> str:
    """`frame` as a Markdown table: four significant digits, an en dash for null."""
    head = f"| {' | '.join(frame.columns)} |\n|{'---|' * frame.width}"
    rows = ("| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.iter_rows())
    return "\n".join([head, *rows])


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _image(figure: Figure, kind: str) -> bytes:
    buffer = BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata=METADATA[kind])
    return buffer.getvalue()


def _written(path: Path, content: bytes) -> Path:
    try:
        durable.write(path, content)
    except OSError as error:
        raise OSError(error.errno, f"out: cannot write {path} ({error.strerror})") from error
    return path
