"""The certification table: by hand, against the paper's own bounds, caps that no raise exceeds."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceiling.analysis import certification_table
from ceiling.analysis.certification import cap, wilson_high
from ceiling.cli.figures import scripts_folder
from tests.toy_store import hand_made, toy_certificates, toy_instances

PAPER = pl.read_csv(scripts_folder() / "reference" / "forced_weights_table7_certification.csv")


def made(*rows, pool=None, floor=0.0):
    """Certificates of e_top = 1 by (lower, upper, status), and instances whose pool is 0.9 or as said."""
    pool = [0.9] * len(rows) if pool is None else pool
    instances = hand_made(*({"head": h, "e_pool": e, "e_balance": e} for h, e in enumerate(pool)))
    lower, upper, status = (pl.Series(column) for column in zip(*rows, strict=True))
    certificates = toy_certificates(instances, floors=(floor,)).with_columns(
        es_lower=lower,
        es_upper=upper,
        status=status,
        closable_lower=1 - upper,
        closable_upper=1 - lower,
        seconds=pl.Series(range(len(rows)), dtype=pl.Float64),
    )
    return certificates, instances


def test_by_hand():
    certificates, instances = made(
        (0.9, 0.9, "optimal"),  # the pool's is the best
        (0.895, 0.895, "optimal"),  # better, but by less than 1%
        (0.8, 0.8, "optimal"),  # better
        (0.7, 0.8, "gap"),  # better, how much is open
        (0.5, 0.9, "gap"),  # undecided
        (0.895, 0.9, "gap"),  # open, but 1% is ruled out
    )
    row = certification_table(certificates, instances, draws=0).row(0, named=True)
    assert (row["mass_floor"], row["s"], row["n"], row["n_pool"]) == (0.0, 8, 6, 6)
    assert (row["solved"], row["improved"], row["improved_known"]) == (3, 1, 2)
    assert (row["undecided"], row["confirmed"]) == (1, 1)
    assert row["wilson95_high"] == wilson_high(1, 3)
    assert row["median_closable"] == pytest.approx(0.1)
    assert row["closable_lower"] == pytest.approx(np.median([0.1, 0.105, 0.2, 0.2, 0.1, 0.1]))
    assert row["closable_upper"] == pytest.approx(np.median([0.1, 0.105, 0.2, 0.3, 0.5, 0.105]))
    assert row["lower_over_upper"] == pytest.approx(np.median([1, 1, 1, 0.7 / 0.8, 0.5 / 0.9, 0.895 / 0.9]))
    assert (row["seconds"], row["seconds_p90"]) == (2.5, 4.5)


def test_caps_are_quantiles_of_the_pool_s_shares():
    pool = np.linspace(0.99, 0.5, 41)
    certificates, instances = made(*((e, e, "optimal") for e in pool[:-1]), (0.1, 0.5, "gap"), pool=pool)
    row = certification_table(certificates, instances, draws=0).row(0, named=True)
    shares = 1 - pool
    assert (row["improved"], row["undecided"]) == (0, 1)
    assert row["cap_at_wilson"] == pytest.approx(cap(shares, wilson_high(0, 40)))
    assert row["cap_unsolved_improved"] == pytest.approx(cap(shares, wilson_high(1, 41)))
    assert row["median_closable"] < row["cap_at_wilson"] < row["cap_unsolved_improved"]


def test_without_a_pool_better_is_than_top_mass_and_there_is_no_cap():
    certificates, _ = made((0.9, 0.9, "optimal"), (1.0, 1.0, "optimal"))
    row = certification_table(certificates, draws=0).row(0, named=True)
    assert (row["n_pool"], row["improved"], row["confirmed"]) == (0, 1, 1)
    assert [row[c] for c in ("median_closable", "cap_at_wilson", "cap_unsolved_improved")] == [None] * 3
    assert row["closable_lower"] == pytest.approx(0.05)


def test_an_error_of_zero_is_as_close_as_can_be():
    certificates, instances = made((0.0, 0.0, "optimal"))
    assert certification_table(certificates, instances, draws=0)["lower_over_upper"][0] == 1


def test_a_light_set_keeps_less_than_half_of_top_mass_s_mass():
    certificates, instances = made(*[(0.9, 0.9, "optimal")] * 4)
    shares = pl.Series([0.01, 0.499, 0.5, 1.2])
    table = certification_table(certificates.with_columns(top_share=shares), instances, draws=0)
    assert table["light"].to_list() == [0.5]


@pytest.mark.parametrize("row", PAPER.to_dicts(), ids=lambda row: f"s{row['s']}")
def test_wilson_bounds_are_the_papers(row):
    assert wilson_high(row["improved"], row["solved"]) == pytest.approx(row["wilson95_high"], abs=5e-4)


def test_wilson_of_nothing():
    assert wilson_high(0, 0) is None
    assert wilson_high(5, 5) == pytest.approx(1)
    assert cap(np.empty(0), 0.1) is cap(np.ones(3), None) is None


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30),
    st.data(),
)
def test_no_raise_of_so_many_shares_exceeds_the_cap(values, data):
    shares = np.array(values)
    raised = data.draw(st.lists(st.integers(0, len(values) - 1), unique=True))
    bound = cap(shares, len(raised) / len(values))
    after = shares.copy()
    after[raised] = [data.draw(st.floats(values[i], 1)) for i in raised]
    assert np.median(after) <= bound * (1 + 1e-12)
    assert cap(shares, 0.0) == pytest.approx(np.median(shares))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.data())
def test_a_cap_is_reached(values, data):
    """No smaller number holds for all ways to raise k shares: raising the k smallest to 1 attains it."""
    k = data.draw(st.integers(0, (len(values) - 1) // 2))
    shares = np.sort(values)
    after = np.concatenate([shares[k:], np.ones(k)])
    assert np.median(after) == pytest.approx(cap(shares, k / len(values)))


def test_the_true_median_lies_between_the_ends():
    instances = toy_instances(documents=5)
    certificates = toy_certificates(instances)
    table = certification_table(certificates, instances, draws=50)
    assert table.height == 12
    assert (table["closable_lower"] <= table["closable_upper"]).all()
    assert (table["closable_lower_low"] <= table["closable_lower"]).all()
    assert (table["closable_lower"] >= table["median_closable"] - 1e-12).all()  # a pool's set is known too
    assert (table["median_closable_low"] <= table["median_closable"]).all()
    assert (table["median_closable"] <= table["median_closable_high"]).all()
    assert (table["cap_at_wilson"] <= table["cap_unsolved_improved"]).all()


def test_tables_hold_nulls_and_never_nan():
    trivial = hand_made({"status": "trivial", "e_top": 0.0, "e_pool": 0.0})
    table = certification_table(toy_certificates(trivial), trivial)
    assert (table["n"].to_list(), table["trivial"].to_list()) == ([0] * 3, [1] * 3)
    for column in table.iter_columns():
        assert column.dtype != pl.Null
        if column.dtype == pl.Float64:
            assert column.drop_nulls().is_finite().all()
