"""The gallery: a page of the figures that were drawn, each a thumbnail beside what it found."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import NamedTuple

from PIL import Image

from ceiling.plots.style import COLUMN, DPI

THUMBNAIL = 480
"""Width (pixels) of a column-wide figure's thumbnail, half a page of a README as it is shown; a page-wide
one is as much wider as the figure, so that type has one size, which can be read."""

PARTS = ("The paper's figures and tables", "Further figures", "The audit of eviction methods")
"""Headings of the page, in order; `_place` says which figure stands where."""


class Card(NamedTuple):
    """What the page says of a figure: the fields of its JSON file.

    Attributes
    ----------
    title : str
    sentence, n, interval, paper : str
        See `ceiling.analysis.finding.Finding`.
    command : str
        Draws the figure.
    """

    title: str
    sentence: str
    n: str
    interval: str
    paper: str
    command: str


def thumbnail(png: bytes) -> bytes:
    """A PNG of the same picture, `THUMBNAIL` pixels a column; the same bytes every time.

    Parameters
    ----------
    png : bytes
        Of a figure as `ceiling.plots.write` writes it, `DPI` dots an inch.

    Raises
    ------
    PIL.UnidentifiedImageError
        `png` is no picture.
    """
    with Image.open(BytesIO(png)) as picture:
        whole = picture.convert("RGB")
    scale = THUMBNAIL / (COLUMN * DPI)
    size = tuple(max(1, round(side * scale)) for side in whole.size)
    small = whole.resize(size, Image.Resampling.LANCZOS)  # type: ignore[arg-type]
    buffer = BytesIO()
    # 256 colours take a quarter of the bytes; the octree keeps rare hues, which the median cut turns grey.
    few = small.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def gallery_page(cards: Mapping[str, Card], absent: Sequence[str], command: str) -> str:
    """The page, Markdown.

    Parameters
    ----------
    cards : mapping of str to Card
        By the figure's name; its thumbnail is ``gallery/<name>.png`` beside the page.
    absent : sequence of str
        Names of figures that were not drawn.
    command : str
        Makes the page.

    Returns
    -------
    str
    """
    head = (
        f"# Gallery\n\nMade by `{command}`, the last step of `make paper`; nothing in it is written by "
        "hand. Only thumbnails are kept here: the command beside each draws the figure in full, as PNG and "
        "PDF, with its caption, its numbers and the paper's."
    )
    blocks = [head]
    for part, heading in enumerate(PARTS):
        names = sorted((name for name in cards if _place(name)[0] == part), key=_place)
        blocks += [f"## {heading}"] if names else []
        blocks += [_entry(name, cards[name]) for name in names]
    if absent:
        listed = ", ".join(f"`{name}`" for name in sorted(absent, key=_place))
        blocks += [
            "## Not drawn",
            f"No folder has a drawing of {listed}; `ceiling figures` on their store says why.",
        ]
    return "\n\n".join(blocks) + "\n"


def _entry(name: str, card: Card) -> str:
    return "\n".join(
        [
            f"### {card.title}",
            "",
            f"![{card.title}](gallery/{name}.png)",
            "",
            card.sentence,
            "",
            f"- n: {card.n}",
            f"- interval: {card.interval}",
            f"- paper: {card.paper}",
            f"- command: `{card.command}`",
        ]
    )


def _place(name: str) -> tuple[int, bool, str, int]:
    """Which of `PARTS`, then numbered figures before those with a name, figure 10 after figure 9."""
    own = name.removeprefix("audit_")
    kind = own.rstrip("0123456789")
    number = own[len(kind) :]
    part = 2 if own != name else 0 if number and kind in ("figure", "table") else 1
    return part, not number, kind, int(number or 0)
