"""Tasks: contexts with known needles, where the bounds written down before the capture are checked."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED, estimate
from ceiling.analysis.cells import MAP_BUDGET, cell_map
from ceiling.analysis.certificates import INSTANCE
from ceiling.analysis.contexts import TASKS, context
from ceiling.analysis.instances import ALL_FAMILIES, Group, groups
from ceiling.analysis.ranks import auc, quantile, ratio, share
from ceiling.analysis.tables import shown, table
from ceiling.problem import InputError
from ceiling.texts.tasks import MIXED, nth

ALL = "all tasks"
"""The rows of every task-structured context of a model together: what the bounds are of."""

RETRIEVAL = "retrieval"
"""The tag of a row whose query reads the answer off the needles; the others are background."""

TAIL = 0.9
"""Quantile (dimensionless) of kappa in the headroom ratio."""

BOUNDS = {
    "closable_median": "max",
    "headroom_ratio": "max",
    "value_aware_share": "max",
    "auc": "min",
    "map_agreement": "min",
    "retrieval_share": "min",
}
"""The quantities, and on which side of its registered bound each is to lie. The bound's name is the
quantity's, an underscore and this word."""

SIGN = {"max": "≤", "min": "≥"}

UNDEFINED = {
    "closable_median": "no measured instance",
    "headroom_ratio": "no measured row on one side, or a 90th percentile beyond every number",
    "value_aware_share": "no measured retrieval row of a document whose needles are recorded",
    "auc": "every instance bears the same label",
    "map_agreement": f"no cell with instances at s = {MAP_BUDGET} of both texts",
    "retrieval_share": "no row",
}
"""Why a quantity may have no value."""


