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
from ceiling.cli.certify import lasting
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
    assert (
        f"{2 * LAYERS} shards, 48 instances x 2 mass floors = 96 intervals, 0 proved optimal, 672 nodes"
        in out
    )
    assert run(*command)[1].startswith("nothing to do: all 4 shards exist")
    code, out, _ = run("certify", "--check", "--dump", dump, "--store", tmp_path)
    assert code == 0
    assert out.startswith("96 certificates checked, 40 of 96 proofs replayed in ")
    assert out.endswith(": all accepted\n")
    for options, replayed in ((("--sample", "3", "--seed", "5"), 3), (("--all", "--verify"), 96)):
        out = run("certify", "--check", "--dump", dump, "--store", tmp_path, *options)[1]
        assert f"{replayed} of 96 proofs" in out
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
    assert "mass floor 0: leaf 3 has margin -1\n48 certificates checked, 48 of 48 proofs" in out
    assert out.endswith(": 1 rejected\n")


def test_a_manifest_is_written_before_the_first_solve(
    run: Run,  # noqa: F811
    dump: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / f"store-certify-20-seed-3-{open_dump(dump).id}.csv"
    command = (
        *("certify", "--dump", dump, "--store", tmp_path / "store"),
        *("--instances", 20, "--seed", 3, "--budgets", "2,4"),
    )
    code, out, _ = run(*command, "--dry-run")
    assert code == 0
    assert "20 instances x 1 mass floor = 20 intervals to prove" in out
    assert "at most 20 min on one core" in out
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
    refused(run("certify", "--check", "--dump", dump, "--store", store, "--seed", -1), "seed: -1")
    refused(run("certify", "--dump", dump, "--store", dump, "--instances", 20, "--budgets", "2"), "store: ")
    assert not list(dump.parent.glob("*-certify-*.csv"))  # nothing is drawn for a store that is none
    refused(run(*command, "--check", "--sample", 3, "--all"), "give one")
    assert open_store(store).certificates.collect().height == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--budgets", "4,8,16,32"), "budgets: no use"),
        (("--manifest", "x.csv", "--instances", "9"), "manifest, instances: no use"),
        (("--mass-floor", "none", "--nodes", "200000"), "mass-floor, nodes: no use"),
        (("--dry-run", "--least-keys", "1"), "dry-run, least-keys: no use"),
    ],
)
def test_a_check_refuses_what_it_has_no_use_for(
    run: Run,  # noqa: F811
    dump: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    said: str,
):
    refused(run("certify", "--check", "--dump", dump, "--store", tmp_path, *options), said)


def test_a_second_configuration_is_announced(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    command = ("certify", "--dump", dump, "--store", tmp_path, "--budgets", "2")
    assert "configurations" not in run(*command)[2]
    text = " ".join(run(*command, "--nodes", 9)[2].split())
    assert "store now holds 2 configurations of certificates: " in text
    assert "configurations" not in run(*command, "--nodes", 9)[2]  # nothing is started


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (9e4, "25 h")]
)
def test_a_length_of_time_has_a_unit_that_suits_it(seconds: float, said: str):
    assert lasting(seconds) == said


def test_store_check_names_the_manifest_that_lies_beside(run: Run, dump: Path, tmp_path: Path):  # noqa: F811
    store, manifest = tmp_path / "store", tmp_path / "drawn.csv"
    command = ("certify", "--dump", dump, "--store", store, "--budgets", "2")
    run(*command, "--manifest", manifest, "--instances", 20)
    (tmp_path / "another.csv").write_text("x\n")
    lost = min(store.glob("certificates/**/*.parquet"))
    lost.write_bytes(b"")
    code, out, _ = run("store", "check", "--store", store, "--dump", dump)
    assert code == 1
    assert f"--manifest {manifest}" in out.splitlines()[-1]
    code, out, _ = run("certify", "--check", "--store", store, "--dump", dump)
    assert code == 1
    assert out.count("rejected: ") == 1
    manifest.unlink()
    assert "MANIFEST-OF-DIGEST-" in run("store", "check", "--store", store, "--dump", dump)[1]
    assert "nothing tells what is missing" in " ".join(
        run("certify", "--check", "--store", store, "--dump", dump)[2].split()
    )


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
