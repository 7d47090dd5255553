"""`ceiling figures`: run the figure scripts on a store."""

import argparse
import runpy
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ceiling.cli.options import ConfigOption, ReadStoreOption
from ceiling.problem import InputError

NO_AUDITS = "run `ceiling audit`"
"""What a store without audits is told, in every reason that is no other."""


def figures(
    store: ReadStoreOption = "store",
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("figures-out"),
    only: Annotated[str | None, typer.Option(help="Names, comma-separated; all if absent.")] = None,
    config: ConfigOption = None,
    text: Annotated[
        str | None, typer.Option(help="Count this text's rows; if absent all but code and tasks.")
    ] = None,
) -> None:
    """Draw a store's figures: PNG, PDF, the numbers beside the paper's as CSV and Markdown, a finding."""
    there = scripts()
    names = list(there) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in there:
            raise InputError(f"only: no figure {name!r}; there are {', '.join(there)}")
    arguments = ["--out", str(out), *_chosen(str(store), config, text)]
    refused: dict[str, list[str]] = {}  # reasons, and the figures they stand against
    for name in dict.fromkeys(names):
        try:
            # Run as files, not imported: they stand above the package, which must not know them.
            runpy.run_path(str(there[name]))["main"](arguments)
        except InputError as error:
            if (finding := out / f"{name}.json").is_file():
                finding.unlink()  # no gallery shows an earlier run's finding
            if only is not None or str(error).startswith("out: "):
                raise
            refused.setdefault(str(error), []).append(name)
    if sum(map(len, refused.values())) == len(there):
        raise InputError(min(refused, key=_rank))
    for reason, without in refused.items():
        are = "is" if len(without) == 1 else "are"
        stale = [name for name in without if (out / f"{name}.png").exists()]
        earlier = f"; in {out}, {', '.join(stale)} is an earlier run's" if stale else ""
        typer.echo(f"{', '.join(without)} {are} not drawn: {reason}{earlier}", err=True)


def _rank(said: str) -> tuple[bool, bool, bool]:
    """Which of the reasons for drawing nothing is told: what is wrong with the store as a whole; then with
    audits that it does hold, then that it has no instances, on which all other tables rest."""
    audits = said.startswith("audit: ") and NO_AUDITS not in said
    return not said.startswith("store:"), not audits, not said.startswith("instances:")


def arguments(description: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse what every figure script takes: ``--store``, ``--out``, ``--config`` and ``--text``.

    `command` of what is returned draws the figures of the same store; `ceiling.plots.write`, which knows
    the figure's name, adds ``--only``.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--store", required=True, help="folder of the store, or the URI of a copy")
    parser.add_argument("--out", type=Path, default=Path("figures-out"), help="folder to write into")
    parser.add_argument("--config", help="one configuration, where the store holds several")
    parser.add_argument("--text", help="count this text's rows; if absent all but code and tasks")
    args = parser.parse_args(argv)
    args.command = shlex.join(["ceiling", "figures", *_chosen(args.store, args.config, args.text)])
    return args


def _chosen(store: str, config: str | None, text: str | None) -> list[str]:
    """Options as they are written on the command line, without those that were not given."""
    given = (("--store", store), ("--config", config), ("--text", text))
    return [word for option, value in given if value is not None for word in (option, value)]


def scripts() -> dict[str, Path]:
    """The figure scripts, by the names of their figures."""
    return {path.stem: path for path in sorted(scripts_folder().glob("*.py")) if path.stem[0] != "_"}


def scripts_folder() -> Path:
    """Where the figure scripts and their reference data are: in the wheel, or beside the package.

    Raises
    ------
    FileNotFoundError
        Neither place has them.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "figures", package.parent / "figures"):
        if (folder / "reference").is_dir():
            return folder
    raise FileNotFoundError(f"figures: no scripts in {package} or beside it; install the package again")
