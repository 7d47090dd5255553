"""Exact selection ceilings for KV-cache eviction.

How much could any better choice of kept keys still win over keeping the largest attention
weights, when the weights are renormalised over the kept set?  Definitions follow Shi & Gu,
"Trust the Mass: Forced Weights in KV-Cache Eviction", arXiv 2608.25230.

Everything here loads on first use, so ``import ceiling`` is light.
"""

from typing import TYPE_CHECKING

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "problem": ["Answer", "Row", "Status"],
        "objective": ["dropped_mass", "forced_error", "free_error", "pool", "top_mass"],
        "search": ["balance", "best_in_pool"],
        "certify": ["Certificate", "certify", "improve", "zero_error"],
        "capture": ["capture"],
        "store": ["open_store"],
    },
)

if TYPE_CHECKING:  # what the lazy door opens to, for editors and type checkers
    from ceiling.capture import capture as capture
    from ceiling.certify import Certificate as Certificate
    from ceiling.certify import certify as certify
    from ceiling.certify import improve as improve
    from ceiling.certify import zero_error as zero_error
    from ceiling.objective import dropped_mass as dropped_mass
    from ceiling.objective import forced_error as forced_error
    from ceiling.objective import free_error as free_error
    from ceiling.objective import pool as pool
    from ceiling.objective import top_mass as top_mass
    from ceiling.problem import Answer as Answer
    from ceiling.problem import Row as Row
    from ceiling.problem import Status as Status
    from ceiling.search import balance as balance
    from ceiling.search import best_in_pool as best_in_pool
    from ceiling.store import open_store as open_store
