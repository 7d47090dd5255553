"""The factor and the cap of a dump's logits, as its manifest gives them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ceiling.dump import MANIFEST, open_dump
from ceiling.problem import InputError
from tests.toy_dump import write_toy_dump


def rewrite(folder: Path, **architecture: Any) -> Path:
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["architecture"] |= architecture
    path.write_text(json.dumps(manifest))
    return folder


def test_scaling_and_cap(tmp_path):
    write_toy_dump(tmp_path / "d", documents=1)
    dump = open_dump(rewrite(tmp_path / "d", scaling=[0.5, 1], soft_cap=None))
    assert (dump.scaling, dump.soft_cap) == ((0.5, 1.0), None)
    assert open_dump(rewrite(tmp_path / "d", soft_cap=50)).soft_cap == 50.0


def test_a_dump_that_does_not_give_them_is_read_all_the_same(tmp_path):
    dump = open_dump(write_toy_dump(tmp_path / "d", documents=1))
    assert dump.document(0).row(0, 0, 0).n_keys > 0
    assert dump.soft_cap is None
    with pytest.raises(InputError, match=r"architecture.scaling is None, expected 2 positive numbers"):
        _ = dump.scaling


@pytest.mark.parametrize("scaling", [[0.5], [0.5, 0], [0.5, "1"], [0.5, None], [True, 0.5], 0.5])
def test_bad_scaling(scaling, tmp_path):
    write_toy_dump(tmp_path / "d", documents=1)
    with pytest.raises(InputError, match=r"architecture.scaling is .*, expected 2 positive numbers"):
        _ = open_dump(rewrite(tmp_path / "d", scaling=scaling)).scaling


@pytest.mark.parametrize("cap", [0, -1.0, "50", True, float("inf")])
def test_bad_caps(cap, tmp_path):
    write_toy_dump(tmp_path / "d", documents=1)
    with pytest.raises(InputError, match=r"architecture.soft_cap is .*, not a positive number or null"):
        _ = open_dump(rewrite(tmp_path / "d", soft_cap=cap)).soft_cap
