"""Groups of instances: which rows a statistic may use, which it leaves out, and whose document they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, document_weights, interval_note
from ceiling.problem import InputError, Status

LABEL_RATIO = 1.11
"""kappa (dimensionless) above which an instance counts as closable: the label of the prediction in
arXiv 2608.25230, where the pool optimum is a tenth below the top-mass error."""

ALL_FAMILIES = "all families"
"""What stands for a model where the rows of all are pooled."""

FLOATS = (
    *("e_top", "e_pool", "e_balance", "e_geometric", "e_leverage"),
    *("dropped_mass", "phi", "radius", "sigma", "spectral"),
)
RATIOS = ("kappa", "closable", "closable_balance", "recovered", "pi", "pi_improved")
WHERE = ("model", "text_id", "layer", "head", "position", "s")
COLUMNS = (*WHERE, "dump", "config", "document", "degenerate", "status", *FLOATS, *RATIOS)
"""The columns of the instance table that the analysis reads."""


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """The measured instances of one model at one budget (or at all), and what was left out.

    Attributes
    ----------
    model : str
        `ALL_FAMILIES` when the rows of all models are pooled.
    s : int or None
        Budget; None when all budgets are pooled.
    rows : polars.DataFrame
        Measured rows (neither trivial nor degenerate) with an added column `cluster` (int64, the number of
        the row's document within the model); instances also have `label` (bool).
    weights : ndarray of int64, shape (1 + draws, documents)
        See `ceiling.analysis.bootstrap.document_weights`.
    trivial, degenerate : int
        Rows left out.
    """

    model: str
    s: int | None
    rows: pl.DataFrame
    weights: np.ndarray
    trivial: int
    degenerate: int

    @property
    def documents(self) -> int:
        """Number of documents the model was read on."""
        return self.weights.shape[1]

    @property
    def cluster(self) -> np.ndarray:
        """Document number of every row, shape (n,)."""
        return self.rows["cluster"].to_numpy()

    def values(self, column: str, *, null: float = np.nan) -> np.ndarray:
        """`column` as float64, shape (n,), nulls read as `null`."""
        return self.rows[column].cast(pl.Float64).fill_null(null).to_numpy()

    def keep(self, mask: pl.Expr) -> "Group":
        """The same group on the rows where `mask` holds."""
        return Group(self.model, self.s, self.rows.filter(mask), self.weights, self.trivial, self.degenerate)

    def identity(self) -> dict[str, Any]:
        """The columns every table begins with: whose numbers, on how many rows, how many left out."""
        return {
            "model": self.model,
            "s": self.s,
            "documents": self.documents,
            "n": self.rows.height,
            "trivial": self.trivial,
            "degenerate": self.degenerate,
            "interval": interval_note(self.documents, len(self.weights) - 1),
        }


def groups(
    instances: pl.DataFrame | pl.LazyFrame,
    *,
    pooled: bool = False,
    together: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Iterator[Group]:
    """Yield one `Group` per model and budget, in that order; with `pooled` one per model.

    Raises
    ------
    InputError
        Empty frame, missing column, a number that is not finite (undefined must be null), or one
        model under several configurations.

    See Also
    --------
    grouped : what the other arguments are.
    """
    frame = checked(instances).with_columns(label=label())
    yield from grouped(frame, pooled=pooled, together=together, draws=draws, seed=seed)


def grouped(
    frame: pl.DataFrame,
    *,
    pooled: bool = False,
    together: bool = False,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Iterator[Group]:
    """Yield the groups of any table of rows that has `model, s, dump, document, text_id, status, degenerate`.

    Parameters
    ----------
    frame : polars.DataFrame
        A row that two dumps hold must be there once.
    pooled : bool
        One group for all budgets, instead of one a budget.
    together : bool
        One family, `ALL_FAMILIES`, instead of one a model.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Notes
    -----
    Documents, the clusters of the paper's bootstrap (arXiv 2608.25230, section 3), are told apart by
    their tokens: the same text in two dumps is one. All budgets of a model share one set of resamplings.
    A document of one model is none of another's, which cuts the text in tokens of its own.
    """
    text = pl.format("{} {}", "model", pl.coalesce("text_id", pl.format("{} {}", "dump", "document")))
    families = (
        {(ALL_FAMILIES,): frame.sort("s", maintain_order=True)}
        if together
        else frame.partition_by("model", as_dict=True, maintain_order=True)
    )
    for (model,), family in families.items():
        family = family.with_columns(cluster=text.rank("dense").cast(pl.Int64) - 1)
        weights = document_weights(family["cluster"].n_unique(), draws=draws, seed=seed)
        parts = [(None, family)] if pooled else [(s, p) for (s,), p in _by_budget(family)]
        for s, part in parts:
            trivial = pl.col("status") == Status.TRIVIAL
            n_trivial = part.filter(trivial).height
            rows = part.filter(is_measured())
            yield Group(str(model), s, rows, weights, n_trivial, part.height - n_trivial - rows.height)


def checked(instances: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The columns the analysis reads, sorted by model and budget, or `InputError`.

    A row of one text that several dumps of a model hold counts once.
    """
    lazy = instances.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(
            f"instances: no column {missing[0]!r}; expected the columns of the store's instances"
        )
    frame = lazy.select(COLUMNS).collect()
    if frame.is_empty():
        raise InputError("instances: the store holds none; run `ceiling enumerate` on a dump first")
    broken = frame.select((~pl.col(*FLOATS, *RATIOS).is_finite()).any())
    for column in broken.columns:
        if broken[column][0]:
            raise InputError(f"instances: {column} holds a number that is not finite; undefined must be null")
    for model, configs in frame.group_by("model").agg(pl.col("config").unique().sort()).iter_rows():
        if len(configs) > 1:
            raise InputError(
                f"instances: {model} was enumerated under configurations {', '.join(configs)}, whose pools "
                "or engines differ; name one with --config, or keep them in separate stores"
            )
    return frame.filter(~is_repeated()).sort("model", "s", maintain_order=True)


def is_repeated() -> pl.Expr:
    """Rows of a text that an earlier row of the frame holds already, from another dump of the model."""
    return pl.col("text_id").is_not_null() & ~pl.struct(WHERE).is_first_distinct()


def is_measured() -> pl.Expr:
    """Rows that enter medians and ratios: more than `s` keys, and an error masses can resolve."""
    left_out = pl.col("status").is_in([Status.TRIVIAL, Status.DEGENERATE])
    return ~(left_out | pl.col("degenerate"))


def label(ratio: float = LABEL_RATIO) -> pl.Expr:
    """The label of the prediction, e_pool < e_top / ratio (arXiv 2608.25230, kappa > 1.11).

    Where only e_pool is below what masses resolve, kappa is null and the label is true.
    """
    below = pl.col("e_pool") < pl.col("e_top") / ratio
    return (pl.col("e_top") > 0) & (below | pl.col("kappa").is_null())


def _by_budget(family: pl.DataFrame) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
    return list(family.partition_by("s", as_dict=True, maintain_order=True).items())
