"""Options that several commands share, spelled the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from ceiling.problem import InputError

DumpOption = Annotated[Path, typer.Option("--dump", help="Folder written by `ceiling capture`.")]
StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the result store.")]
ReadStoreOption = Annotated[
    str, typer.Option("--store", help="Folder of the result store, or the URI of a copy (s3://...).")
]
ConfigOption = Annotated[
    str | None, typer.Option("--config", help="Read one configuration, where the store holds several.")
]
BudgetsOption = Annotated[str, typer.Option("--budgets", help="Keys kept: whole numbers, comma-separated.")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="First compare the dump's files with their recorded SHA-256.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print units, bytes and a time estimate; do nothing.")
]


def whole_numbers(field: str, text: str) -> list[int]:
    """Comma-separated whole numbers, or `InputError` naming `field` and the part that is none."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.removeprefix("-").isdecimal():
            raise InputError(f"{field}: {part!r} is not a whole number; write them out, separated by commas")
    return [int(part) for part in parts]
