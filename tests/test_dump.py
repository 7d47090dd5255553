"""The dump format: what the writer writes the reader reads, and everything else is refused in one line."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from ceiling.dump import DumpWriter, Identity, open_dump, same_dump, tokens_sha256
from ceiling.dump.header import STORAGE, lay_out, read_header, widen
from ceiling.problem import InputError

HEADS, KV_HEADS, DIM, N, POSITIONS = 4, 2, 3, 12, (5, 9)
LAYERS = (0, 1)
STORED = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


class Toy:
    """A two-document dump of random numbers, and the numbers it was written from."""

    def __init__(self, dtype: str = "float32") -> None:
        rng = np.random.default_rng(0)
        self.dtype = dtype
        self.tokens = rng.integers(0, 50, (2, N))
        self.identity = Identity(
            "a" * 64, "b" * 64, tokens_sha256(self.tokens), (POSITIONS,) * 2, dtype, "sdpa"
        )
        masses = rng.random((2, len(LAYERS), HEADS, len(POSITIONS), N), dtype=np.float32)
        for r, position in enumerate(POSITIONS):
            masses[..., r, position + 1 :] = 0
        self.masses = masses / masses.sum(-1, keepdims=True)
        self.floats = torch.tensor(rng.normal(size=(2, 2, len(LAYERS), KV_HEADS, N, DIM))).to(
            getattr(torch, dtype)
        )

    def stored(self, which: int, document: int, layer: int) -> np.ndarray:
        tensor = self.floats[which, document, layer]
        return (
            tensor.view(torch.int16).numpy().view(np.uint16) if self.dtype == "bfloat16" else tensor.numpy()
        )

    def writer(self, target: Path) -> DumpWriter:
        return DumpWriter(target, self.identity, layers=LAYERS, queries=False, device="cpu")

    def put(self, writer: DumpWriter, document: int) -> None:
        kind, shape = STORED[self.dtype], (KV_HEADS, N, DIM)
        layout: dict = {"query_positions": ("I64", (len(POSITIONS),)), "tokens": ("I64", (N,))}
        for layer in LAYERS:
            layout[f"masses.{layer}"] = ("F32", (HEADS, len(POSITIONS), N))
            layout[f"keys.{layer}"] = layout[f"values.{layer}"] = (kind, shape)
        with writer.document(document, layout) as file:
            for layer in reversed(LAYERS):  # any order
                file.write(f"masses.{layer}", self.masses[document, layer])
                file.write(f"keys.{layer}", self.stored(0, document, layer))
                file.write(f"values.{layer}", self.stored(1, document, layer))
            file.write("query_positions", np.array(POSITIONS))
            file.write("tokens", self.tokens[document])
            file.note["fidelity"] = document

    def commit(self, writer: DumpWriter) -> None:
        shape = {"layers": 2, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "windows": [None, 4]}
        manifest = {
            "model": {"id": "toy", "weights_sha256": "a" * 64, "config_sha256": "b" * 64},
            "architecture": shape,
            "tokens": {"documents": 2, "lengths": [N, N], "sha256": self.identity.tokens_sha256},
            "text": {"source": "noise", "sha256": "b" * 64},
        }
        writer.commit(manifest, 2)

    def write(self, target: Path) -> Path:
        with self.writer(target) as writer:
            self.put(writer, 0)
            self.put(writer, 1)
            self.commit(writer)
        return target


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def path(toy, tmp_path) -> Path:
    return toy.write(tmp_path / "dump")


@pytest.mark.parametrize("dtype", STORED)
def test_what_was_written_is_read(dtype, tmp_path):
    toy = Toy(dtype)
    dump = open_dump(toy.write(tmp_path / "dump"), verify=True)
    assert (dump.id, dump.model, dump.n_documents, dump.n_layers) == (toy.identity.id, "toy", 2, 2)
    assert (dump.heads, dump.kv_heads, dump.head_dim, dump.windows) == (HEADS, KV_HEADS, DIM, (None, 4))
    for d in range(2):
        document = dump.document(d)
        assert document.query_positions.tolist() == list(POSITIONS)
        assert document.tokens.tolist() == toy.tokens[d].tolist()
        for layer in LAYERS:
            np.testing.assert_array_equal(document.masses(layer), toy.masses[d, layer])
            np.testing.assert_array_equal(document.keys(layer), toy.floats[0, d, layer].float().numpy())
            np.testing.assert_array_equal(document.values(layer), toy.floats[1, d, layer].float().numpy())
            assert document.keys(layer).dtype == document.masses(layer).dtype == np.float32


def test_a_row_has_its_heads_masses_and_its_kv_heads_values(toy, path):
    row = open_dump(path).document(1).row(layer=1, head=2, r=0)
    masses = toy.masses[1, 1, 2, 0, : POSITIONS[0] + 1].astype(np.float64)
    np.testing.assert_allclose(row.masses, masses / masses.sum(), rtol=1e-15)
    np.testing.assert_array_equal(row.values, toy.floats[1, 1, 1, 1, : POSITIONS[0] + 1].numpy())


@pytest.mark.parametrize("dtype", STORED)
def test_the_files_are_plain_safetensors(dtype, tmp_path):
    toy = Toy(dtype)
    tensors = safetensors.torch.load_file(toy.write(tmp_path / "dump") / "doc-00000.safetensors")
    assert torch.equal(tensors["values.1"], toy.floats[1, 0, 1])
    assert tensors["masses.0"].shape == (HEADS, 2, N)


def test_reading_needs_neither_torch_nor_transformers(path):
    code = (
        "import sys; from ceiling.dump import open_dump; open_dump(sys.argv[1]).document(0).row(0, 0, 0);"
        "sys.exit(bool({'torch', 'transformers', 'safetensors'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def edit(path: Path, **changes) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    for dotted, value in changes.items():
        table, name = manifest, dotted
        if "__" in dotted:
            section, name = dotted.split("__")
            table = manifest[section]
        if value is None:
            del table[name]
        else:
            table[name] = value
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, "schema 2"),
        ({"schema": None}, "names no schema"),
        ({"positions": None}, "positions is missing"),
        ({"positions": [[5, 9], [5, "x"]]}, r"positions\[1\]"),
        ({"positions": [[5, 9]]}, "positions has 1 entries, expected 2"),
        ({"layers": [0, 7]}, "layers"),
        ({"layers": [1, 0]}, r"layers is \[1, 0\]; they must ascend"),
        ({"positions": [[5, 9], [5, 5]]}, r"positions\[1\] is \[5, 5\]; they must ascend"),
        ({"architecture__heads": "four"}, "architecture.heads is 'four'"),
        ({"architecture__kv_heads": 3}, "4 heads do not divide into 3"),
        ({"model__weights_sha256": "c" * 64}, "does not follow from its fields"),
        ({"files": []}, "files has 0 entries, expected 2"),
        ({"files": [{}, {}]}, "describes"),
    ],
)
def test_a_wrong_manifest_is_refused(path, changes, words):
    edit(path, **changes)
    with pytest.raises(InputError, match=words):
        open_dump(path)


def test_what_is_no_dump_is_refused(path, tmp_path):
    for place, words in (
        (tmp_path / "nowhere", "is not a folder"),
        (path / "manifest.json", "is not a folder"),
        (tmp_path, "has no manifest.json"),
    ):
        with pytest.raises(InputError, match=words):
            open_dump(place)
    (path / "manifest.json").write_text("[1]")
    with pytest.raises(InputError, match="names no schema"):
        open_dump(path)
    (path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        open_dump(path)


def test_truncated_missing_and_altered_files_are_refused(path):
    file = path / "doc-00001.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=f"has {len(whole) - 1} bytes, the manifest says {len(whole)}"):
        open_dump(path)
    file.write_bytes(whole[:-1] + b"\xff")
    open_dump(path)  # sizes agree; only a digest can tell
    with pytest.raises(InputError, match="is altered"):
        open_dump(path, verify=True)
    file.write_bytes(b"\xff" * len(whole))
    with pytest.raises(InputError, match="not a safetensors file"):
        open_dump(path).document(1)
    file.unlink()
    with pytest.raises(InputError, match="is missing"):
        open_dump(path)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "not finite"), (-0.25, "negative"), (0.9, "sum is"), (np.inf, "not finite")]
)
def test_a_bad_mass_is_named_by_layer_head_and_row(toy, tmp_path, value, words):
    toy.masses[1, 0, 3, 1, 2] = value
    document = open_dump(toy.write(tmp_path / "dump")).document(1)
    with pytest.raises(InputError, match=rf"document 1, layer 0, head 3, row 1: masses.*{words}"):
        document.row(0, 3, 1)
    document.row(0, 3, 0)


def test_asking_for_what_is_not_there(path):
    dump = open_dump(path)
    for ask, words in (
        (lambda: dump.document(2), "outside 0..1"),
        (lambda: dump.document(0).masses(2), "no masses.2; captured layers: 0, 1"),
        (lambda: dump.document(0).queries(0), "no queries.0"),
        (lambda: dump.document(0).row(0, 4, 0), "head: 4 is outside 0..3"),
        (lambda: dump.document(0).row(0, 0, -1), "row: -1 is outside 0..1"),
    ):
        with pytest.raises(InputError, match=words):
            ask()


def test_a_stopped_run_is_no_dump_and_resumes(toy, tmp_path):
    target = tmp_path / "dump"

    def stopped() -> None:
        with toy.writer(target) as writer:
            toy.put(writer, 0)
            with writer.document(1, {"tokens": ("I64", (N,))}):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    (partial,) = tmp_path.iterdir()
    assert sorted(p.name for p in partial.iterdir()) == ["doc-00000.json", "doc-00000.safetensors"]
    shutil.copy(toy.write(tmp_path / "other") / "manifest.json", partial)
    with pytest.raises(InputError, match="unfinished"):  # whatever lies in it
        open_dump(partial)

    written = (partial / "doc-00000.safetensors").stat().st_mtime_ns
    with toy.writer(target) as writer:
        record = writer.done(0)
        assert record is not None
        assert record["note"] == {"fidelity": 0}
        assert writer.done(1) is None
        toy.put(writer, 1)
        toy.commit(writer)
    assert open_dump(target, verify=True).id == toy.identity.id
    assert (target / "doc-00000.safetensors").stat().st_mtime_ns == written
    assert not partial.exists()
    assert {p.name for p in target.iterdir()} == {
        "manifest.json",
        "doc-00000.safetensors",
        "doc-00001.safetensors",
    }


def test_a_damaged_finished_document_is_written_again(toy, tmp_path):
    with toy.writer(tmp_path / "dump") as writer:
        toy.put(writer, 0)
        file = writer.folder / "doc-00000.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"\x01")
        assert writer.done(0) is None


def test_two_writers_of_one_dump_do_not_meet(toy, tmp_path):
    with toy.writer(tmp_path / "dump"), pytest.raises(InputError, match="another process"):
        toy.writer(tmp_path / "dump").__enter__()


def test_an_existing_target_is_kept(toy, path, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        toy.writer(path).__enter__()
    assert same_dump(path, toy.identity, layers=LAYERS, queries=False)
    assert not same_dump(tmp_path / "new", toy.identity, layers=LAYERS, queries=False)
    another = Identity("f" * 64, "0", "0", ((1,),), "float32", "sdpa")
    with pytest.raises(InputError, match="holds another dump"):
        same_dump(path, another, layers=LAYERS, queries=False)
    for layers, queries in (((0,), False), (LAYERS, True)):
        with pytest.raises(InputError, match="other layers or queries of this dump"):
            same_dump(path, toy.identity, layers=layers, queries=queries)
    with pytest.raises(InputError, match="no complete dump"):
        same_dump(tmp_path, toy.identity, layers=LAYERS, queries=False)


def test_a_full_disk_keeps_finished_documents_and_nothing_half_written(toy, tmp_path):
    """A full disk once took the finished documents with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with toy.writer(tmp_path / "dump") as writer:
        toy.put(writer, 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # the kernel refuses to write on
        try:
            with pytest.raises(OSError, match=r"cannot write .*doc-00001.*; finished documents are kept"):
                toy.put(writer, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (partial,) = tmp_path.iterdir()
    assert sorted(p.name for p in partial.iterdir()) == ["doc-00000.json", "doc-00000.safetensors"]
    with toy.writer(tmp_path / "dump") as writer:
        assert writer.done(0) is not None
        toy.put(writer, 1)
        toy.commit(writer)
    assert open_dump(tmp_path / "dump", verify=True).id == toy.identity.id


def test_an_error_of_the_caller_passes_as_it_is_and_costs_no_document(toy, tmp_path):
    """A broken pipe of the progress bar once removed finished documents."""
    with toy.writer(tmp_path / "dump") as writer:
        toy.put(writer, 0)
        with pytest.raises(BrokenPipeError), writer.document(1, {"tokens": ("I64", (N,))}):
            raise BrokenPipeError
        assert writer.done(0) is not None


def test_a_tensor_must_fit_its_declaration(toy, tmp_path):
    with toy.writer(tmp_path / "dump") as writer:
        layout = {"tokens": ("I64", (N,))}
        with pytest.raises(ValueError, match="does not fit"), writer.document(0, layout) as file:
            file.write("tokens", np.zeros(N, dtype=np.int32))
        with pytest.raises(ValueError, match="not written"), writer.document(0, layout):
            pass
        assert os.listdir(writer.folder) == []


def test_the_identity_follows_each_of_its_fields(toy):
    base = {
        "weights_sha256": "w",
        "config_sha256": "c",
        "tokens_sha256": "t",
        "positions": ((1, 2),),
        "dtype": "float32",
        "backend": "sdpa",
    }
    others = {
        "weights_sha256": "x",
        "config_sha256": "x",
        "tokens_sha256": "x",
        "positions": ((1,), (2,)),
        "dtype": "x",
        "backend": "x",
    }
    ids = {Identity(**base).id} | {Identity(**base | {k: v}).id for k, v in others.items()}
    assert len(ids) == 7
    assert tokens_sha256([[1, 2], [3]]) != tokens_sha256([[1], [2, 3]])


@given(
    st.dictionaries(
        st.text("abc.019", min_size=1),
        st.tuples(st.sampled_from(list(STORAGE)), st.lists(st.integers(0, 4), max_size=3).map(tuple)),
        max_size=6,
    )
)
def test_header_round_trip(tmp_path_factory, tensors):
    head, placed, size = lay_out(tensors)
    path = tmp_path_factory.mktemp("header") / "file"
    path.write_bytes(head.ljust(size, b"\0"))
    with path.open("rb") as file:
        assert read_header(file, path, size) == placed
    for tensor in placed.values():
        assert tensor.offset % STORAGE[tensor.dtype].itemsize == 0  # aligned, so views need no copy
    ends = sorted((tensor.offset, tensor.offset + tensor.nbytes) for tensor in placed.values())
    assert [start for start, _ in ends] == [len(head), *(end for _, end in ends)][: len(ends)]  # no holes


def test_every_bfloat16_widens_exactly():
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(widen(bits, "BF16"), expected)
