"""Held-out loss: what restricted attention costs in nats a token, every arm and every pair of arms."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.audit_gate import LISTED
from ceiling.analysis.bootstrap import DRAWS, FULL_DOCUMENTS, SEED, document_weights, estimate, interval_note
from ceiling.analysis.cells import MAP_BUDGET
from ceiling.analysis.finding import Finding
from ceiling.analysis.selection import ORDER
from ceiling.analysis.tables import table
from ceiling.problem import InputError

TOP = "top-mass"
"""The rule of the paper's arms; all others are deployed ones."""

BALANCED = ("none", "flat", "random", "all")
"""Which cells use balancing instead of the rule, in the order of tables and figures."""

PAIRS = (("random", "flat"), ("none", "flat"), ("none", "all"), ("flat", "all"))
"""The contrasts of a rule: the first's loss less the second's."""

MOST_FLIPPED = 16
"""Documents (count) up to which all 2^n signs are tried: 65,536; with more the interval does without."""

EQUAL = 1e-9
"""Nats a token below which two losses of a document are one: rounding of sums and of means over draws."""

SAME = 1e-4
"""Nats a token by which the dense losses of one document may differ between arms: what the precondition of
a run allows its logits."""

FLOATS = ("loss", "dense_loss", "kl", "agreement", "kept_mass", "deviation")
WHERE = ("model", "document", "s", "rule", "balanced")
COUNTS = ("context", "tokens", "cells")
COLUMNS = ("dump", "config", *WHERE, "draw", *COUNTS, "balanced_cells", *FLOATS)
"""The columns of the table of losses that the analysis reads."""

PAPER = "the paper's figure gives no numbers here"

READING = (
    "Excess loss is the loss on the continuation less the unmodified model's on the same tokens. A flat cell "
    f"drops over a quarter of its mass at s = {MAP_BUDGET}, at the median over the sampled rows of the "
    "dump's other documents, wherever in them these lie. The random arm balances as many cells, some of "
    "them flat too, as chance has it; its draws are averaged within each document before anything else, "
    "so that intervals are over documents with these draws held."
)
"""Stands below every figure and table of losses."""

COARSE = (
    f"Documents are few: below {FULL_DOCUMENTS} the percentile interval covers less than it says (of six, "
    "87%), so the number of documents and the exact sign-flip p-value, never below 2/2^n, stand beside it."
)
"""Said where there are fewer documents than `FULL_DOCUMENTS`."""


def loss_table(losses: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED) -> pl.DataFrame:
    """What every arm costs (arXiv 2608.25230, figure 4).

    Parameters
    ----------
    losses : polars.DataFrame or LazyFrame
        The store's `losses`.
    draws, seed : int
        Of the bootstrap over documents; all arms of a model and budget share the resamplings.

    Returns
    -------
    polars.DataFrame
        One row per model, `s`, `rule` and `balanced`: `documents`, `draws` (choices of random cells, else
        null), `context` (tokens before the first prediction, the least), `n` (predictions of all), then
        `excess` (mean loss - dense_loss, nats a token), `relative` (excess over the mean dense loss), `kl`
        (nats a token) and `agreement`, each with `_low` and `_high`; the means `dense_loss`,
        `balanced_share` (of the cells) and `kept_mass`; the largest `deviation`; and `interval`. A document
        counts as one.

    Raises
    ------
    InputError
        Empty frame, missing column, a number that is null or not finite; one model of several dumps, or a
        rule at a budget under several configurations; a row that stands twice; an arm of a model and budget
        that lacks documents another has; or a document whose arms were not scored on the same tokens.
    """
    return table(_arm(part, draws, seed) for part in _arms(losses))


