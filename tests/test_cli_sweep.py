"""``ceiling sweep`` on a toy dump: pools planned once, shards kept, the table true to the store."""

import json
from pathlib import Path

import polars as pl
import pytest

from ceiling.cli import main
from ceiling.cli.sweep import widths
from ceiling.dump import open_dump
from ceiling.store import open_store
from tests.toy_dump import write_toy_dump

COMMAND = ("--budgets", "4,8", "--caps", "500,40000")


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(scope="module")
def swept(dump, tmp_path_factory) -> Path:
    """A folder with `store` and `out`; another dump had been enumerated into the store before."""
    folder = tmp_path_factory.mktemp("swept")
    other = write_toy_dump(folder / "other", seed=1)
    assert (
        main(["enumerate", "--dump", str(other), "--store", str(folder / "store"), "--budgets", "4,8"]) == 0
    )
    assert main(command(dump, folder)) == 0
    return folder


def command(dump: Path, folder: Path, *more: str) -> list[str]:
    where = ["--dump", str(dump), "--store", str(folder / "store"), "--out", str(folder / "out")]
    return ["sweep", *where, *COMMAND, *more]


def planned(dump: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Extras by configuration of the swept dump."""
    records = (folder / "store" / "instances" / f"dump={open_dump(dump).id}").glob("config=*/config.json")
    return {p.parent.name.removeprefix("config="): json.loads(p.read_text())["extras"] for p in records}


def stored(dump: Path, folder: Path) -> pl.DataFrame:
    """What the store holds of the swept dump, with `extra`, read without the sweep's own code."""
    frames = []
    for config, extras in planned(dump, folder).items():
        extra = pl.col("s").cast(pl.String).replace_strict(extras, return_dtype=pl.Int64)
        frames.append(open_store(folder / "store", config).instances.with_columns(extra=extra))
    return pl.concat(frames).filter(dump=open_dump(dump).id).collect()


def test_widths_of_the_paper():
    default, narrow, *caps = widths([32, 16, 8, 4], [5_000_000, 200_000])
    assert default.extras == {4: 24, 8: 12, 16: 6, 32: 4}
    assert narrow.extras == dict.fromkeys((4, 8, 16, 32), 4)
    assert [c.name for c in caps] == ["cap 200,000", "cap 5,000,000"]
    assert caps[0].extras == {4: 44, 8: 12, 16: 6, 32: 4}
    assert caps[1].extras == {4: 102, 8: 21, 16: 9, 32: 6}


def test_the_narrowest_is_nowhere_wider_than_the_default():
    default, narrow = widths([64, 256], [])
    assert narrow.extras == default.extras


def test_every_pool_is_enumerated_once_and_the_default_as_a_whole(dump, swept):
    extras = planned(dump, swept).values()
    assert {"4": 24, "8": 12} in extras
    assert sorted(tuple(e.items()) for e in extras) == [
        (("4", 4), ("8", 4)),
        (("4", 8),),  # a cap of 500 also gives 4 candidates at s = 8
        (("4", 24), ("8", 12)),
        (("4", 28), ("8", 9)),
    ]


def test_a_second_run_computes_nothing_and_writes_the_same(dump, swept, capsys):
    def shards():
        return {p: p.stat().st_mtime_ns for p in (swept / "store").rglob("*.parquet")}

    before, files = shards(), {p: p.read_bytes() for p in (swept / "out").iterdir()}
    assert sorted(p.name for p in files) == ["sweep.csv", "sweep.md", "sweep.pdf", "sweep.png"]
    capsys.readouterr()
    assert main(command(dump, swept)) == 0
    assert capsys.readouterr().out.count("nothing to do: all 4 shards exist") == 4
    assert shards() == before
    assert {p: p.read_bytes() for p in (swept / "out").iterdir()} == files


def test_the_table_is_the_stores(dump, swept):
    table = pl.read_csv(swept / "out" / "sweep.csv")
    rows = stored(dump, swept).filter(status="exact")
    label = (pl.col("kappa") > 1.11) | pl.col("kappa").is_null()
    expected = (
        rows.group_by("s", "extra")
        .agg(
            n=pl.len(),
            closable=pl.col("closable").median(),
            label_rate=label.mean(),
            seconds=pl.col("seconds").mean(),
            evaluated=pl.col("subsets").sum(),
        )
        .sort("s", "extra")
    )
    for name in expected.columns:
        assert table[name].to_list() == pytest.approx(expected[name].to_list()), name
    assert table["width"].to_list() == [
        *("at most 4", "cap 500", "default", "cap 40,000"),
        *("at most 4, cap 500", "cap 40,000", "default"),
    ]


def test_a_wider_pool_is_worse_on_no_row(dump, swept):
    rows = stored(dump, swept).sort("extra")
    within = ("document", "layer", "head", "position", "s")
    worse = rows.select(pl.col("e_pool").diff().over(within) > 1e-12 * pl.col("e_top"))
    assert not worse.to_series().any()
    assert rows.select((pl.col("e_pool").diff().over(within) < 0).any()).item()  # some find better sets


def test_the_papers_numbers_stand_beside(dump, swept, capsys):
    assert main(command(dump, swept)) == 0
    out = capsys.readouterr().out
    assert "the median moves by less than 1%" in out
    assert "label rate 35.6 -> 37.8 -> 38.7%" in out
    text = (swept / "out" / "sweep.md").read_text()
    assert "| 2608.25230 | label_rate | – | 3 | 0.387 |" in text
    assert "toy: n = 96 instances of 2 documents" in text
    assert "nan" not in text
    assert "null" not in text


def test_a_dry_run_does_nothing(dump, tmp_path, capsys):
    assert main(command(dump, tmp_path, "--dry-run")) == 0
    out = capsys.readouterr().out
    assert out.count("4 of 4 shards to do") == 4
    assert "cap 40,000: s=4 + 28, s=8 + 9" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--caps", "many"), ("caps", "'many'")),
        (("--caps", "0"), ("caps: 0 is not positive",)),
        (("--caps", "100000000000"), ("cap: 100000000000 subsets",)),
        (("--budgets", "4,4"), ("budgets", "4 is repeated")),
        (("--dump", "nowhere"), ("nowhere",)),
        (("--out", __file__), ("out", "test_cli_sweep.py")),
    ],
)
def test_sweeps_that_are_none(dump, tmp_path, capsys, options, words):
    assert main(command(dump, tmp_path, *options)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []
