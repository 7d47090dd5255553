"""The figures of losses and of the residual: readable, a mark an arm and pair, a line a side."""

import polars as pl
import pytest

from ceiling.analysis.losses import contrasts, documents_of, loss_table
from ceiling.analysis.residual import residual_table, split_table
from ceiling.plots.loss_dots import loss_dots
from ceiling.plots.residual_lines import residual_lines
from tests.readable import assert_readable
from tests.toy_losses import toy_losses
from tests.toy_store import toy_instances, toy_scores

FAMILIES = ("smollm2-135m", "gemma3-270m")

LOSSES = {
    "one": lambda: toy_losses(),
    "two": lambda: pl.concat(toy_losses(m, seed=i) for i, m in enumerate(FAMILIES)),
    "three": lambda: pl.concat(toy_losses(f"Qwen-{i}.5B", documents=3, seed=i) for i in range(3)),
    "one rule": lambda: toy_losses(budgets=(8, 64)).filter(pl.col("rule") == "top-mass"),
    "signs": lambda: toy_losses(gains={"flat": 0.301, "random": 0.298, "all": 0.3}, noise=1e-3),
}


def dots(frame):
    return loss_dots(loss_table(frame, draws=20), contrasts(frame, draws=20), documents_of(frame))


def lines(*models, scored=True, **options):
    frame = pl.concat(toy_instances(m, seed=i, **options) for i, m in enumerate(models))
    split = split_table(toy_scores(frame), draws=20) if scored else pl.DataFrame()
    return residual_table(frame, draws=20), split


@pytest.mark.parametrize("name", ["one", "three", "one rule", "signs"])
def test_every_text_of_figure4_is_inside_apart_and_large_enough(name, monkeypatch):
    assert_readable(dots(LOSSES[name]()), monkeypatch)


def marks(axes):
    """Every estimate drawn: x by row; single documents are bars."""
    drawn = [line for line in axes.lines if line.get_marker() not in ("", "None", "|", "_")]
    return {round(y): x for line in drawn for x, y in zip(*line.get_data(), strict=True)}


def test_figure4_has_a_mark_an_arm_and_a_contrast_and_a_bar_a_document():
    frame = LOSSES["two"]()
    arms, pairs = loss_table(frame, draws=20), contrasts(frame, draws=20)
    panels = loss_dots(arms, pairs, documents_of(frame)).axes
    for axes, table, quantity in ((panels[0], arms, "excess"), (panels[2], pairs, "difference")):
        mine = table.filter(model=FAMILIES[1])  # in alphabetic order
        assert list(marks(axes).values()) == mine[quantity].to_list()
        bars = [line for line in axes.lines if line.get_marker() == "|"]
        assert [len(line.get_xdata()) for line in bars if line.get_color() == "0.6"] == [6] * mine.height
        low, high = axes.get_xlim()
        assert all(low < x < high for line in bars for x in line.get_xdata())
    assert panels[0].get_xscale() == "log"
    assert [axes.get_title() for axes in panels[:2]] == [f"{m}, s = 8, 6 documents" for m in FAMILIES[::-1]]


def test_looks_differ_in_more_than_colour():
    (axes, _) = dots(LOSSES["one"]()).axes
    looks = {
        (line.get_marker(), line.get_markerfacecolor() == "white")
        for line in axes.lines
        if line.get_marker() in "os^D"
    }
    assert looks == {("o", True), ("s", False), ("^", True), ("D", False)}


def test_excesses_of_both_signs_have_no_plain_logarithm():
    above, below = dots(LOSSES["signs"]()).axes
    assert above.get_xscale() != "log"
    assert below.get_xlim()[0] < 0 < below.get_xlim()[1]


@pytest.mark.parametrize(("models", "scored"), [(FAMILIES, True), (FAMILIES[:1], False)])
def test_every_text_of_the_residual_is_inside_apart_and_large_enough(models, scored, monkeypatch):
    assert_readable(residual_lines(*lines(*models, scored=scored, documents=5, rows=2, heads=2)), monkeypatch)


def test_the_residual_draws_every_side_and_all_layers_together():
    table, split = lines("toy-1", documents=5, budgets=(4, 8), layers=4)
    panels = residual_lines(table, split).axes
    assert len(panels) == 4
    for axes, frame, names in (
        (panels[1], table, ("mass", "values", "both")),
        (panels[3], split, ("mass_part", "offset_part", "gain")),
    ):
        mine = frame.filter(s=8)
        curves = [line for line in axes.lines if len(line.get_xdata()) == 4]
        assert len({line.get_linestyle() for line in curves}) == 3
        for line, name in zip(curves, names, strict=True):
            assert line.get_ydata().tolist() == mine.drop_nulls("layer")[name].to_list()
        drawn = [line.get_ydata()[0] for line in axes.lines if line.get_marker() in "osD"]
        assert drawn == list(mine.filter(pl.col("layer").is_null()).select(names).row(0))


def test_a_fit_without_limit_does_not_stretch_the_axis():
    table, _ = lines("toy-1", documents=5, budgets=(8,), layers=3)
    wild = table.with_columns(mass=pl.when(pl.col("layer") == 1).then(-40.0).otherwise("mass"))
    (axes,) = residual_lines(wild, pl.DataFrame()).axes
    assert axes.get_ylim()[0] == -0.5
