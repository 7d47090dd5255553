"""The decorator of every kernel: no global lock, no fast-math, and a cache that any change in them empties.

numba takes a cached function for stale only when its own file has changed, though it holds the code of all
that it calls. So the cache lies in a folder named by the sources of all kernels together.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba

_HERE = Path(__file__).parent
_SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))).hexdigest()[:12]


def compiled(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, or load it from the cache (``NUMBA_CACHE_DIR`` moves it)."""
    chosen = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(chosen or _HERE / "__pycache__") / _SOURCES)
    try:
        return numba.njit(cache=True, nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = chosen
