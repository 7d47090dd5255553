"""The certification: how often a better set than the pool's exists, and what that can do to the ceiling."""

from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, LEVEL, SEED, estimate, null
from ceiling.analysis.certificates import certified
from ceiling.analysis.instances import Group
from ceiling.analysis.ranks import quantile, share
from ceiling.analysis.tables import table
from ceiling.problem import Status

IMPROVED = 0.01
"""Relative: a set counts as better where its error is smaller by more than this, as in the paper."""

CONFIRMED = 1e-6
"""Relative: the pool's best set counts as the best of all where no set is better by more; the gap at which
an interval counts as closed."""

LIGHT = 0.5
"""Ratio of kept masses: below it the best set known is of another kind than the top-mass set, of keys in the
tail that no cache would keep."""

TABLE7 = (
    "solved",
    "improved",
    "wilson95_high",
    "median_closable",
    "cap_at_wilson",
    "cap_unsolved_improved",
)
"""The columns that the paper's table 7 has too."""

SEMANTICS = (
    "Without a mass floor (`none`) the best of all sets on diffuse rows consists of tail keys of next to no "
    "mass, which no cache would keep: legal by the definition, and of no use to one; `light` is how often "
    f"the best set known keeps less than {LIGHT:g} of the top-mass set's mass. Under a floor ρ only sets "
    "that keep at least ρ of that mass count."
)
PROVED = (
    "Proved, for these rows and budgets: a set that closes `closable_lower` is known, and no set that meets "
    "the floor closes more than `closable_upper`; an unsolved instance enters with its open interval. Not "
    "proved: where in an open interval the best set lies, and anything of rows that were not certified."
)
"""Both stand below every figure of certificates."""


def certification_table(
    certificates: pl.DataFrame | pl.LazyFrame,
    instances: pl.DataFrame | pl.LazyFrame | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """What is proved per model, mass floor and budget (arXiv 2608.25230, table 7).

    Parameters
    ----------
    certificates, instances : polars.DataFrame or LazyFrame
        The store's tables; see `ceiling.analysis.certificates.certified`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model, `mass_floor` and budget: the identity columns, then those of the paper,

        * `solved` instances, proved optimal; `improved` of them, with a set more than 1% better than the
          pool's (than top-mass on rows without a pool: `n_pool` rows have one);
        * `wilson95_high` of improved over solved;
        * `median_closable` of the pool, with `_low` and `_high`, and its caps `cap_at_wilson` and
          `cap_unsolved_improved`; null unless every row has a pool;

        then ours,

        * `improved_known`: a set more than 1% better is known, solved or not; `undecided`: none is known,
          and none is ruled out; `confirmed`: no set is better than the pool's, proved;
        * `closable_lower`, `closable_upper`, medians of the two ends of the closable share, with `_low` and
          `_high`;
        * `lower_over_upper`, median of es_lower/es_upper; `light`, share of rows whose best known set keeps
          less than half of the top-mass set's mass; `seconds` and `seconds_p90` of an instance.

    Raises
    ------
    InputError
        See `ceiling.analysis.certificates.certified`.

    Notes
    -----
    The caps need no assumption on how much is gained. Raising a fraction f of a sample, however far, moves
    its median no higher than its old (0.5 + f)-quantile: `cap`. For `cap_at_wilson`, f is `wilson95_high`,
    which takes the unsolved instances to be like the solved ones; for `cap_unsolved_improved` it is the same
    bound on (`improved_known` + `undecided`) of all instances: what is not ruled out counts as improved.
    Both formulas are read from the paper's numbers (its Wilson bounds follow exactly, its caps to the shape
    of the quantiles). What is not improved may still gain up to 1% of e_pool, of which a cap says nothing.

    The closable share c of every row lies in its interval, so its median lies between `closable_lower` and
    `closable_upper`: proved of these rows, and without any cap.
    """
    return table(
        {"mass_floor": floor} | _row(group)
        for floor, group in certified(certificates, instances, draws=draws, seed=seed)
    ).select("model", "mass_floor", pl.exclude("model", "mass_floor"))


def wilson_high(count: int, n: int) -> float | None:
    """Upper end of the two-sided 95% Wilson interval of a rate; None of nothing.

    Notes
    -----
    Wilson (1927), "Probable inference, the law of succession, and statistical inference".
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    rate, spread = count / n, z * z / n
    return (rate + spread / 2 + sqrt(spread * (rate * (1 - rate) + spread / 4))) / (1 + spread)


def cap(values: np.ndarray, fraction: float | None) -> float | None:
    """What the median of `values` is at most after any `fraction` of them is raised, up to 1.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Shares, none above 1.
    fraction : float or None
        Of the n values.

    Returns
    -------
    float or None
        The (0.5 + fraction)-quantile, read at the rank (n - 1)/2 + fraction·n: k raised values move the
        median k ranks, which the usual (n - 1)(0.5 + fraction) falls short of. 1 where there is no such
        rank. None without values or fraction.
    """
    if fraction is None or len(values) == 0:
        return None
    ordered = np.sort(values)
    rank = (len(values) - 1) / 2 + fraction * len(values)
    return float(np.interp(rank, np.arange(len(values)), ordered, right=1.0))


def verdicts() -> dict[str, pl.Expr]:
    """Per certificate: `solved`, `improved_known`, `undecided`, `confirmed`; see `certification_table`."""
    against = pl.coalesce("e_pool", "e_top")
    known = pl.col("es_upper") < (1 - IMPROVED) * against
    return {
        "solved": pl.col("status") == Status.OPTIMAL,
        "improved_known": known,
        "undecided": ~known & (pl.col("es_lower") < (1 - IMPROVED) * against),
        "confirmed": against <= pl.col("es_lower") * (1 + CONFIRMED),
    }


def proved(group: Group, weights: np.ndarray) -> dict[str, Any]:
    """The medians of the two ends, how close they are, and how much mass the best known set gives up."""
    row: dict[str, Any] = {}
    for end in ("closable_lower", "closable_upper"):
        row |= estimate(end, quantile(group.values(end), group.cluster, weights, 0.5))
    upper = group.values("es_upper")
    closeness = np.divide(group.values("es_lower"), upper, out=np.ones(len(upper)), where=upper > 0)
    light = group.values("top_share") < LIGHT
    row["lower_over_upper"] = null(quantile(closeness, group.cluster, group.weights[:1], 0.5)[0])
    row["light"] = null(share(light, group.cluster, group.weights[:1])[0])
    return row


def _row(group: Group) -> dict[str, Any]:
    judged = group.rows.select(**verdicts())
    counts = {name: int(judged[name].sum()) for name in judged.columns}
    improved = int((judged["improved_known"] & judged["solved"]).sum())
    n, with_pool = group.rows.height, group.rows["e_pool"].count()
    pool = group.values("closable_pool") if with_pool == n else np.empty(0)
    rate = wilson_high(improved, counts["solved"])
    seconds = (quantile(group.values("seconds"), group.cluster, group.weights[:1], q) for q in (0.5, 0.9))
    return (
        group.identity()
        | {"solved": counts.pop("solved"), "improved": improved, "wilson95_high": rate}
        | estimate("median_closable", quantile(pool, group.cluster[: len(pool)], group.weights, 0.5))
        | {"cap_at_wilson": cap(pool, rate)}
        | {"cap_unsolved_improved": cap(pool, wilson_high(counts["improved_known"] + counts["undecided"], n))}
        | {"n_pool": with_pool}
        | counts
        | proved(group, group.weights)
        | {name: null(x[0]) for name, x in zip(("seconds", "seconds_p90"), seconds, strict=True)}
    )
