"""Compiled inner loops: arrays and scalars in and out, serial, no fast-math.

numba takes a cached function for stale only when its own file has changed, though it holds the code of all
that it calls. So all files here bear the time of the newest: a change in one compiles every kernel anew.
"""

import contextlib
import os
from pathlib import Path

_sources = list(Path(__file__).parent.glob("*.py"))
_newest = max(source.stat().st_mtime_ns for source in _sources)
for _source in _sources:
    if _source.stat().st_mtime_ns != _newest:
        with contextlib.suppress(OSError):  # an installation that cannot be written to is not edited either
            os.utime(_source, ns=(_newest, _newest))
