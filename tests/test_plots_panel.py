"""The pictures of the prediction and of tables 1, 2 and 6: readable, whole, with the paper's marks."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import (
    content_table,
    native_table,
    panel_table,
    predictor_table,
    roc_table,
    threshold_table,
)
from ceiling.analysis.content import CONTENT
from ceiling.analysis.instances import ALL_FAMILIES
from ceiling.analysis.native import native_paper
from ceiling.analysis.panel import PANEL
from ceiling.analysis.predictors import MEANING
from ceiling.plots import content_bars, native_lines, panel_dots, prediction_curves
from figures.table2 import PANELS as CONTENTS
from figures.table6 import PANELS
from tests.readable import assert_readable
from tests.toy_store import hand_made, toy_instances, toy_scores

REFERENCE = Path(__file__).parents[1] / "figures" / "reference"
TABLE1 = native_paper(pl.read_csv(REFERENCE / "forced_weights_table1_native_budgets.csv", infer_schema=False))
TABLE2 = pl.read_csv(REFERENCE / "forced_weights_table2_content.csv").with_columns(
    pl.col(CONTENT).cast(pl.Float64)
)
TABLE6 = pl.read_csv(REFERENCE / "forced_weights_table6_panel.csv")
BUDGETS = (4, 8, 16, 32, 64, 128, 256)

STORES = {
    "two": lambda: pl.concat(
        [
            toy_instances(m, documents=5, layers=8, heads=2, seed=i, budgets=BUDGETS)
            for i, m in enumerate(("smollm2-135m", "gemma3-270m"))
        ]
    ),
    "four": lambda: pl.concat(
        [toy_instances(f"Qwen2.5-{i}.5B", documents=5, heads=2, seed=i) for i in range(4)]
    ),
    "older": lambda: toy_instances("smollm2-135m", documents=3, heads=2).with_columns(spectral=None),
    "hardly anything": lambda: hand_made({"e_pool": 1.0, "e_balance": 1.0}, {"head": 1, "status": "trivial"}),
}


def prediction(frame):
    tables = (
        roc_table(frame),
        threshold_table(frame, draws=20),
        predictor_table(frame, draws=20),
    )
    return prediction_curves(*tables, MEANING)


def native(frame):
    table = native_table(frame, toy_scores(frame), draws=20)
    return native_lines(table.filter(pl.col("model") != ALL_FAMILIES), TABLE1)


def content(frame):
    texts = {"python-docs": frame, "python-code": frame, "task:variable-chain": frame}
    return content_bars(content_table(texts, draws=20), TABLE2, CONTENTS, "paper")


DRAW = {
    "prediction": prediction,
    "table1": native,
    "table2": content,
    "table6": lambda frame: panel_dots(panel_table(frame, draws=20), TABLE6, PANELS),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", DRAW)
def test_every_text_is_inside_apart_and_large_enough(name, store, monkeypatch):
    assert_readable(DRAW[name](STORES[store]()), monkeypatch)


def test_every_family_has_a_mark_in_every_panel():
    ours = panel_table(STORES["two"](), draws=20)
    for axes, quantity in zip(panel_dots(ours, TABLE6, PANELS).axes, PANELS, strict=True):
        marks = [line for line in axes.lines if line.get_marker() != "|"]  # the ends of whiskers are
        drawn = [line.get_xdata()[0] for line in marks]
        assert sorted(drawn) == sorted([*ours[quantity], *TABLE6[quantity]])
    assert set(PANELS) < set(PANEL)


def test_a_missing_end_of_the_papers_range_is_a_point():
    axes = content(STORES["hardly anything"]()).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    code = names.index("source code") + 2
    marks = [line.get_xdata() for line in axes.lines if line.get_ydata()[0] == code]
    assert all(np.array_equal(x, [0.71, 0.71]) for x in marks)


def test_what_no_row_has_is_named_in_the_picture():
    texts = [text.get_text() for text in prediction(STORES["older"]()).axes[2].texts]
    assert texts == ["not measured"]
