"""The command line: parse, call a stage, print."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from ceiling.cli import (
    audit,
    capture,
    certify,
    demo,
    enumerate,
    figures,
    gallery,
    loss,
    models,
    query,
    score,
    selectors,
    store,
    sweep,
    zero_error,
)
from ceiling.problem import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("selectors")(selectors.selectors)
app.command("capture")(capture.capture)
app.command("enumerate")(enumerate.enumerate_dump)
app.command("certify")(certify.certify)
app.command("score")(score.score)
app.command("loss")(loss.loss)
app.command("audit")(audit.audit)
app.command("query")(query.query)
app.command("figures")(figures.figures)
app.command("gallery")(gallery.gallery)
app.command("sweep")(sweep.sweep)
app.command("zero-error")(zero_error.zero_error)
app.add_typer(store.app, name="store")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(version("ceiling"))
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """How much could any better choice of kept keys still win over keeping the largest attention weights?

    The main job: capture attention from a model, enumerate kept sets exactly, draw the figures.
    `ceiling demo` does all three. Exit codes: 0 done, 1 failed, 2 bad usage or input, 130 interrupted.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. ``--debug`` is understood anywhere."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        code = app([a for a in arguments if a != "--debug"], prog_name="ceiling", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if debug:
            raise
        typer.echo(f"ceiling: {_one_line(error)}", err=True)
        return 2 if isinstance(error, InputError) else getattr(error, "exit_code", 1)
    if code == 130:
        typer.echo("ceiling: interrupted; what was finished is kept, the same command continues", err=True)
    return code if isinstance(code, int) else 0


def _one_line(error: Exception) -> str:
    """The error in one line; usage errors know how to word themselves."""
    message = str(error)
    if hasattr(error, "format_message"):
        message = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(message.split())
    if isinstance(error, InputError | OSError) or hasattr(error, "exit_code"):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (--debug shows where)"
