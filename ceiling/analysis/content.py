"""Content: prediction and label rate by the kind of text, as in the paper's table 2."""

from collections.abc import Mapping

import polars as pl

from ceiling.analysis.bootstrap import DRAWS, SEED
from ceiling.analysis.contexts import TASKS
from ceiling.analysis.prediction import prediction_table
from ceiling.analysis.tables import shown, table
from ceiling.problem import InputError

PAPERS_CONTENT = {"python-docs": "English prose", "python-code": "source code"}
"""What the paper calls the content of a built-in text; a task is called one, another text by its name."""

CONTENT = (
    "auc_dropped_mass_low",
    "auc_dropped_mass_high",
    "share_kappa_gt_1_11_low",
    "share_kappa_gt_1_11_high",
)
"""The quantities of table 2, in its order: ranges over budgets, no intervals."""

FAMILY = "Qwen2.5-1.5B"
"""The family of the paper's content run."""

UNCAPTURED = {
    **{name: f"not captured: `ceiling capture --text {text}`" for text, name in PAPERS_CONTENT.items()},
    "French text": "not captured; a French file of yours stands under its own name",
}
"""Why no row of ours stands beside a content of the paper's, and what makes one."""


def content_name(text: str) -> str:
    """The content that a text is of, in the paper's words where it has them."""
    if text.startswith(TASKS):
        return f"task, {text.removeprefix(TASKS)}"
    if text.startswith(("hf:wikitext", "hf:Salesforce/wikitext")):
        return "English prose"
    return PAPERS_CONTENT.get(text, text)


def content_table(texts: Mapping[str, pl.DataFrame], *, draws: int = DRAWS, seed: int = SEED) -> pl.DataFrame:
    """Table 2, one row per text and model (arXiv 2608.25230).

    Parameters
    ----------
    texts : mapping of str to polars.DataFrame
        Instances by the name of their text, from `ceiling.analysis.contexts.by_context`.
    draws, seed : int
        Of the cluster bootstrap over documents.

    Returns
    -------
    polars.DataFrame
        `content, text, model, documents, n, trivial, degenerate, interval`; `CONTENT`, the least and the
        greatest over the budgets of the AUC of the dropped mass and of the share of rows with kappa > 1.11;
        and `auc` of all budgets pooled, with its 95% interval.

    Raises
    ------
    InputError
        When there is no text.
    """
    if not texts:
        raise InputError("instances: the store holds none; run `ceiling enumerate` on a dump first")
    rate = pl.col("n_labelled") / pl.col("n")
    parts = []
    for text, instances in texts.items():
        rows = prediction_table(instances, draws=draws, seed=seed)
        ranges = (
            rows.drop_nulls("s")
            .group_by("model", maintain_order=True)
            .agg(
                auc_dropped_mass_low=pl.col("auc").min(),
                auc_dropped_mass_high=pl.col("auc").max(),
                share_kappa_gt_1_11_low=rate.min(),
                share_kappa_gt_1_11_high=rate.max(),
            )
        )
        whose = ["model", "documents", "n", "trivial", "degenerate", "interval", "auc"]
        pooled = rows.filter(pl.col("s").is_null()).select(*whose, "auc_low", "auc_high")
        named = pooled.join(ranges, on="model", how="left", maintain_order="left")
        parts.append(
            named.select(pl.lit(content_name(text)).alias("content"), pl.lit(text).alias("text"), pl.all())
        )
    return pl.concat(parts, how="diagonal_relaxed")


def content_beside(ours: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    """`content, whose`, the quantities and `here`: our rows of a content, then the paper's, as text.

    `ours` is a `content_table`, `paper` the reference as text.
    """
    contents = [*ours["content"].unique(maintain_order=True)]
    contents += [content for content in paper["content"] if content not in contents]
    rows = []
    for content in contents:
        mine = ours.filter(content=content)
        for row in mine.iter_rows(named=True):
            values = {q: shown({q: row[q]}, q) for q in CONTENT} | {"auc": shown(row, "auc")}
            whose = {"content": content, "whose": f"{row['model']}, {row['text']}", "n": f"{row['n']:,}"}
            rows.append(whose | values | {"here": "–"})
        for row in paper.filter(content=content).iter_rows(named=True):
            values = {q: row[q] or "–" for q in CONTENT} | {"auc": "–"}
            beside = (
                "beside " + ", ".join(mine["model"])
                if mine.height
                else UNCAPTURED.get(content, "not captured")
            )
            whose = {"content": content, "whose": f"paper, {FAMILY}", "n": "–"}
            rows.append(whose | values | {"here": beside})
    return table(rows)
