"""The allocation panel: how many keys each query head keeps at a query, where heads share a total.

A cell is a query head of a captured layer at one sampled query of a document. Cells of at most `s` keys
keep them all under every allocation; the others spend together what they would spend at `s` each.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ceiling.dump import Document, Dump
from ceiling.problem import MASS_SUM_TOLERANCE, InputError
from ceiling.selectors.allocation import by_map, mass_greedy, pyramid

ALLOCATIONS = ("pyramid", "mass-greedy", "map")
"""Besides uniform."""

MAP_BUDGET = 8
"""Keys: the dropped mass at this budget says which cells the map calls flat (arXiv 2608.25230, section 4)."""


def median_dropped(dump: Dump, without: int | None = None) -> np.ndarray:
    """Median over documents and rows of the mass beyond the `MAP_BUDGET` largest, [captured layers, heads].

    Of all documents of a dump, or of all but one. Where none is left out, the map is fitted where it is
    judged, as favourable as can be to it. A row that is no softmax counts as 0 here; `spread` names it, and
    nothing of its document is scored.

    Raises
    ------
    InputError
        Where a document is left out, and another has a row that is no softmax: nothing else looks at it.
    """
    medians = np.empty((len(dump.layers), dump.heads))
    documents = [dump.document(i) for i in range(dump.n_documents) if i != without]
    for at, layer in enumerate(dump.layers):
        dropped = [_dropped(document.masses(layer)) for document in documents]
        rows = np.concatenate(dropped, axis=1)
        if without is not None and not np.isfinite(rows).all():
            raise InputError(f"dump: {dump.path}, layer {layer}: a sampled row is no softmax; capture again")
        medians[at] = np.median(np.nan_to_num(rows), axis=1)
    return medians


def _dropped(masses: np.ndarray) -> np.ndarray:
    """Mass beyond the `MAP_BUDGET` largest, [heads, rows], of float32 [heads, rows, N]."""
    if masses.shape[-1] <= MAP_BUDGET:
        return np.zeros(masses.shape[:2])
    ordered = np.partition(masses, -MAP_BUDGET, axis=-1)
    rest = ordered[..., :-MAP_BUDGET].sum(axis=-1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return rest / (rest + ordered[..., -MAP_BUDGET:].sum(axis=-1, dtype=np.float64))


def spread(
    document: Document, allocations: Sequence[str], budgets: Sequence[int], medians: np.ndarray
) -> Mapping[tuple[str, int], np.ndarray]:
    """Keys of every cell of a document.

    Parameters
    ----------
    document : Document
    allocations : sequence of str
        Out of `ALLOCATIONS`.
    budgets : sequence of int
        Mean keys a cell.
    medians : ndarray of float64, shape (layers, heads)
        As `median_dropped` gives them.

    Returns
    -------
    dict of (str, int) to ndarray of int64, shape (layers, heads, rows)
        By allocation and budget; as many as there are where a cell has at most the budget's.
    """
    layers, rows = document.dump.layers, len(document.query_positions)
    shape = (len(layers), document.dump.heads, rows)
    found = {(name, s): np.empty(shape, dtype=np.int64) for name in allocations for s in budgets}
    layer_of = np.repeat(np.arange(len(layers)), document.dump.heads)
    for r, position in enumerate(document.query_positions.tolist() if found else ()):
        masses = np.concatenate([document.masses(layer)[:, r, : position + 1] for layer in layers])
        _check(document, masses, r)
        limits = np.count_nonzero(masses, axis=1)
        for s in budgets:
            fair = limits > s
            for name in allocations:
                counts = limits.copy()
                if not fair.any():
                    pass
                elif name == "pyramid":
                    counts[fair] = pyramid(limits[fair], s, layer_of[fair])
                elif name == "mass-greedy":
                    counts[fair] = mass_greedy(masses[fair], s)
                else:
                    counts[fair] = by_map(limits[fair], s, medians.ravel()[fair])
                found[name, s][:, :, r] = counts.reshape(shape[:2])
    return found


def _check(document: Document, masses: np.ndarray, r: int) -> None:
    """Raise `InputError`, naming the row, unless all cells of the `r`-th query are softmax rows."""
    sums = masses.sum(axis=1, dtype=np.float64)
    fair = (np.abs(sums - 1) <= MASS_SUM_TOLERANCE) & (masses.min(axis=1) >= 0)
    for cell in np.flatnonzero(~fair).tolist():
        at, head = divmod(cell, document.dump.heads)
        document.row(document.dump.layers[at], head, r)
