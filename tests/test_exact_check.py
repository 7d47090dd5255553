"""The brute-force check run by hand: silent on a right store, and it sees what is wrong in a wrong one."""

import polars as pl
import pytest

from ceiling.dump import open_dump
from ceiling.objective import centre
from ceiling.stages import enumerate as stage
from ceiling.store import open_store
from tests import exact_check
from tests.toy_dump import write_toy_dump


@pytest.fixture(scope="module")
def enumerated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    plan = stage.plan(write_toy_dump(folder / "dump"), folder / "store", budgets=(1, 4, 12), extra=5)
    for _ in stage.run(plan):
        pass
    return plan


def test_every_stored_minimum_is_brute_forces(enumerated, capsys):
    assert exact_check.main([str(enumerated.dump), str(enumerated.store), "--instances", "40"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"s={s}: 40 instances compared" for s in (1, 4, 12)]


def test_wrong_answers_are_seen(enumerated):
    """A right answer, then one with each of its claims bent."""
    four = (pl.col("s") == 4) & (pl.col("status") == "exact") & (pl.col("e_pool") < 0.99 * pl.col("e_top"))
    found = open_store(enumerated.store).instances.filter(four).collect().row(0, named=True)
    document = open_dump(enumerated.dump).document(found["document"])
    r = document.query_positions.tolist().index(found["position"])
    row = centre(document.row(found["layer"], found["head"], r))
    assert exact_check.disagreement(row, 4, 5, found) is None
    for bent in (
        {"e_pool": found["e_top"]},
        {"e_pool": found["e_pool"] * (1 - 1e-9)},
        {"kept_pool": found["kept_top"]},
        {"subsets": found["subsets"] - 1},
        {"pool_size": found["pool_size"] + 1},
    ):
        assert exact_check.disagreement(row, 4, 5, found | bent) is not None


def test_sets_by_rank():
    sets = [exact_check.set_of_rank(6, 3, rank) for rank in range(20)]
    assert sets == sorted(sets)
    assert len(set(sets)) == 20
    assert all(len(kept) == 3 and kept[-1] < 6 for kept in sets)
