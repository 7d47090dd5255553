"""The zero-error question on a dump: rounding, columns, resumption, bad input, the command line."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ceiling
from ceiling.certify import exact
from ceiling.certify.quantised import quantise
from ceiling.cli import main
from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import zero_error as stage
from tests.toy_dump import HEADS, LAYERS, ROWS, write_toy_dump

BUDGETS, BITS = (2, 20), (3, 6)
KEY = ["document", "layer", "head", "position", "s", "bits"]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


def decide_all(plan: stage.Plan) -> list[stage.Done]:
    return list(stage.run(plan))


def answers(store: Path) -> pl.DataFrame:
    return ceiling.open_store(store).table("zero_errors").sort(KEY).collect()


@pytest.fixture(scope="module")
def store(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("stores") / "store"
    decide_all(stage.plan(dump, store, BUDGETS, BITS))
    return store


def test_rounding_keeps_what_has_mass():
    row = ceiling.Row([0.5, 0.3, 0.199, 0.001], [[1.0, -0.5], [0.25, 1.0], [0.0, -1.0], [0.75, 0.3]])
    keys = quantise(row, 4)
    assert keys.positions == [0, 1, 2]
    assert keys.masses == [8, 5, 3]
    assert keys.points == [(7, -4), (2, 7), (0, -7)]  # 3.5 is rounded to even, 1.75 up
    assert len(quantise(ceiling.Row(np.full(100, 0.01), np.ones((100, 1))), 2)) == 0
    assert quantise(ceiling.Row([1.0, 0.0], [[0.0], [5.0]]), 8).points == [(0,)]
    with pytest.raises(InputError, match=r"bits: 1 is outside 2\.\.16"):
        quantise(row, 1)
    with pytest.raises(InputError, match=r"bits: 4\.0 is not a whole number"):
        quantise(row, 4.0)


def test_every_instance_is_there_once_and_right(store: Path, dump: Path):
    frame = answers(store)
    assert len(frame) == 2 * LAYERS * HEADS * ROWS * len(BUDGETS) * len(BITS)
    assert frame.select(KEY).is_unique().all()
    assert set(frame["status"]) == {"no", "trivial"}
    document = open_dump(dump).document(1)
    for got in frame.filter(document=1, s=2).iter_rows(named=True):
        r = document.query_positions.tolist().index(got["position"])
        row = document.row(got["layer"], got["head"], r)
        keys = quantise(row, got["bits"])
        assert (got["n_keys"], got["rounded_keys"]) == (row.n_keys, len(keys))
        assert (got["status"] == "trivial") == (len(keys) <= 2)
        if len(keys) <= 2:
            assert got["kept"] == keys.positions
            continue
        p, v = np.array(keys.masses, dtype=object), np.array(keys.points, dtype=object)
        moved = [p[j] * (p.sum() * v[j] - p @ v) for j in range(len(p))]
        zeros = [
            pair for pair in combinations(range(len(p)), 2) if not (moved[pair[0]] + moved[pair[1]]).any()
        ]
        assert got["status"] == ("yes" if zeros else "no")


def test_a_yes_carries_positions_of_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dump: Path):
    """Values that lie on a line, in pairs about the middle: a pair is a zero."""
    real = ceiling.dump.Document.row
    monkeypatch.setattr(
        "ceiling.dump.reader.Document.row",
        lambda self, *which: ceiling.Row(
            np.array([0.0, *[0.25] * 4]), np.array([[9.0], [1.0], [2.0], [3.0], [4.0]])
        ),
    )
    decide_all(stage.plan(dump, tmp_path, (2,), (3,), rows=1))
    monkeypatch.setattr("ceiling.dump.reader.Document.row", real)
    for got in answers(tmp_path).iter_rows(named=True):
        points = np.rint(np.array([1, 2, 3, 4]) * 3 / 4).astype(int).tolist()
        assert got["status"] == "yes"
        mean = Fraction(sum(points), 4)
        assert sum(points[j - 1] for j in got["kept"]) == 2 * mean


def test_rows_are_drawn_by_seed(dump: Path, tmp_path: Path):
    frames = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        decide_all(stage.plan(dump, tmp_path / name, (2,), (3,), rows=2, seed=seed))
        frames.append(answers(tmp_path / name).drop("seconds", "host"))
    assert len(frames[0]) == 2 * LAYERS * 2
    assert_frame_equal(frames[0], frames[1])
    assert not frames[0].select(KEY).equals(frames[2].select(KEY))
    every = stage.plan(dump, tmp_path, (2,), (3,), rows=HEADS * ROWS)
    assert every.config == stage.plan(dump, tmp_path, (2,), (3,)).config


def test_a_second_run_has_nothing_to_do_and_a_hole_is_filled(store: Path, dump: Path):
    before = answers(store)
    assert stage.plan(dump, store, BUDGETS, BITS).todo == ()
    sorted(store.glob("zero_errors/**/*.parquet"))[2].unlink()
    again = stage.plan(dump, store, BUDGETS, BITS)
    assert again.todo == (stage.Unit(1, 0),)
    decide_all(again)
    assert_frame_equal(answers(store).drop("seconds", "host"), before.drop("seconds", "host"))


def test_bits_budgets_and_limits_are_part_of_the_identity(dump: Path, store: Path):
    plan = stage.plan(dump, store, BUDGETS, BITS)
    options: tuple[dict, ...] = (
        {"bits": (3,)},
        {"budgets": (2,)},
        {"work": 1.0},
        {"seconds": 1.0},
        {"rows": 1},
    )
    for option in options:
        other = stage.plan(dump, store, **({"budgets": BUDGETS, "bits": BITS} | option))
        assert other.config != plan.config
        assert len(other.todo) == len(other.units)
    whole = stage.plan(dump, store, BUDGETS, BITS, seconds=60, work=10**9)
    assert whole.config == stage.plan(dump, store, BUDGETS, BITS, seconds=60.0, work=1e9).config


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"bits": ()}, "bits: "),
        ({"bits": (8, 8)}, "bits: .*each once"),
        ({"bits": (40,)}, "bits: 40 is outside"),
        ({"budgets": (0,)}, "budgets: 0 is not positive"),
        ({"rows": 0}, "rows: 0 is outside 1..12"),
        ({"rows": 13}, "rows: 13 is outside 1..12"),
        ({"seed": -1}, "seed: -1"),
        ({"seconds": 0}, "seconds: 0 is not a positive number"),
        ({"work": -1.0}, "work: -1.0"),
    ],
)
def test_bad_options_are_refused_before_work(dump: Path, tmp_path: Path, options: dict, why: str):
    with pytest.raises(InputError, match=why):
        stage.plan(dump, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_budget_beyond_every_row_is_refused(dump: Path, tmp_path: Path):
    with pytest.raises(InputError, match="budgets: 49 keys are more than the 48"):
        stage.plan(dump, tmp_path / "store", (2, 49))


def test_a_bad_row_is_named_and_finished_shards_stay(tmp_path: Path):
    dump = write_toy_dump(tmp_path / "dump", spoil="nan")
    with pytest.raises(InputError, match=r"document 0, layer 1, head 1, row 2: .*not finite"):
        decide_all(stage.plan(dump, tmp_path / "store", BUDGETS, BITS))
    shards = list((tmp_path / "store").glob("zero_errors/**/*.parquet"))
    assert [path.name for path in shards] == ["doc-00000.layer-00.parquet"]


def test_the_command_line(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = [
        "zero-error",
        "--dump",
        str(dump),
        "--store",
        str(tmp_path / "s"),
        "--budgets",
        "2",
        "--bits",
        "4",
    ]
    assert main([*command, "--dry-run"]) == 0
    assert "4 of 4 shards" in capsys.readouterr().out
    assert not (tmp_path / "s").exists()
    assert main([*command, "--rows", "2"]) == 0
    assert "4 shards, 8 instances (" in capsys.readouterr().out
    assert main([*command, "--rows", "2"]) == 0
    assert capsys.readouterr().out.startswith("nothing to do: all 4 shards exist")
    assert main([*command, "--bits", "4,x"]) == 2
    assert capsys.readouterr().err == (
        "ceiling: bits: 'x' is not a whole number; write them out, separated by commas\n"
    )
    assert main(["query", "SELECT count(*) AS n FROM zero_errors", "--store", str(tmp_path / "s")]) == 0
    assert "8" in capsys.readouterr().out
    assert main(["store", "check", "--store", str(tmp_path / "s")]) == 0
    assert capsys.readouterr().out == "clean: 8 parquet files; 8 zero_errors, 2 documents, 6 rows\n"
    assert main([*command, "--rows", "1"]) == 0
    announced = " ".join(capsys.readouterr().err.split())
    assert "store now holds 2 configurations of zero_errors: " in announced


@pytest.mark.parametrize("options", [[], ["--rows", "2", "--seed", "3"], ["--work", "1.5", "--seconds", "7"]])
def test_store_check_says_what_answers_lost_questions(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
):
    store = ["--dump", str(dump), "--store", str(tmp_path)]
    assert main(["zero-error", *store, "--budgets", "2,20", "--bits", "3", *options]) == 0
    before = answers(tmp_path)
    sorted(tmp_path.glob("zero_errors/**/*.parquet"))[1].unlink()
    capsys.readouterr()
    assert main(["store", "check", *store]) == 1
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["ceiling", "zero-error"]
    assert main(command[1:]) == 0
    assert_frame_equal(answers(tmp_path).drop("seconds", "host"), before.drop("seconds", "host"))
    assert main(["store", "check", *store]) == 0


def test_what_another_cp_sat_answered_is_not_promised(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    store = ["--dump", str(dump), "--store", str(tmp_path)]
    assert main(["zero-error", *store, "--budgets", "2", "--rows", "1"]) == 0
    next(tmp_path.glob("zero_errors/**/*.parquet")).unlink()
    capsys.readouterr()
    monkeypatch.setattr(stage, "engine_version", lambda: "9.99")
    assert main(["store", "check", *store]) == 1
    assert "made by another version of this program, engine 1, or of CP-SAT, " in capsys.readouterr().out


def test_the_command_line_has_the_library_s_limits(dump: Path, tmp_path: Path):
    command = ["zero-error", "--dump", str(dump), "--store", str(tmp_path), "--budgets", "2", "--rows", "1"]
    assert main(command) == 0
    assert stage.plan(dump, tmp_path, (2,), rows=1).todo == ()
    assert (stage.SECONDS, stage.WORK) == (exact.SECONDS, exact.WORK)
