"""Files of a figure: one name, several forms, each whole or absent, the same bytes every time."""

import json
import os
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from ceiling import durable
from ceiling.analysis.finding import Finding
from ceiling.plots.gallery import Card
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
    finding: Finding | None = None,
    command: str = "",
) -> list[Path]:
    """Write `name`.png, .pdf, .csv and .md, and of a finding .json, into the folder `out`.

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
        Begins the Markdown file; what it begins with in bold is the title.
    tables : mapping of str to polars.DataFrame
        Headings and tables of the Markdown file.
    finding : Finding, optional
        For the JSON file, a `ceiling.plots.gallery.Card`.
    command : str
        Draws figures of the same store, as `ceiling.cli.figures.arguments` has it; ``--only`` is added.

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
    if finding is not None:
        card = Card(_title(caption, name), *finding, command=f"{command} --only {name}")
        contents[".json"] = (json.dumps(card._asdict(), ensure_ascii=False, indent=2) + "\n").encode()
    return put(out, {f"{name}{suffix}": content for suffix, content in contents.items()})


def put(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files, each whole or absent, into a folder that is made when absent; raises as `write` does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"out: {folder} is no folder that can be written to ({error.strerror})") from None
    return [_written(folder / name, content) for name, content in contents.items()]


def markdown(frame: pl.DataFrame) -> str:
    """`frame` as a Markdown table: four significant digits, an en dash for null."""
    head = f"| {' | '.join(frame.columns)} |\n|{'---|' * frame.width}"
    rows = ("| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.iter_rows())
    return "\n".join([head, *rows])


def _title(caption: str, name: str) -> str:
    """The bold head of a caption, without its full stop; `name` where there is none."""
    head = re.match(r"\*\*(.+?)\.?\*\*", caption, re.DOTALL)
    return " ".join(head[1].split()) if head else name


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
