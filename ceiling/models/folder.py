"""A model as a local Hugging Face folder: its files, licence and digest."""

import contextlib
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from ceiling import durable
from ceiling.models.cache import remembered_sha256
from ceiling.problem import InputError

_INDEX = "model.safetensors.index.json"
_INCIDENTAL = {"_name_or_path", "dtype", "torch_dtype", "transformers_version"}
_LICENCE = re.compile(r"^---\n.*?^license:[ \t]*(\S+).*?^---$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on this disk.

    Attributes
    ----------
    id : str
        Name in results: the built-in's, the hub id, or the name of the folder or GGUF file.
    path : Path
    revision : str or None
        Hub commit, or package and version of a built-in.
    licence : str or None
        As recorded with the model; None where it names none.
    """

    id: str
    path: Path
    revision: str | None
    licence: str | None

    def weight_files(self) -> list[Path]:
        """The safetensors files the model loads, in a fixed order; InputError when there are none."""
        index = self.path / _INDEX
        if index.exists():
            try:
                names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            except (ValueError, KeyError, AttributeError) as error:
                raise InputError(f"model: {index} is unreadable ({error!r})") from None
            files = [self.path / name for name in sorted(names)]
        else:
            files = [self.path / "model.safetensors"]
        for file in files:
            if not file.exists():
                raise InputError(f"model: {file} is missing; the folder needs its weights as safetensors")
        return files

    def weights_sha256(self) -> str:
        """Digest of the weights: of the one file, or of the list of several files' digests."""
        digests = [(file.name, remembered_sha256(file)) for file in self.weight_files()]
        if len(digests) == 1:
            return digests[0][1]
        lines = "".join(f"{digest}  {name}\n" for name, digest in digests)
        return hashlib.sha256(lines.encode()).hexdigest()

    def config_sha256(self) -> str:
        """Digest of ``config.json``, less what says nothing of the computation."""
        path = self.path / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"model: {path} is unreadable ({error})") from None
        kept = {key: value for key, value in config.items() if key not in _INCIDENTAL}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    def digest(self) -> str:
        """Digest of weights, configuration and tokenizer: of all that makes its answers."""
        names = ("tokenizer*", "vocab*", "merges*", "special_tokens*")
        files = sorted({file for pattern in names for file in self.path.glob(pattern) if file.is_file()})
        parts = [self.weights_sha256(), self.config_sha256()]
        parts += [f"{file.name} {durable.sha256(file)}" for file in files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def label(self) -> str:
        """The id in results; a local model's with six digits of what is in it, as names repeat."""
        if self.revision is not None:
            return self.id
        digest = hashlib.sha256((self.weights_sha256() + self.config_sha256()).encode()).hexdigest()
        return f"{self.id}@{digest[:6]}"


def card_licence(path: Path) -> str | None:
    """The ``license:`` field of the model card in a folder, where it has one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if found := _LICENCE.match((path / "README.md").read_text(encoding="utf-8")):
            return found[1].strip("\"'")
    return None
