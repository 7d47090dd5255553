"""The sweep's figure: every budget a line, the default filled, whiskers only where there are intervals."""

import polars as pl
import pytest
from matplotlib.collections import LineCollection

from ceiling.analysis import sweep_table
from ceiling.cli.figures import scripts_folder
from ceiling.plots import sweep_lines
from tests.test_analysis_sweep import widened
from tests.toy_store import toy_instances

PAPER = pl.read_csv(scripts_folder() / "reference" / "forced_weights_widening.csv")


def drawn(documents):
    return sweep_lines(sweep_table(widened(toy_instances(documents=documents)), draws=50), PAPER)


def test_a_line_per_budget_and_the_default_filled():
    closable, rate = drawn(5).axes
    for axes in (closable, rate):
        lines = [line for line in axes.lines if line.get_label().startswith("s = ")]
        assert [line.get_label() for line in lines] == ["s = 4", "s = 8", "s = 16", "s = 32"]
        assert all(len(line.get_xdata()) == 2 for line in lines)
        filled = [
            line for line in axes.lines if line.get_linestyle() == "None" and len(line.get_xdata()) == 1
        ]
        assert [line.get_xdata()[0] for line in filled] == [line.get_xdata()[0] for line in lines]


@pytest.mark.parametrize(("documents", "whiskers"), [(5, 8), (4, 0)])
def test_whiskers_need_five_documents(documents, whiskers):
    axes = drawn(documents).axes[0]
    bars = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert sum(len(c.get_segments()) for c in bars) == whiskers


def test_the_papers_label_rates_are_a_band_beside_the_rates_only():
    closable, rate = drawn(3).axes
    (band,) = rate.patches
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert (low, high) == pytest.approx((0.356, 0.387))
    assert not closable.patches
