"""The fits in SQL are those of the tables; without instances there are none."""

import polars as pl
from polars.testing import assert_frame_equal

from ceiling.analysis import penalty_fit, prediction_table
from ceiling.analysis.fitted import SCHEMA, fits
from ceiling.analysis.views import VIEWS
from ceiling.store import TABLES, open_store, run_sql
from tests.toy_store import toy_instances, write_toy_store

TOY = toy_instances(documents=6, layers=2, heads=2)


def test_fits_hold_what_the_tables_say():
    found = fits(TOY.lazy(), draws=50)
    assert found.schema == pl.Schema(SCHEMA)
    columns = ["model", "s", "n", "auc", "intercept", "slope", "slope_low", "slope_high"]
    label = found.filter(response="label").select(columns)
    assert_frame_equal(label, prediction_table(TOY, draws=50).select(columns), check_dtypes=False)
    for ratio in ("pi", "pi_improved"):
        (mine,) = found.filter(response=f"log {ratio}").iter_rows(named=True)
        (table,) = penalty_fit(TOY, ratio=ratio, draws=50).iter_rows(named=True)
        assert {name: mine[name] for name in ("slope", "slope_low", "r2")} == {
            name: table[name] for name in ("slope", "slope_low", "r2")
        }
        assert (mine["ending"], mine["n"]) == (table["fit"], table["n"])


def test_without_instances_there_are_no_fits():
    assert fits(pl.LazyFrame(schema=TABLES["instances"])).is_empty()


def test_fits_are_asked_in_sql(tmp_path):
    store = open_store(write_toy_store(tmp_path, TOY))
    answer = run_sql(store, "SELECT model, slope FROM fits WHERE response = 'log pi'", VIEWS)
    assert answer.height == 1
    assert answer["slope"].item() is not None
