"""The certification as a picture: the median's proved interval per budget and mass floor."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style

WIDTH = 0.8
"""Distance from the paper's mark on the left of a budget to the pool's on its right, in budgets."""

HEADROOM = 0.06
"""Space below 0 and above the highest mark, as a share of that mark: a mark at 0 is whole."""

CAPPED = ("median_closable", "cap_unsolved_improved")


def certified_bars(table: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the proved interval of the median closable share, one panel a model.

    Parameters
    ----------
    table : polars.DataFrame
        From `ceiling.analysis.certification_table`.
    paper : polars.DataFrame
        `s, median_closable, cap_unsolved_improved`: the paper's table 7.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches.
    """
    models = table.partition_by("model", maintain_order=True)
    budgets = sorted({*table["s"], *paper["s"]})
    floors = table["mass_floor"].unique().sort().to_list()
    with style():
        figure = blank(COLUMN, 0.8 + 1.75 * len(models))
        for axes, frame in zip(figure.subplots(len(models), 1, squeeze=False).ravel(), models, strict=True):
            _capped(axes, [budgets.index(s) - WIDTH / 2 for s in paper["s"]], paper, (PAPER, "x"))
            for i, (floor, colour) in enumerate(zip(floors, colours(len(floors)), strict=True)):
                aside = WIDTH * ((i + 1) / (len(floors) + 1) - 1 / 2)
                interval_bars(
                    axes,
                    [budgets.index(s) + aside for s in frame.filter(mass_floor=floor)["s"]],
                    frame.filter(mass_floor=floor),
                    (colour, marker(i)),
                )
            # The pool is the same under every floor; its cap is not, and the table has the others.
            pool = frame.filter(pl.col("mass_floor") == frame["mass_floor"].min()).drop_nulls(CAPPED)
            _capped(axes, [budgets.index(s) + WIDTH / 2 for s in pool["s"]], pool, ("black", "D"))
            # Caps of a pool that is often improved tend to 1: they run out of the panel, not into its scale.
            highest = max(_highest(frame, "closable_upper", "median_closable"), _highest(paper, *CAPPED))
            _axes(axes, frame, budgets, highest)
        _legend(figure, floors)
    return figure


def interval_bars(
    axes: Axes, x: list[float], frame: pl.DataFrame, look: tuple[tuple[float, float, float], str]
) -> None:
    """One bar an interval, from a mark at what a known set closes to a dash at what none exceeds."""
    colour, mark = look
    low, high = (frame[name].to_numpy() for name in ("closable_lower", "closable_upper"))
    axes.vlines(x, low, high, color=colour, lw=2.2, alpha=0.45)
    axes.plot(x, high, ls="", color=colour, marker="_", ms=4.5, mew=1.0)
    axes.plot(x, low, ls="", color=colour, marker=mark, ms=3, mew=0)


def interval_handles(floors: list[float]) -> tuple[list[Line2D], list[str]]:
    """Entries of a legend, one a mass floor."""
    handles = [
        Line2D([], [], color=(*colour, 0.45), lw=2.2, marker=marker(i), ms=3.5, mfc=colour, mew=0)
        for i, colour in enumerate(colours(len(floors)))
    ]
    return handles, [f"floor {floor:g}" if floor else "no mass floor" for floor in floors]


def share_axis(axes: Axes, highest: float) -> None:
    """The axis of a closable share up to `highest`, 1 where that is 0."""
    reach = highest or 1
    axes.set_ylim(-HEADROOM * reach, (1 + HEADROOM) * reach)
    axes.set_ylabel("closable share (median)")


def spread(counts: pl.Series) -> str:
    """The least and the greatest of some counts, once where they are equal."""
    low, high = min(counts.to_list()), max(counts.to_list())
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _highest(frame: pl.DataFrame, *columns: str) -> float:
    return frame.select(pl.max_horizontal(columns).max().fill_null(0.0)).item()


def _capped(axes: Axes, x: list[float], frame: pl.DataFrame, look: tuple[str, str]) -> None:
    """A pool's median, dotted up to its cap: the cap is not proved of these rows."""
    colour, mark = look
    low, high = (frame[name].to_numpy() for name in CAPPED)
    axes.vlines(x, low, high, color=colour, lw=1, linestyles=":")
    axes.plot(x, high, ls="", color=colour, marker="_", ms=4.5, mew=1.0)
    axes.plot(x, low, ls="", color=colour, marker=mark, ms=3, mfc="white", mew=0.8)


def _axes(axes: Axes, frame: pl.DataFrame, budgets: list[int], highest: float) -> None:
    axes.set_xticks(range(len(budgets)), [str(s) for s in budgets])
    axes.set_xlim(-0.6, len(budgets) - 0.4)
    share_axis(axes, highest)
    rests_on = f"{frame['model'][0]}: {frame['documents'][0]} documents, n = {spread(frame['n'])} a bar"
    axes.set_xlabel(f"budget s (keys kept)\n{rests_on}")
    open_spines(axes)


def _legend(figure: Figure, floors: list[float]) -> None:
    handles, labels = interval_handles(floors)
    for colour, mark, label in (("black", "D", "pool, to its cap"), (PAPER, "x", "paper's pool, to its cap")):
        handles.append(Line2D([], [], color=colour, ls=":", marker=mark, ms=3.5, mfc="white", mew=0.8))
        labels.append(label)
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, handlelength=2.2)
