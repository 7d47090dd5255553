"""A batch of rows with what the searches need of them: keys of any pool, residuals, Gram matrices, pools."""

from typing import NamedTuple

import numpy as np

from ceiling.kernels import corrective, geometry, rows
from ceiling.objective import FREE_TOLERANCE
from ceiling.problem import LARGEST, MASS_SUM_TOLERANCE, InputError, Row
from ceiling.search.spectral import spectral_statistic


class Head(NamedTuple):
    """Values of one KV head, a key a row and a component a row: kernels want both contiguous."""

    values: np.ndarray  # float32 or float64 [N, d]
    columns: np.ndarray  # the same [d, N]


def head_of(values: np.ndarray) -> Head:
    """Both layouts of ``values``, shape (N, d); InputError where one is not finite or beyond `LARGEST`."""
    if not float(np.abs(values).max()) <= LARGEST:
        raise InputError(f"values: not finite, or beyond {LARGEST:g}; rescale them, errors scale along")
    values = np.ascontiguousarray(values)
    return Head(values, np.ascontiguousarray(values.T))


class Batch:
    """Rows at the same budgets; `read` fills one in, `close` ends the filling.

    Attributes
    ----------
    extras : dict of int to int
        Budgets, ascending, and the candidates beside the top-mass set at each.
    n_keys : ndarray of int64, shape (rows,)
        Keys of positive mass.
    radius, sigma : ndarray of float64, shape (rows,)
    dropped : ndarray of float64, shape (rows, budgets)
        Dropped mass of the top-mass set.
    keys : ndarray of int64, shape (rows, u)
        Positions of every key of any pool, ascending; -1 after the last.
    masses : ndarray of float64, shape (rows, u)
    centred, residuals : ndarray of float64, shape (rows, u, d)
    gram : ndarray of float64, shape (rows, u, u)
        Inner products of the residuals.
    pools : ndarray of int64, shape (budgets, rows, m)
        Each pool as ascending indices into `keys`; the first `sizes`, shape (budgets, rows), of them count.
    tops : ndarray of bool, shape (budgets, rows, m)
        Which keys of the pool are top-mass.
    geometric, leverage, distances, corrective, spectral : ndarray of float64, shape (rows, budgets)
        Errors of the Frank-Wolfe and the leverage set; Frank-Wolfe distance, and the fully-corrective one;
        the spectral statistic, NaN where undefined.
    """

    def __init__(self, extras: dict[int, int], n_rows: int, longest: int, d: int) -> None:
        self.extras = dict(sorted(extras.items()))
        self._budgets = np.minimum(list(self.extras), longest).astype(np.int64)
        self._extras = np.minimum(list(self.extras.values()), longest).astype(np.int64)
        heaviest = min(int(self._budgets[-1]), longest)
        widest = min(int((self._budgets + self._extras).max()), longest)
        u, b = min(heaviest + widest, longest), len(self.extras)
        self.n_keys = np.zeros(n_rows, dtype=np.int64)
        self.radius, self.sigma = np.zeros(n_rows), np.zeros(n_rows)
        self.dropped = np.zeros((n_rows, b))
        self.distances, self.corrective = np.zeros((n_rows, b)), np.zeros((n_rows, b))
        self.geometric, self.leverage = np.zeros((n_rows, b)), np.zeros((n_rows, b))
        self.spectral = np.full((n_rows, b), np.nan)
        self.keys = np.full((n_rows, u), -1, dtype=np.int64)
        self.masses = np.zeros((n_rows, u))
        self.centred = np.zeros((n_rows, u, d))
        self.pools = np.zeros((b, n_rows, widest), dtype=np.int64)
        self.tops = np.zeros((b, n_rows, widest), dtype=bool)
        self.sizes = np.zeros((b, n_rows), dtype=np.int64)
        # scratch
        self._leading, self._ranking = np.empty(heaviest, dtype=np.int64), np.empty(widest, dtype=np.int64)
        self._masses, self._squares, self._scores = (np.empty(longest) for _ in range(3))
        self._place = np.full(longest, -1, dtype=np.int64)
        self._origin, self._mean = np.empty(d), np.empty(d)

    def read(self, r: int, head: Head, softmax: np.ndarray, leverage: np.ndarray | None = None) -> None:
        """Describe row `r`: its statistics, its keys and their pools; with `leverage`, other selectors too.

        Parameters
        ----------
        r : int
        head : Head
            Finite values of at least as many keys as the row has weights.
        softmax : ndarray of float32 or float64, shape (n,)
            Softmax weights, checked here.
        leverage : ndarray of float64, shape (n,), optional
            Ridge leverage of the keys.

        Raises
        ------
        InputError
            When the weights are not those of a softmax row.
        """
        n, masses = len(softmax), self._masses[: len(softmax)]
        if not abs(rows.normalise(softmax, masses) - 1) <= MASS_SUM_TOLERANCE:
            masses[:] = Row(softmax, head.values[:n]).masses  # which says what is wrong
        origin, mean, squares = self._origin, self._mean, self._squares
        self.radius[r], self.sigma[r] = rows.describe(
            *head, masses, self._leading, self._ranking, origin, mean, squares, self._scores
        )
        self.n_keys[r] = rows.drop(masses, self._leading, self._budgets, self._scores, self.dropped[r])
        used = rows.choose_pools(
            self._leading, self._ranking, self._budgets, self._extras, self._place,
            self.keys[r], self.pools[:, r], self.tops[:, r], self.sizes[:, r],
        )  # fmt: skip
        rows.centre(head.values, origin, mean, self.keys[r, :used], self.centred[r])
        self.masses[r, :used] = masses[self.keys[r, :used]]
        if leverage is not None:
            steps = max(self.extras)
            path, distances = np.empty(steps, dtype=np.int64), np.empty(steps)
            eps = float(np.finfo(head.values.dtype).eps)
            geometry.frank_wolfe(*head, masses, origin, mean, squares, eps, path, distances)
            self.distances[r] = distances[np.array(list(self.extras)) - 1]
            corrective.corrective(
                head.columns, masses, origin, mean, squares, np.array(list(self.extras)),
                FREE_TOLERANCE * self.sigma[r], self.corrective[r],
            )  # fmt: skip
            rows.other_errors(
                head.values, masses, origin, mean, self._leading, path, leverage, self._budgets,
                self.geometric[r], self.leverage[r],
            )  # fmt: skip
            self.spectral[r] = spectral_statistic(
                head.values[:n], masses, origin, mean, self._leading, self._budgets
            )

    def close(self) -> "Batch":
        """All rows are read: residuals and their Gram matrices, of the keys that occur."""
        used = max(int((self.keys >= 0).sum(axis=1).max()), 1)
        self.keys, self.masses = self.keys[:, :used], np.ascontiguousarray(self.masses[:, :used])
        self.centred = np.ascontiguousarray(self.centred[:, :used])
        self.residuals = self.masses[:, :, None] * self.centred
        self.gram = self.residuals @ self.residuals.transpose(0, 2, 1)
        return self