def task_table(
    instances: pl.DataFrame | pl.LazyFrame,
    documents: pl.DataFrame | pl.LazyFrame,
    rows: pl.DataFrame | pl.LazyFrame,
    main: pl.DataFrame | pl.LazyFrame | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """What holds on task-structured contexts, beside what was registered (arXiv 2608.25230).

    Parameters
    ----------
    instances, documents, rows : polars.DataFrame or LazyFrame
        The store's tables; of the instances, those of dumps whose text is a task.
    main : polars.DataFrame or LazyFrame, optional
        Instances of the text whose map is compared; those of tasks among them are left out.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        One row per model (`ALL_FAMILIES` last), `task` (`ALL` first) and `quantity`, budgets pooled:
        `documents`, `n` (instances, cells or positions that the quantity rests on), `trivial, degenerate,
        interval`, `value` with `value_low` and `value_high`, `bound`, `side` ("max" or "min") and `verdict`:
        "held", "not held", or why neither.

        * `closable_median` of 1 - e_pool/e_top;
        * `headroom_ratio`: 90th percentile of kappa on retrieval rows over that on background rows (a null
          kappa counts as above every number);
        * `value_aware_share` of retrieval rows: kappa > 1.11, and the pool's best set keeps a needle's key
          that top-mass drops;
        * `auc` of the dropped mass for kappa > 1.11;
        * `map_agreement`: share of (layer, head) cells that are flat, or not, on the task and on `main`;
        * `retrieval_share` of the sampled query positions.

    Raises
    ------
    InputError
        No instance of a task, malformed registered bounds; see also `ceiling.analysis.instances.groups`.
    """
    texts = context(documents).filter(pl.col("text").str.starts_with(TASKS))
    frame = instances.lazy().join(texts.lazy(), on="dump").collect()
    if frame.is_empty():
        raise InputError(
            "documents: the store has no instances of a task; run `ceiling capture --text task:NAME` and "
            "`ceiling enumerate` on its dump"
        )
    if main is not None:
        main = main.lazy().join(texts.lazy(), on="dump", how="anti")  # a map agrees with itself
    frame = _with_task(frame)
    frame = frame.join(_flags(frame, documents, rows), on=INSTANCE, how="left", maintain_order="left")
    families = {model: frame.filter(model=model) for model in frame["model"].unique().sort()}
    if len(families) > 1:
        families[ALL_FAMILIES] = frame
    return table(
        {"model": model, "task": task, "quantity": quantity} | row
        for model, family in families.items()
        for task, part in _parts(family).items()
        for quantity, row in _rows(part, documents, rows, main, draws, seed)
    )


def verdicts_readable(tasks: pl.DataFrame) -> pl.DataFrame:
    """A `task_table` as text: `model, task, quantity, n, value, registered, verdict`."""
    text = {
        "value": [shown(row, "value") for row in tasks.iter_rows(named=True)],
        "registered": [
            "–" if bound is None else f"{SIGN[side]} {bound:g}"
            for side, bound in tasks.select("side", "bound").iter_rows()
        ],
    }
    columns = (pl.Series(name, texts, dtype=pl.String) for name, texts in text.items())
    return tasks.select("model", "task", "quantity", "n", *columns, "verdict")


def _parts(family: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """All tasks together, then each; one task is no more than itself."""
    parts = {name: family.filter(task=name) for name in family["task"].unique().sort()}
    return parts if len(parts) == 1 else {ALL: family, **parts}


def _with_task(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with the task of every document: a mixed text's documents are of each task in turn."""
    documents = frame.select("text", "document").unique()
    names = []
    for text, document in documents.iter_rows():
        task = text.removeprefix(TASKS).split(":")[0]
        names.append(TASKS + nth(MIXED, 0, document).task if task == MIXED else text)
    named = documents.with_columns(task=pl.Series(names, dtype=pl.String))
    return frame.join(named, on=("text", "document"), how="left", maintain_order="left")


def _flags(
    frame: pl.DataFrame, documents: pl.DataFrame | pl.LazyFrame, rows: pl.DataFrame | pl.LazyFrame
) -> pl.DataFrame:
    """Per instance: `retrieval`, and `needle`: the pool's best keeps a needle's key that top-mass drops.

    `needle` is null where no needles are recorded.
    """
    needles = documents.lazy().select("dump", "document", "needles").collect()
    taken = pl.col("kept_pool").list.set_difference("kept_top").list.set_intersection("needles")
    return (
        frame.select(*INSTANCE, "kept_pool", "kept_top")
        .join(_retrieval(rows), on=("dump", "document", "position"), how="left")
        .join(needles, on=("dump", "document"), how="left")
        .select(
            *INSTANCE,
            retrieval=pl.col("retrieval").fill_null(False),
            needle=taken.list.len() > 0,
        )
    )


def _retrieval(rows: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    tagged = pl.col("tags").list.contains(RETRIEVAL).fill_null(False)
    return rows.lazy().select("dump", "document", "position", retrieval=tagged).collect()


def _rows(
    part: pl.DataFrame,
    documents: pl.DataFrame | pl.LazyFrame,
    rows: pl.DataFrame | pl.LazyFrame,
    main: pl.DataFrame | pl.LazyFrame | None,
    draws: int,
    seed: int,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The quantities of one family, or of all, on one task, each beside its bound."""
    (group,) = groups(part, pooled=True, together=True, draws=draws, seed=seed)
    flags = part.select(*INSTANCE, "retrieval", "needle")
    group = replace(group, rows=group.rows.join(flags, on=INSTANCE, how="left", maintain_order="left"))
    registered = _registered(documents, part["dump"].unique())
    queries = _retrieval(rows).join(part.select("dump", "document").unique(), on=("dump", "document"))
    tagged = queries["retrieval"].cast(pl.Float64).to_numpy()
    measured = _measured(group) | {
        "map_agreement": _agreement(part, main),
        "retrieval_share": (tagged.mean(keepdims=True) if len(tagged) else np.array([np.nan]), len(tagged)),
    }
    for quantity, (replicates, n) in measured.items():
        about = {name: value for name, value in group.identity().items() if name not in ("model", "s")}
        row = about | {"n": n} | estimate("value", replicates)
        yield quantity, row | _judged(quantity, row["value"], registered)


def _measured(group: Group) -> dict[str, tuple[np.ndarray, int]]:
    """Replicates of every quantity that rests on instances, and on how many."""
    weights, everything = group.weights, group.rows.height
    asked, others = group.keep(pl.col("retrieval")), group.keep(~pl.col("retrieval"))
    tails = [quantile(g.values("kappa", null=np.inf), g.cluster, weights, TAIL) for g in (asked, others)]
    tails = [np.where(np.isfinite(tail), tail, np.nan) for tail in tails]
    label, mass = group.rows["label"].to_numpy(), group.values("dropped_mass")
    known = asked.keep(pl.col("needle").is_not_null())
    aware = known.rows.select(pl.col("label") & pl.col("needle")).to_series().to_numpy()
    closable = quantile(group.values("closable"), group.cluster, weights, 0.5)
    return {
        "closable_median": (closable, everything),
        "headroom_ratio": (ratio(*tails), everything),
        "value_aware_share": (share(aware, known.cluster, weights), known.rows.height),
        "auc": (auc(mass, label, group.cluster, weights), everything),
    }


def _agreement(part: pl.DataFrame, main: pl.DataFrame | pl.LazyFrame | None) -> tuple[np.ndarray, int]:
    """Share of the cells with the same flat label on both texts, and of how many; NaN without any."""
    undefined = np.array([np.nan]), 0
    if main is None:
        return undefined
    models = part["model"].unique().to_list()
    theirs = main.lazy().filter(pl.col("s") == MAP_BUDGET, pl.col("model").is_in(models)).collect()
    ours = part.filter(s=MAP_BUDGET)
    if ours.is_empty() or theirs.is_empty():
        return undefined
    where = ("model", "layer", "head")
    first, second = (cell_map(frame).select(*where, "flat").drop_nulls() for frame in (ours, theirs))
    both = first.join(second, on=where).select(same=pl.col("flat") == pl.col("flat_right"))
    return (
        (both["same"].cast(pl.Float64).to_numpy().mean(keepdims=True), both.height)
        if len(both)
        else undefined
    )


def _registered(documents: pl.DataFrame | pl.LazyFrame, dumps: pl.Series) -> list[dict[str, Any]]:
    """The different sets of bounds that were written down for these dumps."""
    of = documents.lazy().filter(pl.col("dump").is_in(dumps.to_list())).select("registered").collect()
    bounds = []
    for text in of["registered"].drop_nulls().unique().sort():
        try:
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError("no mapping of names to numbers")
        except ValueError as error:
            raise InputError(f"documents: registered is {text!r}, no bounds in JSON ({error})") from None
        bounds.append(found)
    return bounds


def _judged(quantity: str, value: float | None, registered: list[dict[str, Any]]) -> dict[str, Any]:
    """The bound, its side, and the verdict: "held", "not held" or why neither."""
    side = BOUNDS[quantity]
    name = f"{quantity}_{side}"
    stated = {bounds[name] for bounds in registered if isinstance(bounds.get(name), int | float)}
    bound = float(stated.pop()) if len(stated) == 1 else None
    if len(stated) > 1:
        verdict = f"no verdict: {len(stated)} bounds were registered"
    elif bound is None:
        verdict = "no bound was registered"
    elif value is None:
        verdict = f"no verdict: {UNDEFINED[quantity]}"
    else:
        verdict = "held" if (value <= bound if side == "max" else value >= bound) else "not held"
    return {"bound": bound, "side": side, "verdict": verdict}