def contrasts(losses: pl.DataFrame | pl.LazyFrame, *, draws: int = DRAWS, seed: int = SEED) -> pl.DataFrame:
    """The pairs of arms, each document against itself.

    Parameters
    ----------
    losses, draws, seed
        As in `loss_table`.

    Returns
    -------
    polars.DataFrame
        One row per model, `s`, `rule` and pair of `PAIRS` that were both measured, `first` and `second`:
        `documents`; `difference`, the mean of the first's loss less the second's (nats a token, positive
        where the second is better), with `_low` and `_high`; `positive`, the documents in which it is;
        `p`, the two-sided sign-flip p-value over documents; `draws_beaten` of `draws`, the random choices
        whose mean loss is above the second's (null for other pairs); `verdict` and `interval`.

    Raises
    ------
    InputError
        As `loss_table` does.

    Notes
    -----
    The verdict follows from the interval alone: "better" where it lies above 0, "worse" below, else "open".
    The p-value enumerates all 2^n signs of the documents' differences, so it is exact and never below
    2/2^n: 0.031 for six documents. That six make a coarse interval is said in `interval`.
    """
    rows = []
    for (model, s, rule), parts in _by_rule(_arms(losses)).items():
        for first, second in PAIRS:
            if first in parts and second in parts:
                names = {"model": model, "s": s, "rule": rule, "first": first, "second": second}
                rows.append(names | _contrast(parts[first], parts[second], draws, seed))
    if not rows:
        raise InputError(
            "losses: no two arms of one rule, so nothing to compare; run `ceiling loss` with its default arms"
        )
    return table(rows)


def loss_finding(arms: pl.DataFrame, pairs: pl.DataFrame) -> Finding:
    """Whether balancing in flat cells beats balancing in as many random ones, family by family.

    Parameters
    ----------
    arms, pairs : polars.DataFrame
        From `loss_table` and `contrasts`.

    Returns
    -------
    Finding
        At the map's budget, or a family's least where it was not run at that.
    """
    said, numbers, n = [], [], []
    for model in arms["model"].unique(maintain_order=True):
        mine = arms.filter(pl.col("model") == model)
        budgets = mine["s"].to_list()
        s = MAP_BUDGET if MAP_BUDGET in budgets else min(budgets)
        of = mine.filter(pl.col("s") == s).row(0, named=True)
        n.append(f"{of['n']:,} predictions of {of['documents']} documents ({model})")
        where = pairs.filter(model=model, s=s, rule=TOP, first="random", second="flat")
        if where.is_empty():
            said.append(f"{model} was not run with both flat and random cells")
            continue
        row = where.row(0, named=True)
        share = float(mine.filter(s=s, rule=TOP, balanced="flat")["balanced_share"][0])
        if share in (0.0, 1.0):
            said.append(
                f"on {model} {'all' if share else 'no'} cells are flat, so there is nothing to compare"
            )
            continue
        number = _number(row)
        said.append(
            {
                "better": f"on {model} the flat cells beat as many random ones",
                "worse": f"on {model} as many random cells beat the flat ones",
                "open": f"on {model} it is open whether the flat cells beat as many random ones",
            }[_word(row)]
            + f" (random − flat = {number} nats a token at s = {s}, {row['positive']} of {row['documents']} "
            f"documents, {row['draws_beaten']} of {row['draws']} draws; {share:.0%} of the cells are flat, "
            "and about as much of a random choice)"
        )
        numbers.append(f"{number} ({model})")
    return Finding(
        sentence=f"Balancing in part of the cells: {'; '.join(said)}.",
        n="; ".join(n),
        interval=f"random − flat, nats a token: {'; '.join(numbers)}" if numbers else "none: no such pair",
        paper=PAPER,
    )


def losses_note(arms: pl.DataFrame) -> str:
    """What a table of losses rests on, in words."""
    parts = []
    for (model, s), rows in arms.partition_by("model", "s", as_dict=True, maintain_order=True).items():
        row, deviation = rows.row(0, named=True), max(rows["deviation"].to_list())
        drawn = rows["draws"].drop_nulls()
        random = f", {drawn[0]} random choices of cells" if len(drawn) else ""
        parts.append(
            f"{model}, s = {s}: n = {row['n']:,} predictions of {row['documents']} documents after at "
            f"least {row['context']:,} tokens of context{random}; the unrestricted operator differs "
            f"from the unmodified logits by up to about {deviation:.2g}; intervals: {row['interval']}."
        )
    return " ".join(parts)


def rule_order(rule: str) -> tuple[int, str]:
    """Where a rule stands among all: in the order of `selection.ORDER`, others behind, by name."""
    name = rule.partition(":")[0]
    return (ORDER.index(name) if name in ORDER else len(ORDER)), rule


