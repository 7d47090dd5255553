"""The certification's figures: nothing clipped or small, every interval drawn where the table has it."""

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection

from ceiling.analysis import certification_table, interval_table, looseness, looseness_table, solving_times
from ceiling.cli.figures import scripts_folder
from ceiling.plots import certified_bars, interval_panels, looseness_dots, time_lines
from tests.readable import assert_readable
from tests.toy_store import hand_made, toy_certificates, toy_instances, toy_zero_errors

PAPER = pl.read_csv(scripts_folder() / "reference" / "forced_weights_table7_certification.csv")
FLOORS = (0.0, 0.5, 0.9)

STORES = {
    "one": lambda: toy_instances("smollm2-135m", documents=5, layers=30, heads=9, rows=1),
    "two": lambda: pl.concat([toy_instances(m, documents=3) for m in ("smollm2-135m", "gemma3-270m")]),
    "one budget": lambda: toy_instances(documents=5, budgets=(8,)),
    "hardly anything": lambda: hand_made({"e_pool": 1.0, "e_balance": 1.0}),
}
TIMES = {
    "one": lambda: toy_zero_errors("smollm2-135m"),
    "two": lambda: pl.concat([toy_zero_errors(m) for m in ("smollm2-135m", "gemma3-270m")]),
    "one budget": lambda: toy_zero_errors(bits=(8,)),
    "hardly anything": lambda: toy_zero_errors().filter(pl.col("status") == "no").head(1),
}


def certified(instances, floors=FLOORS, every=23):
    return toy_certificates(instances, floors=floors, every=every if instances.height > 100 else 1)


def table7(instances, **options):
    return certification_table(certified(instances, **options), instances, draws=20)


def dots(instances):
    rows = looseness(certified(instances), instances)
    return rows, looseness_table(rows)


DRAW = {
    "table7": lambda name: certified_bars(table7(STORES[name]()), PAPER),
    "one floor": lambda name: certified_bars(table7(STORES[name](), floors=(0.9,)), PAPER),
    "intervals": lambda name: interval_panels(interval_table(certified(STORES[name]()), draws=20)),
    "looseness": lambda name: looseness_dots(*dots(STORES[name]())),
    "zero_error": lambda name: time_lines(solving_times(TIMES[name]())),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", DRAW)
def test_every_text_is_inside_apart_and_large_enough(name, store, monkeypatch):
    assert_readable(DRAW[name](store), monkeypatch)


def bars(axes):
    """Every vertical bar (low, high) that is not dotted."""
    solid = [c for c in axes.collections if isinstance(c, LineCollection) and c.get_linestyle()[0][1] is None]
    return sorted((s[0][1], s[1][1]) for c in solid for s in c.get_segments())


def test_table7_draws_every_proved_interval_whole():
    table = table7(STORES["one"]())
    (axes,) = certified_bars(table, PAPER).axes
    assert bars(axes) == sorted(table.select("closable_lower", "closable_upper").rows())
    low, high = axes.get_ylim()
    assert low < 0 < table["closable_upper"].max() < high


def test_a_cap_of_one_does_not_rule_the_scale():
    table = table7(STORES["one"]()).with_columns(cap_unsolved_improved=1.0)
    (axes,) = certified_bars(table, PAPER).axes
    assert axes.get_ylim()[1] < 1.1 * max(table["closable_upper"].max(), 0.119)


def test_without_pools_there_is_no_diamond():
    instances = STORES["one"]()
    table = certification_table(certified(instances), draws=0)
    (axes,) = certified_bars(table, PAPER).axes
    assert [len(line.get_xdata()) for line in axes.lines if line.get_marker() == "D"] == [0]


def test_intervals_stand_floor_by_floor_in_their_decile():
    table = interval_table(certified(STORES["one"](), every=3), draws=0)
    panels = interval_panels(table).axes
    assert len(panels) == 4
    for axes, s in zip(panels, (4, 8, 16, 32), strict=True):
        mine = table.filter(s=s)
        assert bars(axes) == sorted(mine.select("closable_lower", "closable_upper").rows())
        marks = [line for line in axes.lines if line.get_marker() != "_"]
        assert len(marks) == len(FLOORS)
        for line in marks:
            assert np.rint(line.get_xdata()).tolist() == list(range(1, 11))


def test_looseness_has_a_dot_an_instance_and_a_step_a_band():
    rows, table = dots(STORES["one"]())
    for axes, s in zip(looseness_dots(rows, table).axes, (4, 8, 16, 32), strict=True):
        circles = [line for line in axes.lines if line.get_marker() == "o"]
        assert sum(len(line.get_xdata()) for line in circles) == rows.filter(s=s).height
        steps = next(line for line in axes.lines if line.get_linestyle() == "-")
        assert steps.get_ydata()[::2].tolist() == table.filter(s=s)["looseness"].to_list()
        assert steps.get_xdata()[0] == -0.5
        assert steps.get_xdata()[-1] == 29.5


def test_solving_times_hold_every_range_and_cross_what_stayed_unknown():
    table = solving_times(TIMES["one"]().with_columns(status=pl.lit("unknown")))
    for axes, (_, part) in zip(
        time_lines(table).axes, table.group_by("bits", maintain_order=True), strict=True
    ):
        medians = [line for line in axes.lines if line.get_linestyle() == "-"]
        assert sum(len(line.get_xdata()) for line in medians) == part.height
        crosses = [line for line in axes.lines if line.get_marker() == "x"]
        assert sorted(y for line in crosses for y in line.get_ydata()) == sorted(part["seconds_max"])
        low, high = axes.get_ylim()
        assert low <= part["seconds"].min() <= part["seconds_max"].max() <= high
