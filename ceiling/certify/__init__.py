"""Proved intervals for the best kept set, and exact answers to the zero-error question."""

import sys
from types import ModuleType
from typing import Any

from ceiling.certify.certificate import Certificate as Certificate
from ceiling.certify.certificate import certify as certify
from ceiling.certify.exact import Disagreement as Disagreement
from ceiling.certify.exact import ZeroAnswer as ZeroAnswer
from ceiling.certify.exact import zero_error as zero_error
from ceiling.certify.improve import improve as improve

__all__ = ["Certificate", "Disagreement", "ZeroAnswer", "certify", "improve", "zero_error"]


class _Room(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        return certify(*args, **options)


# `ceiling.certify(…)` is the function, also once this room, which has its name, has been imported.
sys.modules[__name__].__class__ = _Room
