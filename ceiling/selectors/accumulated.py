"""H2O: keys that received most attention so far."""

import numpy as np

from ceiling.selectors.ranking import with_recent
from ceiling.selectors.sight import Sight


def h2o(sight: Sight, count: int) -> np.ndarray:
    """H2O: the most recent ``s // 2`` keys, and the heaviest hitters among the others (arXiv 2306.14048, 4).

    A key's score is the attention it received from all queries so far, summed, not divided by their number;
    in reading ``cache`` the mean over the group's heads. The coming query's own key is one of the recent.
    H2O evicts while it decodes; here all queries have seen all their keys, as in a prefill.
    """
    recent = (count + sight.appended) // 2 - sight.appended
    return with_recent(sight.received().mean(axis=0), sight.candidates, count, max(recent, 0))
