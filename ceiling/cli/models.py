"""``ceiling models``: the models that come with the project."""

import typer


def models() -> None:
    """List the built-in models; --model also takes a local folder or a Hugging Face id."""
    from ceiling.models.built_in import converted_folder
    from ceiling.models.catalogue import BUILT_INS

    for built_in in BUILT_INS.values():
        folder = converted_folder(built_in)
        typer.echo(built_in.name)
        typer.echo(f"  family   {built_in.family}")
        typer.echo(f"  package  PyPI {built_in.package}=={built_in.version} ({built_in.megabytes} MB)")
        typer.echo(f"  file     {built_in.file}")
        typer.echo(f"  sha256   {built_in.sha256}")
        typer.echo(f"  licence  {built_in.licence}")
        typer.echo(f"  cached   {folder if folder.exists() else 'no; the first use downloads it'}")
