"""`make paper`, the whole way on one tiny dump and one tiny audit, and again."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ceiling.models import BUILT_INS
from ceiling.models.built_in import converted_folder

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    not converted_folder(BUILT_INS["smollm2-135m"]).exists(), reason="smollm2-135m is not in the cache"
)
@pytest.mark.skipif(find_spec("kvpress") is None, reason="the audit needs kvpress")
def test_the_paper_runs_from_capture_to_gallery_and_a_rerun_does_nothing(tmp_path: Path):
    # -o: this environment stands for the one that the Makefile would make.
    command = ["make", "-o", ".venv/.installed", "paper", f"BIN={Path(sys.executable).parent}", "GROUP=tiny"]
    command += [f"PANEL={tmp_path}", "CERTIFY=--instances 8 --seconds 1", f"AUDIT={tmp_path / 'audit'}"]
    command += ["LOSS=--selector top-mass --selector quest --draws 1", f"GALLERY={tmp_path / 'gallery'}"]
    command += ["GRID=--tasks niah_single_1 --instances 2 --tokens 300 --presses knorm --ratios 0.5"]
    first = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    shards = sorted(tmp_path.glob("store/**/*.parquet"))
    assert {path.relative_to(tmp_path / "store").parts[0] for path in shards} == {
        "certificates",
        "documents",
        "instances",
        "losses",
        "rows",
        "scores",
        "zero_errors",
    }
    drawn = {path.stem for path in tmp_path.glob("figures/*.png")}
    assert drawn >= {
        "figure1",
        "figure2",
        "figure3",
        "figure4",
        "table1",
        "table2",
        "table6",
        "table7",
        "table8",
    }
    page = (tmp_path / "gallery" / "README.md").read_text()
    thumbnails = {path.stem for path in (tmp_path / "gallery" / "gallery").glob("*.png")}
    assert thumbnails >= drawn | {"audit_table1"}
    assert all(f"](gallery/{name}.png)" in page for name in thumbnails)
    before = {path: path.stat().st_mtime_ns for path in [*shards, *tmp_path.glob("dumps/*/*")]}
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("nothing to do") == 6
    assert {path: path.stat().st_mtime_ns for path in before} == before
