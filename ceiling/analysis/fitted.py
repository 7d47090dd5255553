"""The fits as one table: of the label on the dropped mass, of the penalty on dropped mass and budget."""

from collections.abc import Iterator

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED
from ceiling.analysis.penalty import RATIOS, penalty_fit
from ceiling.analysis.prediction import prediction_table

_ESTIMATES = ("auc", "intercept", "slope", "r2")

SCHEMA: dict[str, pl.DataType] = {
    "response": pl.String(),
    "model": pl.String(),
    "s": pl.Int64(),
    "documents": pl.Int64(),
    "n": pl.Int64(),
    **{f"{name}{end}": pl.Float64() for name in _ESTIMATES for end in ("", "_low", "_high")},
    "ending": pl.String(),
}
"""The columns of `fits`."""


def fits(instances: pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED) -> pl.DataFrame:
    """Coefficients with cluster-bootstrap intervals; without instances the frame is empty.

    Parameters
    ----------
    instances : polars.LazyFrame
        The store's `instances`.
    draws, seed : int
        Of the bootstrap over documents; intervals need at least five.

    Returns
    -------
    polars.DataFrame
        `SCHEMA`. `response` is ``label`` (logistic, of kappa > 1.11 on the dropped mass, with its AUC; per
        budget, and all budgets at `s` null), ``log pi`` or ``log pi_improved`` (least squares on
        log(m_s sqrt(s)), with its R²; all budgets). `ending` says how the fit ended.

    Notes
    -----
    arXiv 2608.25230, section 4: prediction and penalty; the regressions are this project's reading.
    """
    if instances.head(1).collect().is_empty():
        return pl.DataFrame(schema=SCHEMA)
    return pl.concat(_parts(instances, draws, seed), how="diagonal_relaxed").select(
        pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()
    )


def fits_view(instances: pl.LazyFrame) -> pl.LazyFrame:
    """`fits`, computed when the frame is collected: a few seconds for 100 000 rows."""
    return pl.defer(lambda: fits(instances), schema=SCHEMA)


def _parts(instances: pl.LazyFrame, draws: int, seed: int) -> Iterator[pl.DataFrame]:
    empty = pl.DataFrame(schema=SCHEMA)
    label = prediction_table(instances, draws=draws, seed=seed)
    yield pl.concat([empty, _named(label, "label")], how="diagonal_relaxed")
    for ratio in RATIOS:
        yield _named(penalty_fit(instances, ratio=ratio, draws=draws, seed=seed), f"log {ratio}")


def _named(frame: pl.DataFrame, response: str) -> pl.DataFrame:
    known = [name for name in SCHEMA if name in frame.columns]
    return frame.select(pl.lit(response).alias("response"), *known, pl.col("fit").alias("ending"))