def documents_of(losses: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The excess of every document: `model, s, rule, balanced, document, excess`, random draws averaged."""
    return pl.concat(_averaged(arm) for arm in _arms(losses)).select(
        "model", "s", "rule", "balanced", "document", "excess"
    )


def _arms(losses: pl.DataFrame | pl.LazyFrame) -> list[pl.DataFrame]:
    """The rows of every model, budget, rule and `balanced`, in that order, sorted by document and draw."""
    frame = _checked(losses)
    parts = frame.partition_by("model", "s", "rule", "balanced")

    def order(part: pl.DataFrame) -> tuple[Any, ...]:
        model, s, rule, balanced = part.select("model", "s", "rule", "balanced").row(0)
        return model, s, *rule_order(rule), BALANCED.index(balanced)

    return sorted(parts, key=order)


def _by_rule(arms: Sequence[pl.DataFrame]) -> dict[tuple[str, int, str], dict[str, pl.DataFrame]]:
    found: dict[tuple[str, int, str], dict[str, pl.DataFrame]] = {}
    for arm in arms:
        model, s, rule, balanced = arm.select("model", "s", "rule", "balanced").row(0)
        found.setdefault((model, s, rule), {})[balanced] = arm
    return found


def _averaged(arm: pl.DataFrame) -> pl.DataFrame:
    """One row a document: the means over its draws."""
    means = pl.col("excess", *FLOATS, "balanced_cells").mean()
    same = pl.col("model", "s", "rule", "balanced", *COUNTS).first()
    return arm.group_by("document").agg(same, means).sort("document")


def _arm(arm: pl.DataFrame, draws: int, seed: int) -> dict[str, Any]:
    rows = _averaged(arm)
    weights = document_weights(rows.height, draws=draws, seed=seed)
    excess, dense, kl, agreement = (
        weights @ rows[name].to_numpy() / rows.height for name in ("excess", "dense_loss", "kl", "agreement")
    )
    row = arm.select("model", "s", "rule", "balanced").row(0, named=True)
    row |= {"documents": rows.height, "draws": _draws(arm)}
    row |= {"context": rows["context"].min(), "n": rows["tokens"].sum()}
    row |= estimate("excess", excess) | estimate("relative", excess / dense)
    row |= estimate("kl", kl) | estimate("agreement", agreement)
    return row | {
        "dense_loss": rows["dense_loss"].mean(),
        "balanced_share": (rows["balanced_cells"] / rows["cells"]).mean(),
        "kept_mass": rows["kept_mass"].mean(),
        "deviation": arm["deviation"].max(),
        "interval": interval_note(rows.height, len(weights) - 1),
    }


def _contrast(first: pl.DataFrame, second: pl.DataFrame, draws: int, seed: int) -> dict[str, Any]:
    one, other = _averaged(first), _averaged(second)
    differences = one["loss"].to_numpy() - other["loss"].to_numpy()
    differences[np.abs(differences) < EQUAL] = 0.0
    n = len(differences)
    weights = document_weights(n, draws=draws, seed=seed)
    row: dict[str, Any] = {"documents": n} | estimate("difference", weights @ differences / n)
    each = first.group_by("draw").agg(pl.col("loss").mean())["loss"] if _draws(first) else None
    row |= {"positive": int((differences > 0).sum()), "p": sign_flip(differences)}
    row |= {
        "draws_beaten": None if each is None else int((each - other["loss"].to_numpy().mean() > EQUAL).sum())
    }
    row |= {"draws": _draws(first)}
    return row | {
        "verdict": _verdict(row, second["balanced"][0]),
        "interval": interval_note(n, len(weights) - 1),
    }


def _word(row: dict[str, Any]) -> str:
    """What the interval of a difference says of its second side."""
    low, high = row["difference_low"], row["difference_high"]
    if low is None or low <= 0 <= high:
        return "open"
    return "better" if low > 0 else "worse"


def _verdict(row: dict[str, Any], second: str) -> str:
    word = _word(row)
    name = word if word == "open" else f"{second} {word}"
    few = ", too few for an interval" if row["difference_low"] is None else ""
    return f"{name}: less loss in {row['positive']} of {row['documents']} documents{few}"


def sign_flip(differences: np.ndarray) -> float | None:
    """Share of all sign patterns whose sum is at least as far from 0: exact, two-sided.

    Parameters
    ----------
    differences : ndarray of float64, shape (n,)

    Returns
    -------
    float or None
        None above `MOST_FLIPPED` documents. Under the null every document's difference is as likely to have
        the other sign; sums within rounding of the observed one count as reaching it.
    """
    n = len(differences)
    if n > MOST_FLIPPED:
        return None
    signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    sums, rounding = np.abs(signs @ differences), 1e-12 * np.abs(differences).sum()
    return float((sums >= sums[0] - rounding).mean())


def _draws(arm: pl.DataFrame) -> int | None:
    return arm["draw"].n_unique() if arm["balanced"][0] == "random" else None


def _number(row: dict[str, Any]) -> str:
    value, low, high = (row[f"difference{part}"] for part in ("", "_low", "_high"))
    return f"{value:.3g}" if low is None else f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _checked(losses: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """`COLUMNS` and `excess`, sorted, of whole grids, or `InputError`."""
    lazy = losses.lazy()
    if missing := [c for c in COLUMNS if c not in lazy.collect_schema().names()]:
        raise InputError(f"losses: no column {missing[0]!r}; expected the columns of the store's losses")
    frame = lazy.select(COLUMNS).collect()
    if frame.is_empty():
        raise InputError("losses: the store holds none; run `ceiling loss` on a dump first")
    broken = frame.select((~pl.col(FLOATS).is_finite()).fill_null(True).any())
    for column in broken.columns:
        if broken[column][0]:
            raise InputError(
                f"losses: {column} holds a number that is null or not finite; delete its shards, run again"
            )
    if unknown := sorted(set(frame["balanced"]) - set(BALANCED)):
        raise InputError(f"losses: balanced is {unknown[0]!r}, none of {', '.join(BALANCED)}")
    for column, way, of in (("dump", "--text", ["model"]), ("config", "--config", ["model", "s", "rule"])):
        several = frame.group_by(of).agg(pl.col(column).unique().sort()).sort(of)
        for *whose, found in several.filter(pl.col(column).list.len() > 1).rows():
            raise InputError(
                f"losses: {', '.join(map(str, whose))} has losses of {column}s {', '.join(found)}, which no "
                f"mean may mix; name one with {way}, or keep them in separate stores"
            )
    if problems := [problem for part in frame.partition_by("model", "s") for problem in _problems(part)]:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise InputError(f"losses: not one whole grid: {'; '.join(sorted(problems)[:LISTED])}{more}")
    return frame.with_columns(excess=pl.col("loss") - pl.col("dense_loss")).sort(*WHERE, "draw")


def _problems(part: pl.DataFrame) -> Iterator[str]:
    """What is wrong with the grid of one model and budget, in words."""
    where = "model {}, s = {}".format(*part.select("model", "s").row(0))
    arms, documents = part.select("rule", "balanced", "draw").unique(), sorted(set(part["document"]))
    seen: dict[tuple[Any, ...], int] = {}
    for key in part.select("rule", "balanced", "draw", "document").iter_rows():
        seen[key] = seen.get(key, 0) + 1
    for arm, document in product(sorted(arms.rows(), key=str), documents):
        if (times := seen.get((*arm, document), 0)) != 1:
            rule, balanced, draw = arm
            name = f"{rule}, {balanced}" + (f" (draw {draw})" if balanced == "random" else "")
            there = "is missing" if not times else f"stands there {times} times"
            yield f"{where}, document {document}: {name} {there}"
    spread = pl.col("dense_loss").max() - pl.col("dense_loss").min()
    for row in part.group_by("document").agg(pl.col(COUNTS).n_unique(), spread).iter_rows(named=True):
        if uneven := [name for name in COUNTS if row[name] > 1]:
            yield f"{where}, document {row['document']}: {row[uneven[0]]} different {uneven[0]}"
        elif row["dense_loss"] > SAME:
            yield f"{where}, document {row['document']}: its dense_loss differs between arms"
