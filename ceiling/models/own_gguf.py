"""A user's own GGUF file made ready: converted once, found again by its digest."""

from pathlib import Path

from ceiling.models.cache import new_folder, remembered_sha256
from ceiling.models.converted import folder_of, record, recorded_licence
from ceiling.models.folder import ModelFolder


def fetch(path: Path) -> ModelFolder:
    """The Hugging Face folder of a GGUF file; the first call on a file of that content converts it.

    Raises
    ------
    InputError
        When the file is of a kind that is not converted.
    """
    digest = remembered_sha256(path)
    target = folder_of(path.stem, digest)
    if not target.exists():
        with new_folder(target) as folder:
            from ceiling.models.gguf import convert  # imports torch and transformers

            licence = convert(path, folder)
            record(folder, path.stem, licence, path.name, digest)
    return ModelFolder(path.stem, target, None, recorded_licence(target))
