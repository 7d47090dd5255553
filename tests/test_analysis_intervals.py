"""Intervals by dropped mass: deciles of the manifest or our own, every instance once, medians by hand."""

import numpy as np
import polars as pl
import pytest

from ceiling.analysis import interval_table
from ceiling.problem import InputError
from tests.toy_store import toy_certificates, toy_instances

CERTIFICATES = toy_certificates(toy_instances(documents=5, layers=3))
MEASURED = CERTIFICATES.filter(pl.col("closable_lower").is_not_null())


def test_own_deciles_are_tenths_by_dropped_mass():
    table = interval_table(CERTIFICATES, draws=20)
    assert table.height == 3 * 4 * 10
    assert table["n"].sum() == MEASURED.height
    for _, part in table.group_by("mass_floor", "s", maintain_order=True):
        assert part["decile"].to_list() == list(range(1, 11))
        assert part["n"].max() - part["n"].min() <= 1
        assert part["dropped_mass"].is_sorted()


def test_the_manifest_s_deciles_are_taken_as_they_are():
    drawn = MEASURED.with_columns(decile=pl.col("head") % 2 + 3)
    table = interval_table(drawn, draws=20)
    assert set(table["decile"]) == {3, 4}
    row = table.row(
        by_predicate=(pl.col("decile") == 4) & (pl.col("s") == 8) & (pl.col("mass_floor") == 0), named=True
    )
    mine = drawn.filter(decile=4, s=8, mass_floor=0.0)
    assert row["n"] == mine.height
    assert row["solved"] == (mine["status"] == "optimal").sum()
    for end in ("closable_lower", "closable_upper"):
        assert row[end] == pytest.approx(np.median(mine[end]))
        assert row[f"{end}_low"] <= row[end] <= row[f"{end}_high"]


def test_nothing_but_trivial_rows_is_refused():
    with pytest.raises(InputError, match="all are trivial or degenerate"):
        interval_table(CERTIFICATES.filter(pl.col("closable_lower").is_null()))


def test_fewer_instances_than_deciles():
    few = MEASURED.filter(mass_floor=0.0, s=8).head(4)
    table = interval_table(few, draws=0)
    assert table["n"].to_list() == [1] * 4
    assert (table["closable_lower"] <= table["closable_upper"]).all()
