"""Certificates that the analysis reads: what is refused, joined, counted once and left out."""

import polars as pl
import pytest

from ceiling.analysis.certificates import certified, floor_name
from ceiling.problem import InputError
from tests.toy_store import toy_certificates, toy_instances

INSTANCES = toy_instances(documents=3, layers=2)
CERTIFICATES = toy_certificates(INSTANCES, every=3)


def groups(certificates=CERTIFICATES, instances=INSTANCES):
    return list(certified(certificates, instances, draws=0))


def test_one_group_per_floor_and_budget_and_nothing_lost():
    found = groups()
    assert [(floor, g.s) for floor, g in found] == [(f, s) for f in (0.0, 0.5, 0.9) for s in (4, 8, 16, 32)]
    assert sum(g.rows.height + g.trivial + g.degenerate for _, g in found) == CERTIFICATES.height
    for _, group in found:
        assert group.rows["closable_lower"].null_count() == 0
        assert set(group.rows["status"]) <= {"optimal", "gap"}


def test_the_pool_of_the_same_instance_stands_beside_every_floor():
    e_pool = {
        row[:5]: row[5]
        for row in INSTANCES.select("document", "layer", "head", "position", "s", "e_pool").rows()
    }
    for _, group in groups():
        for row in group.rows.iter_rows(named=True):
            where = tuple(row[c] for c in ("document", "layer", "head", "position", "s"))
            assert row["e_pool"] == e_pool[where]
            assert row["closable_pool"] == pytest.approx(1 - row["e_pool"] / row["e_top"])


@pytest.mark.parametrize("instances", [None, INSTANCES.clear(), INSTANCES.with_columns(dump=pl.lit("other"))])
def test_without_the_instances_the_pool_is_null(instances):
    for _, group in groups(instances=instances):
        assert group.rows["e_pool"].null_count() == group.rows.height > 0
        assert group.rows.schema["resolved"] == pl.Boolean


def test_a_text_in_two_dumps_counts_once():
    named = CERTIFICATES.with_columns(text_id=pl.format("text {}", "document"))
    twice = pl.concat([named, named.with_columns(dump=pl.lit("second"))])
    heights = [g.rows.height for _, g in groups(twice)]
    assert heights == [g.rows.height for _, g in groups(named)]


def test_a_pool_below_what_is_proved_is_an_error_only_without_a_floor():
    low = pl.when(pl.col("status") == "exact").then(pl.col("e_pool") * 0.2).otherwise("e_pool")
    better = INSTANCES.with_columns(e_pool=low)
    with pytest.raises(InputError, match=r"es_lower .* of dump .*, s \d+ is above e_pool .*: one of the two"):
        groups(instances=better)
    floored = CERTIFICATES.filter(pl.col("mass_floor") > 0)
    assert groups(floored, better)


@pytest.mark.parametrize(
    ("certificates", "instances", "words"),
    [
        (CERTIFICATES.drop("es_lower"), None, "no column 'es_lower'"),
        (CERTIFICATES.clear(), None, "the store holds none; run `ceiling certify`"),
        (
            CERTIFICATES.with_columns(es_upper=float("nan")),
            None,
            "es_upper holds a number that is not finite",
        ),
        (
            pl.concat([CERTIFICATES, CERTIFICATES.with_columns(config=pl.lit("d" * 8))]),
            None,
            "configurations cccccccc, dddddddd",
        ),
        (CERTIFICATES, pl.concat([INSTANCES, INSTANCES]), "a row stands there twice"),
    ],
)
def test_frames_that_are_refused(certificates, instances, words):
    with pytest.raises(InputError, match=words):
        groups(certificates, instances)


def test_floors_are_named_as_on_the_command_line():
    assert [floor_name(f) for f in (0.0, 0.5, 0.9, 1.0)] == ["none", "0.5", "0.9", "1"]
