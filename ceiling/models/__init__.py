"""Models by name: built-in, local folder, GGUF file or Hugging Face id, all ending as one local folder.

Lazy, so that listing the built-ins does not load torch and transformers.
"""

from typing import TYPE_CHECKING

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "catalogue": ["BUILT_INS", "BuiltIn"],
        "folder": ["ModelFolder"],
        "loading": [
            "DTYPES",
            "LoadedModel",
            "encoder",
            "load",
            "placement",
            "skeleton",
            "start_tokens",
            "tokenizer",
        ],
        "source": ["ModelSource", "resolve"],
    },
)

if TYPE_CHECKING:  # what the lazy door opens to, for editors and type checkers
    from ceiling.models.catalogue import BUILT_INS as BUILT_INS
    from ceiling.models.catalogue import BuiltIn as BuiltIn
    from ceiling.models.folder import ModelFolder as ModelFolder
    from ceiling.models.loading import DTYPES as DTYPES
    from ceiling.models.loading import LoadedModel as LoadedModel
    from ceiling.models.loading import encoder as encoder
    from ceiling.models.loading import load as load
    from ceiling.models.loading import placement as placement
    from ceiling.models.loading import skeleton as skeleton
    from ceiling.models.loading import start_tokens as start_tokens
    from ceiling.models.loading import tokenizer as tokenizer
    from ceiling.models.source import ModelSource as ModelSource
    from ceiling.models.source import resolve as resolve
