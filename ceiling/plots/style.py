"""The look every figure shares: column width, font sizes, colours that survive grey printing."""

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMN = 3.35
"""Width of a paper's column, inches."""

PAGE = 7.0
"""Width of a paper's text across two columns, inches."""

FONT = 7.0
"""Smallest type used, points."""

DPI = 300
"""Resolution of the PNG files, dots per inch."""

PAPER = "0.55"
"""Grey level of everything that is the paper's."""

MARKERS = ("o", "s", "^", "v", "P", "X", "<", ">", "h", "*")
"""One marker per model, so that colour is never the only difference."""

RC = {
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": FONT,
    "ytick.labelsize": FONT,
    "legend.fontsize": FONT,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.labelpad": 2.0,
    "lines.linewidth": 1.0,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType outlines: text stays text
    "savefig.dpi": DPI,
    "figure.dpi": DPI,
}


@contextmanager
def style() -> Iterator[None]:
    """The house style for the length of a block; afterwards matplotlib is as it was."""
    with mpl.rc_context({**sns.axes_style("ticks"), **RC}):
        yield


def blank(width: float, height: float) -> Figure:
    """A figure of this size in inches that belongs to no window and needs no backend."""
    return Figure(figsize=(width, height), layout="constrained")


def colours(count: int) -> list[tuple[float, float, float]]:
    """`count` colours of seaborn's colour-blind palette (it has ten and then repeats)."""
    return list(sns.color_palette("colorblind", count))


def marker(index: int) -> str:
    """The marker of model number `index`."""
    return MARKERS[index % len(MARKERS)]


def open_spines(axes: Axes) -> None:
    """Take away the box's top and right side."""
    axes.spines[["top", "right"]].set_visible(False)
