"""Looseness of the pool: by hand, in bands as narrow as the counts allow, only what can be compared."""

import polars as pl
import pytest

from ceiling.analysis import looseness, looseness_table
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_certificates, toy_instances


def instances(*layers, s=(8,), e_pool=0.8):
    rows = [
        {"layer": layer, "head": h, "s": b, "e_pool": e_pool} for b in s for h, layer in enumerate(layers)
    ]
    return hand_made(*rows)


def certificates(frame, lower, upper):
    return toy_certificates(frame, floors=(0.0, 0.9)).with_columns(
        es_lower=lower, es_upper=upper, status=pl.lit("gap")
    )


def test_by_hand():
    frame = instances(0, 1)
    rows = looseness(certificates(frame, pl.lit(0.4), pl.lit(0.6)), frame)
    assert rows["looseness"].to_list() == pytest.approx([0.25] * 2)  # once: not under the floor too
    assert rows["looseness_upper"].to_list() == pytest.approx([0.5] * 2)
    assert rows["closable_pool"].to_list() == pytest.approx([0.2] * 2)
    assert rows["improved_known"].to_list() == [True, True]


@pytest.mark.parametrize(
    ("layers", "bands"),
    [
        ([0] * 10 + [1] * 10 + [2] * 10, [(0, 0), (1, 1), (2, 2)]),
        ([0] * 10 + [1] * 5 + [2] * 5 + [3] * 2 + [4] * 8, [(0, 2), (3, 4)]),
        ([0] * 10 + [9] * 10, [(0, 4), (5, 9)]),
        ([0] * 10 + [9] * 3, [(0, 9)]),
        ([0], [(0, 0)]),
        ([7], [(0, 7)]),
    ],
)
def test_bands_are_as_narrow_as_ten_instances_allow(layers, bands):
    frame = instances(*layers, s=(4, 8))
    table = looseness_table(looseness(certificates(frame, pl.lit(0.4), pl.lit(0.6)), frame))
    for s in (4, 8):
        mine = table.filter(s=s)
        assert list(zip(mine["first_layer"], mine["last_layer"], strict=True)) == bands
        assert mine["n"].sum() == len(layers)


def test_each_band_holds_its_own_medians():
    frame = toy_instances(documents=5, layers=4)
    rows = looseness(toy_certificates(frame), frame)
    table = looseness_table(rows)
    assert table["n"].sum() == rows.height
    for row in table.iter_rows(named=True):
        mine = rows.filter(pl.col("layer").is_between(row["first_layer"], row["last_layer"]), s=row["s"])
        assert row["looseness"] == pytest.approx(mine["looseness"].median())
        assert row["improved_known"] == mine["improved_known"].sum()


def test_a_tie_is_no_gain():
    frame = instances(0)
    rows = looseness(certificates(frame, pl.lit(0.8), pl.lit(0.8 * (1 - 1e-15))), frame)
    assert rows["looseness"].to_list() == [0.0]


def test_a_pool_below_what_masses_resolve_has_no_ratio():
    frame = pl.concat([instances(0), instances(1, e_pool=1e-9)])
    rows = looseness(certificates(frame, pl.lit(0.0), pl.lit(1e-10)), frame)
    assert rows["layer"].to_list() == [0]


@pytest.mark.parametrize("other", [0, 1])
def test_without_what_is_compared_it_says_what_to_run(other):
    frame = instances(0)
    mine = certificates(frame, pl.lit(0.4), pl.lit(0.6))
    pair = (mine.filter(pl.col("mass_floor") > 0), frame) if other else (mine, frame.clear())
    with pytest.raises(InputError, match=r"--mass-floor none and `ceiling enumerate` on the same dump"):
        looseness(*pair)
