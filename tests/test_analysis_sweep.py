"""The widening sweep's table: by hand, paired rows and intervals, work counted from pool sizes."""

from math import comb

import polars as pl
import pytest

from ceiling.analysis import sweep_table
from ceiling.objective import default_extra
from ceiling.problem import InputError
from tests.toy_store import hand_made, toy_instances


def pool(extra, *e_pool, s=8, config="c", **given):
    """Hand-made instances of one pool, one per head: errors of the pool optimum where top-mass's is 1."""
    common = {"s": s, "config": config, "pool_size": s + extra, "seconds": 0.5}
    rows = [
        common | {"head": head, "e_pool": e, "e_balance": e} | {k: v[head] for k, v in given.items()}
        for head, e in enumerate(e_pool)
    ]
    return hand_made(*rows).with_columns(extra=pl.lit(extra, pl.Int64))


def widened(frame, by=0.99):
    """`frame` as the default pool, and one with a candidate more whose errors are `by` times as large."""
    sizes = pl.col("s").replace_strict({s: default_extra(s) for s in frame["s"].unique()})
    default = frame.with_columns(extra=sizes, pool_size=pl.col("s") + sizes)
    wide = default.with_columns(
        pl.col("extra", "pool_size") + 1,
        config=pl.lit("wide"),
        e_pool=pl.col("e_pool") * by,
        closable=1 - (1 - pl.col("closable")) * by,
    )
    return pl.concat([default, wide])


def test_by_hand():
    frame = pl.concat([pool(12, 1.0, 0.95, 0.8, 0.5), pool(13, 1.0, 0.85, 0.8, 0.4, config="w")])
    before, after = sweep_table(frame).iter_rows(named=True)
    assert (before["extra"], before["default"], after["extra"], after["default"]) == (12, True, 13, False)
    assert (before["closable"], after["closable"]) == pytest.approx(((0.05 + 0.2) / 2, (0.15 + 0.2) / 2))
    assert (before["change"], after["change"]) == pytest.approx((0, 0.05))
    assert after["relative"] == pytest.approx(0.05 / 0.125)
    assert (before["label_rate"], after["label_rate"]) == (0.5, 0.75)
    assert (before["better"], after["better"]) == (0, 0.5)
    assert (after["pool_size"], after["subsets"], after["seconds"]) == (21, comb(21, 8), 0.5)
    assert (after["evaluated"], after["excluded"]) == (4 * comb(21, 8), 0)


def test_a_tie_is_no_better_set():
    frame = pl.concat([pool(12, 0.5, 0.5), pool(13, 0.5 * (1 - 1e-13), 0.5 * (1 - 1e-11), config="w")])
    assert sweep_table(frame)["better"].to_list() == [0, 0.5]


def test_what_is_excluded_by_proof_was_not_evaluated():
    frame = pl.concat([pool(12, 0.9, 0.8), pool(13, 0.9, 0.8, config="w")])
    excluded = pl.Series("excluded", [None, None, 1_000, None], dtype=pl.Int64)
    table = sweep_table(frame.with_columns(excluded))
    assert table["excluded"].to_list() == [0, 1_000]
    assert table["evaluated"].to_list() == [2 * comb(20, 8), 2 * comb(21, 8) - 1_000]
    assert sweep_table(frame.drop("excluded", strict=False))["excluded"].to_list() == [0, 0]


def test_only_rows_that_every_pool_holds_and_judges_alike_are_compared():
    status = ["exact", "exact", "degenerate"]
    frame = pl.concat([pool(12, 0.9, 0.5, 0.5), pool(13, 0.8, 0.4, 0.4, config="w", status=status)])
    assert sweep_table(frame)["n"].to_list() == [2, 2]
    fewer = frame.filter(~((pl.col("extra") == 12) & (pl.col("head") == 1)))
    table = sweep_table(fewer)
    assert table["n"].to_list() == [1, 1]
    assert table["closable"].to_list() == pytest.approx([0.1, 0.2])


def test_the_order_of_the_rows_is_nothing():
    frame = widened(toy_instances(documents=2, budgets=(4, 8)), by=0.9)
    assert sweep_table(frame.sample(fraction=1, shuffle=True, seed=0)).equals(sweep_table(frame))


def test_intervals_are_paired():
    table = sweep_table(widened(toy_instances(documents=6, budgets=(8,)), by=0.9))
    row = table.row(1, named=True)
    assert row["interval"].startswith("95%")
    # The closable share of every row moves by a tenth of what is left, documents drawn or not.
    assert row["change_low"] <= row["change"] == pytest.approx(0.1 * (1 - table["closable"][0]))
    assert row["change_high"] - row["change_low"] == pytest.approx(
        0.1 * (table["closable_high"][0] - table["closable_low"][0])
    )
    assert (row["better"], row["better_low"], row["better_high"]) == (1, 1, 1)


def test_a_default_of_which_nothing_is_closable_has_no_relative_change():
    frame = pl.concat([pool(12, 1.0, 1.0), pool(13, 0.9, 0.9, config="w")])
    assert sweep_table(frame)["relative"].to_list() == [None, None]


def test_tables_hold_nulls_and_never_nan():
    trivial = {"status": ["trivial"]}
    frame = pl.concat([pool(12, 0.0, **trivial), pool(13, 0.0, config="w", **trivial)])
    table = pl.concat([sweep_table(widened(toy_instances(documents=3))), sweep_table(frame)])
    assert table["n"][-1] == 0
    for column in table.iter_columns():
        assert column.dtype != pl.Null
        if column.dtype == pl.Float64:
            assert column.drop_nulls().is_finite().all()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pool(12, 0.9).drop("extra"), "no column 'extra'"),
        (pool(13, 0.9), r"extra: the default pool, s=8 \+ 12, is missing"),
        (pl.concat([pool(12, 0.9), pool(12, 0.9, config="w")]), "configurations c, w"),
        (
            pl.concat([pool(12, 0.9, document=[0]), pool(13, 0.9, document=[1], config="w")]),
            "no row is in all pools",
        ),
        (pool(12, 0.9).clear(), "no row is in all pools"),
    ],
)
def test_frames_that_are_no_sweep(frame, words):
    with pytest.raises(InputError, match=words):
        sweep_table(frame)
