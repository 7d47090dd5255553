"""``ceiling certify``: what it draws, proves, replays and refuses."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from ceiling import open_store
from ceiling.certify.manifest import Instance, read_manifest
from ceiling.cli import main
from ceiling.cli.query import Format, as_text
from ceiling.dump import open_dump
from ceiling.stages import certify as stage
from tests.test_cli import Run, refused, run  # noqa: F401
from tests.toy_certify import toy_certify, toy_check
from tests.toy_dump import LAYERS, write_toy_dump


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "certify", toy_certify)
    monkeypatch.setitem(sys.modules, "ceiling.certify.check", SimpleNamespace(check_proof=toy_check))


def test_help_says_what_an_unrestricted_optimum_is(run: Run):  # noqa: F811
    code, out, _ = run("certify", "--help")
    text = " ".join(out.split())
    assert code == 0
    assert "tail keys of negligible mass" in text
    assert "--mass-floor none,0.9,0.5" in text


def test_a_whole_dump_is_certified_and_replayed(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    command = ("certify", "--dump", dump, "--store", tmp_path, "--budgets", "2", "--mass-floor", "none,0.9")
    code, out, _ = run(*command)
    assert code == 0
    assert f"{2 * LAYERS} shards, 96 instances, 0 proved optimal, 672 nodes" in out
    assert run(*command)[1].startswith("nothing to do: all 4 shards exist")
    code, out, _ = run("certify", "--check", "--dump", dump, "--store", tmp_path)
    assert code == 0
    assert out.startswith("40 of 40 proofs accepted")
    assert "(96 in the store)" in out
    assert run("certify", "--check", "--dump", dump, "--store", tmp_path, "--sample", "3")[1].startswith(
        "3 of 3"
    )
    assert run("certify", "--check", "--dump", dump, "--store", tmp_path, "--all")[1].startswith("96 of 96")
    code, out, _ = run("store", "check", "--store", tmp_path)
    assert (code, out.split(":")[0]) == (0, "clean")


def test_a_rejected_proof_is_named_and_ends_in_code_1(
    run: Run,  # noqa: F811
    dump: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    run("certify", "--dump", dump, "--store", tmp_path, "--budgets", "2")

    def check(*certificate: Any) -> str | None:
        return "leaf 3 has margin -1" if certificate[3] == lowest else None

    lowest = open_store(tmp_path).certificates.select(pl.col("es_lower").min()).collect().item()
    monkeypatch.setitem(sys.modules, "ceiling.certify.check", SimpleNamespace(check_proof=check))
    code, out, _ = run("certify", "--check", "--dump", dump, "--store", tmp_path, "--all")
    assert code == 1
    assert out.startswith("rejected: document ")
    assert "mass floor 0: leaf 3 has margin -1\n47 of 48 proofs accepted" in out


def test_a_manifest_is_written_before_the_first_solve(
    run: Run,  # noqa: F811
    dump: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "store-certify-20-seed-3.csv"
    command = (
        *("certify", "--dump", dump, "--store", tmp_path / "store"),
        *("--instances", 20, "--seed", 3, "--budgets", "2,4"),
    )
    code, out, _ = run(*command, "--dry-run")
    assert code == 0
    assert "20 intervals to prove" in out
    assert list(tmp_path.iterdir()) == []

    def solve(*_: Any, **__: Any) -> None:
        assert len(read_manifest(path, [open_dump(dump)]).instances) == 20
        raise ZeroDivisionError("the solver")

    with monkeypatch.context() as patch:
        patch.setattr(stage, "certify", solve)
        code, _, err = run(*command)
    assert (code, err.splitlines()[-1]) == (1, "ceiling: ZeroDivisionError: the solver (--debug shows where)")
    assert f"manifest {path}: 20 instances drawn" in " ".join(err.split())
    written = path.read_bytes()
    assert run(*command)[0] == 0
    assert path.read_bytes() == written
    assert run("certify", "--dump", dump, "--store", tmp_path / "store", "--manifest", path, "--seed", 3)[
        1
    ].startswith("nothing to do")
    assert open_store(tmp_path / "store").certificates.collect().height == 20


def test_bad_options_end_in_one_line(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    store, absent = tmp_path / "store", tmp_path / "absent.csv"
    drawn, foreign = tmp_path / "drawn.csv", tmp_path / "foreign.csv"
    command = ("certify", "--dump", dump, "--store", store)
    assert run(*command, "--manifest", drawn, "--instances", 20, "--budgets", "2")[0] == 0
    before = open_store(store).certificates.collect().height
    foreign.write_text(",".join(Instance._fields) + "\n")
    refused(run("certify", "--store", store), "--dump")
    refused(run(*command, "--mass-floor", "0.9,most"), "mass-floor: 'most' is neither a number nor none")
    refused(run(*command, "--mass-floor", "2"), "mass-floor: 2.0 is outside")
    refused(run(*command, "--nodes", 0), "nodes: 0 is not positive")
    refused(run(*command, "--budgets", "4,x"), "budgets: 'x' is not a whole number")
    refused(run(*command, "--manifest", absent), f"no file {absent}", "--instances N draws one")
    refused(run(*command, "--manifest", drawn, "--budgets", "2"), "budgets", "has its instances")
    refused(run(*command, "--manifest", drawn, "--instances", 30, "--budgets", "2"), "holds other instances")
    refused(run(*command, "--manifest", foreign), "has no instance of dump")
    refused(run(*command, "--least-keys", 9), "least-keys: of a draw")
    refused(run(*command, "--instances", 10_000), "instances: 10000 are")
    refused(run(*command, "--sample", 3), "only with --check")
    refused(run(*command, "--check", "--sample", 3, "--all"), "give one")
    assert open_store(store).certificates.collect().height == before


def test_store_check_says_what_makes_lost_certificates(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    run("certify", "--dump", dump, "--store", tmp_path, "--budgets", "2,4", "--mass-floor", "none,0.5")
    lost = sorted(tmp_path.glob("certificates/**/*.parquet"))[1]
    before = pl.read_parquet(lost)
    lost.unlink()
    code, out, _ = run("store", "check", "--store", tmp_path, "--dump", dump)
    assert code == 1
    command = out.splitlines()[-1].split()
    assert command[:2] == ["ceiling", "certify"]
    assert main(command[1:]) == 0
    assert pl.read_parquet(lost).drop("host").equals(before.drop("host"))


def test_a_query_prints_how_long_a_proof_is():
    frame = pl.DataFrame({"layer": [1, 2], "proof": [b"\x00\xff\n" * 4, None]})
    assert as_text(frame, Format.CSV) == "layer,proof\n1,12 bytes\n2,\n"
    assert as_text(frame, Format.JSON) == '[{"layer":1,"proof":"12 bytes"},{"layer":2,"proof":null}]\n'
    assert "│ 1     ┆ 12 bytes │" in as_text(frame)
