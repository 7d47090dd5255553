"""Table 8 as a picture: distance from the best and penalty against the budget, and the numbers below."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, StrMethodFormatter

from ceiling.plots.style import COLUMN, PAPER, blank, colours, marker, open_spines, style
from ceiling.plots.whiskers import numbers, whiskers

TICKS = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
"""Labelled ratios of the logarithmic axes (dimensionless)."""

DODGE = 1.05
"""Factor in s between the points of neighbouring models, so that whiskers stay apart."""

COLUMNS = {
    "s": ("s", "d"),
    "median_kappa": ("κ̂\nmedian", ".3f"),
    "p99_kappa": ("κ̂\n99%", ".2f"),
    "share_es_le_0_9_top": ("share\n≤ 0.9", ".3f"),
    "geo_over_top": ("geom.\n/ top", ".2f"),
    "lev_over_top": ("lever.\n/ top", ".1f"),
    "median_pi": ("π̂\nmedian", ".2f"),
    "p99_pi": ("π̂\n99%", ".2f"),
    "rho_phi_es_pool": ("ρ(Φ, e)", ".2f"),
}
"""Heading and format of every column; the paper's own number of digits."""

ROW = 0.145
"""Height of a row of the table, inches."""


def profile_lines(profile: pl.DataFrame, paper: pl.DataFrame) -> Figure:
    """Draw the budget profile and set its numbers below, the paper's rows last and in grey.

    Parameters
    ----------
    profile : polars.DataFrame
        From `ceiling.analysis.budget_profile`.
    paper : polars.DataFrame
        `family, s` and the same quantities.

    Returns
    -------
    matplotlib.figure.Figure
        Column width, inches; the height follows the number of rows.
    """
    ours = profile.partition_by("model", maintain_order=True)
    theirs = paper.partition_by("family", maintain_order=True)
    rows = sum(f.height + 1 for f in (*ours, *theirs)) + 2
    with style():
        figure = blank(COLUMN, 2.15 + ROW * rows)
        parts: Any = figure.subfigures(2, 1, height_ratios=(2.15, ROW * rows))
        top, bottom = parts
        panels = list(top.subplots(1, 2))
        names = ("κ̂ = e_top / e_pool", "π̂ = e_pool / ef_fw")
        for axes, quantity, name in zip(panels, ("kappa", "pi"), names, strict=True):
            for frame in theirs:
                _curve(axes, frame, quantity, (PAPER, "x", f"paper, {frame['family'][0]}"))
            for i, (frame, colour) in enumerate(zip(ours, colours(len(ours)), strict=True)):
                aside = DODGE ** (i - (len(ours) - 1) / 2)
                _curve(axes, frame, quantity, (colour, marker(i), frame["model"][0]), aside)
            _axes(axes, sorted({*profile["s"], *paper["s"]}), name)
        handles, labels = panels[0].get_legend_handles_labels()
        for line, label in (("-", "median"), (":", "99th percentile")):
            handles.append(Line2D([], [], color="black", ls=line))
            labels.append(label)
        top.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, handlelength=2.2)
        _numbers(bottom.subplots(), ours, theirs)
    return figure


def _curve(
    axes: Axes, frame: pl.DataFrame, quantity: str, look: tuple[Any, str, str], aside: float = 1
) -> None:
    """Median and 99th percentile of one model; whiskers where there are intervals."""
    colour, mark, label = look
    for part, line, fill in ((f"median_{quantity}", "-", colour), (f"p99_{quantity}", ":", "white")):
        s, y = frame["s"].to_numpy() * aside, numbers(frame, part)
        once = label if line == "-" else None
        axes.plot(s, y, line, color=colour, marker=mark, ms=3.5, mfc=fill, label=once)
        whiskers(axes, s, frame, part, colour)


def _axes(axes: Axes, budgets: list[int], label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(s) for s in budgets])
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(TICKS))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axes.set_ylim(min(0.95, axes.dataLim.ymin * 0.95), max(1.6, axes.dataLim.ymax * 1.1))
    axes.margins(x=0.08)
    axes.set_xlabel("budget s (keys kept)")
    axes.set_title(label, pad=3)
    open_spines(axes)


def _numbers(axes: Axes, ours: list[pl.DataFrame], theirs: list[pl.DataFrame]) -> None:
    """The table, as text on a grid: one heading, then a title and its rows per model."""
    axes.set_axis_off()
    lines: list[tuple[str | None, list[str], str]] = [(None, [head for head, _ in COLUMNS.values()], "black")]
    for frame in ours:
        whiskers = "whiskers 95%" if frame["median_kappa_low"].is_not_null().any() else "no intervals"
        title = (
            f"{frame['model'][0]}: {frame['documents'][0]} documents, n = {frame['n'].sum():,}, {whiskers}"
        )
        lines.append((title, [], "black"))
        lines += [(None, _texts(row), "black") for row in frame.iter_rows(named=True)]
    for frame in theirs:
        lines.append((f"paper, {frame['family'][0]}", [], "0.35"))
        lines += [(None, _texts(row), "0.35") for row in frame.iter_rows(named=True)]
    total = len(lines) + 1  # the heading takes two
    axes.set(xlim=(0, len(COLUMNS)), ylim=(total, 0))
    for i, (caption, texts, colour) in enumerate(lines):
        y = 1 if i == 0 else i + 1.5
        if caption is not None:
            axes.axhline(y - 0.5, color="0.7", lw=0.5)
            axes.text(0, y, caption, color=colour, va="center", style="italic")
        for j, entry in enumerate(texts):
            axes.text(j + 0.5, y, entry, color=colour, ha="center", va="center")


def _texts(row: dict[str, Any]) -> list[str]:
    return ["–" if row[name] is None else format(row[name], form) for name, (_, form) in COLUMNS.items()]
