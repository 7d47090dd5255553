"""A KV head all of whose last queries are asked, one after the other: attention is formed once for all."""

from functools import cached_property

import numpy as np

from ceiling.selectors.kv_head import KVHead


class ConsecutiveKVHead(KVHead):
    """A `KVHead` for hundreds of consecutive queries, which holds the attention of every query there is.

    The same sights to the rounding of float32; ``g N²`` weights in float32, and as many sums in float64
    where a rule asks what keys have received, are the price.
    """

    def attention(self, first: int, last: int) -> np.ndarray:
        """Attention rows of the queries ``first .. last - 1``, float32 [g, last - first, last]."""
        return self._dense[:, first:last, :last]

    def received(self, before: int) -> np.ndarray:
        """Attention that each key received from the queries ``0 .. before - 1``, float64 [g, N]."""
        return self._sums[:, before - 1] if before else np.zeros((self.group, self.length))

    @cached_property
    def _dense(self) -> np.ndarray:
        rows = self._rows(0, self.length)
        rows.flags.writeable = False
        return rows

    @cached_property
    def _sums(self) -> np.ndarray:
        sums = self._dense.cumsum(axis=1, dtype=np.float64)
        sums.flags.writeable = False
        return sums
