"""Looks of the audit: one colour and marker a press in every figure, one marker and line an arm."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import polars as pl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

REAL = {
    "snapkv": (0, "o"),
    "h2o": (5, "s"),
    "tova": (2, "^"),
    "expected_attention": (4, "v"),
    "adakv": (1, "P"),
    "keydiff": (3, "X"),
}
"""Place in the colour-blind palette and marker of the paper's six presses."""

TRIVIAL = {"streaming_llm": ("0.2", "D"), "knorm": ("0.45", "<"), "random": ("0.65", ">")}
"""Grey level and marker of the trivial presses."""

OTHERS = ((9, "*"), (8, "h"), (6, "p"), (7, "d"))
"""Of presses beyond these, in alphabetical order."""

FILLS = ("full", "none", "left", "bottom", "right", "top")
"""Of a press's forms in alphabetical order of their parameters, the default first."""

SMALL = "PX*"
"""Markers that cover less than others of their size."""

ARMS = {"agnostic": ("o", "-"), "aware-scores": ("^", "--"), "aware-kvpress": ("s", ":")}
"""Marker and line of every arm."""

HATCH = "////"
"""Over what is at the floor, where no rank is claimed."""

ROLES = ("real", "other", "trivial", "anchor")
"""Order of the roles from the top of a figure."""


class Look(NamedTuple):
    """How a press is drawn."""

    colour: Any
    marker: str
    fill: str

    def mark(self, size: float = 4.0) -> dict[str, Any]:
        """Keywords of `Axes.plot` for its mark; a form's line is dashed, its default form's is not."""
        plain = self.fill == FILLS[0]
        size *= 1.25 if self.marker in SMALL else 1.0
        edge: dict[str, Any] = {"ms": size, "mew": 0 if plain else 0.8, "mec": self.colour}
        inside = {"mfc": "white"} if self.fill == "none" else {"fillstyle": self.fill, "mfc": self.colour}
        dashes = "-" if plain else (0, (3, 1.5))
        mark = {"color": self.colour, "marker": self.marker, "mfcalt": "white", "ls": dashes}
        return mark | edge | inside

    @property
    def face(self) -> Any:
        """What fills the mark of an arm: its colour, white for a form that is not the default."""
        return self.colour if self.fill == FILLS[0] else "white"


def looks(frame: pl.DataFrame) -> dict[str, Look]:
    """The look of every label of `frame`, which has columns `label` and `press`."""
    palette = sns.color_palette("colorblind")
    named = frame.select("label", "press").unique().sort("label").rows()
    others = sorted({press for _, press in named} - {*REAL, *TRIVIAL})
    found = {}
    for label, press in named:
        forms = [press, *(other for other, of in named if of == press and other != press)]
        fill = FILLS[forms.index(label) % len(FILLS)]
        if press in TRIVIAL:
            found[label] = Look(*TRIVIAL[press], fill)
            continue
        at, marker = REAL.get(press) or OTHERS[others.index(press) % len(OTHERS)]
        found[label] = Look(palette[at], marker, fill)
    return found


def ordered(frame: pl.DataFrame, value: str) -> list[str]:
    """Labels by role, within a role the larger their mean `value` the earlier; nulls last."""
    mean = frame.group_by("label", "role").agg(pl.col(value).mean())
    place = pl.col("role").replace_strict({r: i for i, r in enumerate(ROLES)}, default=len(ROLES))
    return mean.sort(place, pl.col(value), "label", descending=[False, True, False], nulls_last=True)[
        "label"
    ].to_list()


def lines(label: str) -> str:
    """A label, each of its parameters on a line of its own."""
    return label.replace(":", ":\n").replace(",", ",\n")


def press_handle(label: str, look: Look) -> Line2D:
    """The legend's mark of a press."""
    return Line2D([], [], lw=0.7, label=label, **look.mark())


def arm_handle(arm: str, colour: Any = "black") -> Line2D:
    """The legend's mark of an arm."""
    marker, line = ARMS[arm]
    return Line2D([], [], color=colour, marker=marker, ls=line, ms=3, lw=0.8, mew=0.5, label=arm)


def rows_of(axes: Axes, labels: Iterable[str]) -> None:
    """Rows of labels from top to bottom, thin lines between them."""
    names = list(labels)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [lines(name) for name in names])
    axes.tick_params(axis="y", length=0)
    for y in range(1, len(names)):
        axes.axhline(y - 0.5, color="0.88", lw=0.4, zorder=0)


def hatched(axes: Axes) -> None:
    """Hatch a whole panel: what it would show is at the floor."""
    place: Any = {"transform": axes.transAxes, "zorder": 0}
    axes.add_artist(Rectangle((0, 0), 1, 1, fc="none", ec="0.8", hatch=HATCH, lw=0, **place))
