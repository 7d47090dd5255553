"""Looks of the audit: one colour and marker a press in every figure, one marker and line an arm."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import polars as pl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

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

ARMS = {"agnostic": ("o", "-"), "aware-scores": ("^", "--"), "aware-kvpress": ("s", ":")}
"""Marker and line of every arm."""

FLOOR_HATCH = "////"
"""What is at the floor, where no rank is claimed."""

ROLES = ("real", "other", "trivial", "anchor")
"""Order of the roles from the top of a figure."""


class Look(NamedTuple):
    """How a press is drawn."""

    colour: Any
    marker: str
    fill: Any

    def mark(self, size: float = 4.0) -> dict[str, Any]:
        """Keywords of `Axes.plot` for its mark."""
        edge = 0.3 if self.fill == "full" else 0.8
        shape: dict[str, Any] = {"marker": self.marker, "ms": size, "fillstyle": self.fill, "mew": edge}
        return {"color": self.colour, "markerfacecoloralt": "white", **shape}


def looks(frame: pl.DataFrame) -> dict[str, Look]:
    """The look of every label of `frame`, which has columns `label` and `press`."""
    palette = sns.color_palette("colorblind")
    named = frame.select("label", "press").unique().sort("label").rows()
    others = sorted({press for _, press in named} - {*REAL, *TRIVIAL})
    found, forms = {}, dict.fromkeys((press for _, press in named), 0)
    for label, press in named:
        number = 0 if label == press else (forms[press] := forms[press] + 1)
        fill = FILLS[number % len(FILLS)]
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
    return Line2D([], [], ls="", label=label, **look.mark())


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
