"""Which keys every cell keeps: balancing in some cells, a rule in all others."""

import numpy as np

from ceiling.loss.operator import Attended
from ceiling.objective import default_extra
from ceiling.problem import InputError
from ceiling.search import head_of
from ceiling.search.batch import Batch
from ceiling.search.candidates import kept_positions, search
from ceiling.selectors import Selector
from ceiling.selectors.consecutive import ConsecutiveKVHead


class Cells:
    """A choice of `ceiling.loss.operator.restricted`: ``min(s, n_keys)`` keys in every row of every cell.

    A cell is a query head of a layer. Rules choose in reading ``per-query``: anew at every row, with sight
    of the query.

    Parameters
    ----------
    s : int
        Keys kept.
    rule : Selector
        Of the cells that are not balanced.
    balanced : ndarray of bool, shape (layers, heads)
        Cells in which balancing chooses: top-mass improved by swaps with the candidates of
        `ceiling.objective.default_extra`.
    """

    def __init__(self, s: int, rule: Selector, balanced: np.ndarray) -> None:
        self.s, self.rule, self.balanced = s, rule, balanced

    def __call__(self, attended: Attended) -> np.ndarray:
        """The kept sets of a layer, bool (heads, rows, N); see `Choose`."""
        kept = np.zeros(attended.masses.shape, dtype=bool)
        group = len(attended.masses) // len(attended.keys)
        for k in range(len(attended.keys)):
            own = slice(k * group, (k + 1) * group)
            balanced = self.balanced[attended.layer, own]
            for g in np.flatnonzero(balanced):
                self._balance(attended, k, k * group + int(g), kept)
            if not balanced.all():
                self._ask(attended, k, own, np.flatnonzero(~balanced).tolist(), kept[own])
        counts = np.minimum((attended.masses > 0).sum(axis=-1), self.s)
        if not np.array_equal(kept.sum(axis=-1), counts):
            raise ArithmeticError(f"layer {attended.layer}: kept sets are not of {self.s} keys each")
        return kept

    def _balance(self, attended: Attended, k: int, head: int, kept: np.ndarray) -> None:
        masses, positions = attended.masses[head], attended.positions
        values = head_of(attended.values[k])
        batch = Batch({self.s: default_extra(self.s)}, len(positions), *attended.values[k].shape)
        for r, position in enumerate(positions):
            batch.read(r, values, masses[r, : position + 1])
        found = search(batch.close(), 0, exhaust=False)
        for r in range(len(positions)):
            few = batch.n_keys[r] <= self.s
            kept[head, r, masses[r] > 0 if few else kept_positions(batch, 0, r, found.kept_balanced)] = True

    def _ask(self, attended: Attended, k: int, own: slice, heads: list[int], kept: np.ndarray) -> None:
        source = ConsecutiveKVHead(
            attended.keys[k],
            attended.values[k],
            attended.queries[own],
            attended.masses[own],
            attended.positions,
            window=attended.window,
            scaling=attended.scaling,
            soft_cap=attended.soft_cap,
        )
        for g in heads:
            for r in range(len(attended.positions)):
                try:
                    kept[g, r, self.rule.keep(source.sight(g, r, "per-query"), self.s)] = True
                except InputError as error:
                    where = f"layer {attended.layer}, head {own.start + g}, position {attended.positions[r]}"
                    raise InputError(f"{where}, s={self.s}: {error}") from error
