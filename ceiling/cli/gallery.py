"""`ceiling gallery`: one page of all figures that were drawn, with what each found."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.figures import scripts
from ceiling.problem import InputError

if TYPE_CHECKING:
    from ceiling.plots.gallery import Card


def gallery(
    figures: Annotated[list[Path], typer.Option("--figures", help="Folder of drawn figures; repeatable.")],
    out: Annotated[Path, typer.Option(help="Folder for README.md and gallery/.")] = Path("figures"),
) -> None:
    """Write a page of drawn figures: thumbnail, finding, n, interval, the paper's number, the command."""
    from ceiling.plots.files import put
    from ceiling.plots.gallery import gallery_page, thumbnail

    names = list(scripts())
    found = _found(figures, names)
    cards = {name: _card(path) for name, path in found.items()}
    pictures = {}
    for name, path in found.items():
        picture = path.with_suffix(".png")
        try:
            pictures[picture.name] = thumbnail(picture.read_bytes())
        except (OSError, SyntaxError):  # of what is no PNG, Pillow says either
            raise InputError(f"figures: {picture} is no picture; draw it: {cards[name].command}") from None
    absent = [name for name in names if name not in found]
    folders = (word for folder in figures for word in ("--figures", str(folder)))
    command = shlex.join(["ceiling", "gallery", *folders, "--out", str(out)])
    put(out / "gallery", pictures)
    put(out, {"README.md": gallery_page(cards, absent, command).encode()})
    for name in absent:
        (out / "gallery" / f"{name}.png").unlink(missing_ok=True)  # of an earlier page
    typer.echo(f"{out / 'README.md'}: {len(found)} figures; {len(absent)} not drawn")


def _found(folders: list[Path], names: list[str]) -> dict[str, Path]:
    """The JSON files of figures in `folders`, by name; other files there are nobody's business."""
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"figures: no folder {folder}; `ceiling figures --out {folder}` makes it")
        here = {name: path for name in names if (path := folder / f"{name}.json").exists()}
        if not here:
            raise InputError(f"figures: no findings in {folder}; draw it again with `ceiling figures`")
        for name, path in here.items():
            if name in found:
                raise InputError(f"figures: {name} is in {found[name].parent} and in {folder}; name one")
            found[name] = path
    return found


def _card(path: Path) -> "Card":
    from ceiling.plots.gallery import Card

    try:
        card = Card(**json.loads(path.read_bytes()))
        if all(isinstance(field, str) for field in card):
            return card
    except (ValueError, TypeError):  # no JSON, or of other fields
        pass
    raise InputError(f"figures: {path} is no finding of a figure; draw it again with `ceiling figures`")
