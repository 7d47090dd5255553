"""What ``--model`` may name, and how each kind becomes a local folder."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ceiling.models import built_in, own_gguf
from ceiling.models.catalogue import BUILT_INS
from ceiling.models.folder import ModelFolder, card_licence
from ceiling.problem import InputError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_FILES = ["*.json", "*.safetensors", "tokenizer*", "*.model", "*.jinja", "merges.txt", "README.md"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that was named, not yet fetched.

    Attributes
    ----------
    kind : {"built-in", "folder", "gguf", "hub"}
    name : str
        Built-in name, path of a folder or GGUF file, or hub id.
    """

    kind: Literal["built-in", "folder", "gguf", "hub"]
    name: str

    def fetch(self) -> ModelFolder:
        """Bring the model to this disk, if it is not there, and say where it lies.

        Raises
        ------
        InputError
            When the hub has no such model, or cannot be reached; when a GGUF file is not one that
            can be converted.
        OSError
            When a built-in cannot be downloaded.
        """
        match self.kind:
            case "built-in":
                entry = BUILT_INS[self.name]
                return ModelFolder(self.name, built_in.fetch(entry), entry.revision, entry.licence)
            case "folder":
                path = Path(self.name)
                return ModelFolder(path.resolve().name, path, None, card_licence(path))
            case "gguf":
                return own_gguf.fetch(Path(self.name))
            case "hub":
                path = _snapshot(self.name)
                return ModelFolder(self.name, path, path.name, card_licence(path))


def resolve(name: str) -> ModelSource:
    """Say what kind of model `name` is; touches no network.

    Parameters
    ----------
    name : str
        Built-in name, path of a local folder or ``.gguf`` file, or ``owner/name`` on the Hugging
        Face hub. A built-in goes before a folder of the same name; write ``./name`` for the folder.

    Raises
    ------
    InputError
        When it is none of these; the built-ins are listed.
    """
    if name in BUILT_INS:
        return ModelSource("built-in", name)
    path = Path(name).expanduser()
    if name and path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"model: folder {name} has no config.json; it is no Hugging Face model")
        return ModelSource("folder", str(path))
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise InputError(f"model: there is no GGUF file {name}")
        return ModelSource("gguf", str(path))
    if _HUB_ID.fullmatch(name):
        return ModelSource("hub", name)
    known = ", ".join(sorted(BUILT_INS))
    raise InputError(
        f"model: {name!r} is no built-in ({known}), no existing folder, no .gguf file and no "
        "owner/name of the hub"
    )


def _snapshot(name: str) -> Path:
    """Folder of a hub model's files, downloaded where they are not cached."""
    from huggingface_hub import snapshot_download  # slow to import, and only hub models need it

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"model: {name} cannot be fetched from the Hugging Face hub: {reason}") from None
