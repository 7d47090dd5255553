"""Rules that look at positions alone."""

import numpy as np

from ceiling.selectors.sight import Sight

SINKS = 4
"""Keys: first tokens that StreamingLLM holds (section 3.2; four suffice, table 2)."""


def streaming_llm(sight: Sight, count: int, *, sinks: int = SINKS) -> np.ndarray:
    """StreamingLLM: the first ``min(sinks, s // 2)`` tokens and the most recent (arXiv 2309.17453, 3.2).

    The same set in both readings. In a windowed layer first tokens that are out of sight hold no slot.
    """
    candidates = sight.candidates
    first = int(np.searchsorted(candidates, min(sinks, (count + sight.appended) // 2, count)))
    return np.concatenate((candidates[:first], candidates[len(candidates) - count + first :]))
