"""Findings of the figures and tables of instances: one sentence each, whichever way the numbers fall."""

import polars as pl

from ceiling.analysis.cells import FLAT_MASS, MAP_BUDGET
from ceiling.analysis.content import CONTENT
from ceiling.analysis.finding import Finding
from ceiling.analysis.findings_words import (
    MOST,
    away,
    by_family,
    cases,
    column,
    estimates,
    greatest,
    grounds,
    listed,
    plain,
    rests,
    sided,
    span,
    stated,
)
from ceiling.analysis.instances import ALL_FAMILIES, LABEL_RATIO
from ceiling.analysis.predictors import MEANING
from ceiling.analysis.summary import number, percent
from ceiling.analysis.tasks import ALL, SIGN

CLOSABLE = 1 - 1 / LABEL_RATIO
"""Closable share (dimensionless) from which an instance bears the label."""

QUANTITIES = {
    "closable_median": "median closable share",
    "headroom_ratio": "retrieval over background headroom",
    "value_aware_share": "share of value-aware retrieval rows",
    "auc": "AUC of dropped mass",
    "map_agreement": "map agreement",
    "retrieval_share": "share of retrieval rows",
}
"""The quantities of the tasks, in words."""


def figure1(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Whether the median instance is one that selection can better.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.ceiling_table`.
    paper : polars.DataFrame
        The reference of the paper's text.
    """
    below, ground = sided(away(ours, "closable", CLOSABLE), -1), grounds(ours, "closable")
    attained = span(ours["attained"], percent)
    return Finding(
        f"The best kept set of the pool closes a median {by_family(ours, 'closable', percent)} of top-mass's "
        f"error, {below} cases of family and budget less than the {percent(CLOSABLE)} from which an instance "
        f"counts as closable ({ground}), and top-mass is that set on {attained} of instances.",
        rests(ours),
        estimates(greatest(ours, "closable"), "closable"),
        f"closes {stated(paper, 'closable')}; is that set on {stated(paper, 'attained')}",
    )


def figure2(
    ours: pl.DataFrame, prediction: pl.DataFrame, agreement: pl.DataFrame, paper: pl.DataFrame
) -> Finding:
    """Whether the map of dropped mass tells closable cells, and whether another text draws the same map.

    Parameters
    ----------
    ours, prediction, agreement : polars.DataFrame
        From `ceiling.analysis.map_table`, `prediction_table` and `agreement_table`.
    paper : polars.DataFrame
        The reference of the paper's text.
    """
    flat = ours.select("model", share=pl.col("flat_cells") / pl.col("cells"))
    texts = "one text has no second map to agree with"
    if agreement.height:
        pairs = agreement.select("first", "second").n_unique()
        texts = (
            f"{span(agreement['same_label'], percent)} of cells are flat on both of two texts or on neither"
        )
        texts += f" ({pairs} pairs of texts)" if pairs > 1 else ""
    return Finding(
        f"A cell's median dropped mass tells a median κ̂ above {LABEL_RATIO} with AUC "
        f"{by_family(ours, 'cell_auc')}, better than chance {cases(ours['cell_auc'] > 0.5)} families; "
        f"{by_family(flat, 'share', percent)} of cells are flat, of mass above {FLAT_MASS} at s = "
        f"{MAP_BUDGET}, and {texts}.",
        rests(ours),
        f"of cells none; of rows, all budgets, {estimates(prediction.filter(pl.col('s').is_null()), 'auc')}",
        f"AUC of cells {stated(paper, 'cell_auc')}, of rows {stated(paper, 'auc')}",
    )


def prediction(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Whether dropped mass is the strongest sign of a better kept set.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.predictor_table`.
    paper : polars.DataFrame
        The reference of the paper's text.
    """
    pooled = ours.filter(pl.col("s").is_null()).with_columns(strength=(pl.col("auc") - 0.5).abs())
    mass = pooled.filter(predictor="dropped_mass")
    others = greatest(pooled.filter(pl.col("predictor") != "dropped_mass"), "strength")
    both = mass.join(others, on="model", suffix="_other").drop_nulls("auc")
    ahead = [
        mine > other for mine, other in both.select(pl.col("strength", "strength_other").round(12)).rows()
    ]
    rivals = [
        f"{MEANING.get(row['predictor'], row['predictor'])} has {number(row['auc'])} in {row['model']}"
        for row in others.iter_rows(named=True)
    ]
    rivals = rivals if len(rivals) <= MOST else [f"they have {span(others['auc'])}"]
    return Finding(
        f"Dropped mass tells κ̂ > {LABEL_RATIO} with AUC {by_family(mass, 'auc')}, farther from chance than "
        f"every other statistic {cases(ahead)} families (of the others the strongest: {listed(rivals)}).",
        rests(mass),
        estimates(mass, "auc"),
        f"AUC {stated(paper, 'auc')} of dropped mass, per family; of the others none",
    )


def table1(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Whether less is left to balancing at the budgets that caches are run at.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.native_table`.
    paper : polars.DataFrame
        From `ceiling.analysis.native.native_paper`.
    """
    closure, gap = "median_balancing_closure", "gap_share_of_s8"
    families = ours.filter(pl.col("model") != ALL_FAMILIES)
    first, last, ends = _ends_of_budgets(families, closure)
    more = (ends[f"{closure}_last"] >= ends[closure]).to_list()
    theirs = paper.filter(quantity=closure, family="pooled")
    return Finding(
        f"Balancing closes a median {by_family(first, closure, percent)} of top-mass's error at "
        f"s = {span(first['s'], plain)} and {by_family(last, closure, percent)} at "
        f"s = {span(last['s'], plain)}, no less there {cases(more)} families, of an error that is there "
        f"{span(last[gap], percent)} of what it is at s = {MAP_BUDGET}.",
        rests(families),
        estimates(last, closure),
        f"{span((float(x) for x in theirs['value']), percent)} of four families pooled, "
        f"s = {span(theirs['s'], plain)}",
    )


def table2(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Which text leaves most to close, and on which dropped mass tells it better.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.content_table`.
    paper : polars.DataFrame
        Its reference, as text.
    """
    low, high = CONTENT[2:]
    most = greatest(ours.with_columns(middle=(pl.col(low) + pl.col(high)) / 2), "middle")
    wins = most.group_by("text").len().sort("len", "text", descending=[True, False])
    largest = [f"{text} in {k} of {most.height} families" for text, k in wins.rows()]
    texts = [rows for (_,), rows in ours.group_by("text", maintain_order=True)]
    shares, aucs = (
        [f"{span(pl.concat([rows[c] for c in columns]), show)} on {rows['text'][0]}" for rows in texts]
        for columns, show in (((low, high), percent), (("auc",), number))
    )
    return Finding(
        f"The share of instances with κ̂ > {LABEL_RATIO} is largest on {listed(largest)} (over families and "
        f"budgets {listed(shares)}), where dropped mass tells them with AUC {listed(aucs)}.",
        rests(ours.group_by("model", maintain_order=True).agg(pl.col("n", "documents").sum())),
        estimates(ours.drop_nulls("auc").sort("auc", maintain_order=True).head(1), "auc", ["text"]),
        "; ".join(
            f"{row['content']}: AUC {_ends(row, CONTENT[:2])}, share {_ends(row, CONTENT[2:])}"
            for row in paper.iter_rows(named=True)
        ),
    )


def table6(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Whether the outer layers are those where selection matters.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.panel_table`.
    paper : polars.DataFrame
        Its reference, as text.
    """
    edge = "edge_interior"
    more, less, paper_more, paper_less = (
        sided(away(frame, edge, 1), side)
        for frame in (ours, paper.with_columns(pl.col(f"^{edge}.*$").cast(pl.Float64)))
        for side in (1, -1)
    )
    return Finding(
        f"The outer layers bear κ̂ > {LABEL_RATIO} more often than the inner {more} and less often "
        f"{less} families, {by_family(ours, edge)} times as often ({grounds(ours, edge)}), "
        f"dropped mass tells it with AUC {by_family(ours, 'auc_dropped_mass')}, and ρ of Φ with "
        f"the pool's least error is {by_family(ours, 'rho_phi_es_pool')}.",
        rests(ours),
        estimates(ours, edge),
        f"{column(paper, edge)} times as often, more {paper_more} and less {paper_less}; AUC "
        f"{column(paper, 'auc_dropped_mass')}; ρ {column(paper, 'rho_phi_es_pool')}",
    )


def table8(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """What other ways to choose a set cost, and what forcing the weights does.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.budget_profile`; rows of all models pooled are left out.
    paper : polars.DataFrame
        Its reference, in numbers.
    """
    families = ours.filter(pl.col("model") != ALL_FAMILIES)
    ends = _ends_of_budgets(families, "median_pi")[-1]
    rises = (ends["median_pi_last"] > ends["median_pi"]).to_list()
    geometric, leverage = (
        f"{cases(families[c] > 1)} cases of family and budget ({span(families[c])} times it)"
        for c in ("geo_over_top", "lev_over_top")
    )
    return Finding(
        f"Median κ̂ is {by_family(families, 'median_kappa')}; the geometric set's error is in the "
        f"median row above top-mass's {geometric}, the leverage set's {leverage}, and the median penalty π̂, "
        f"{by_family(families, 'median_pi')} (over Frank–Wolfe's distance, a bias without sign: the penalty "
        f"itself is at least 1), rises from the least budget to the largest "
        f"{cases(rises)} families.",
        rests(families),
        estimates(greatest(families, "median_kappa"), "median_kappa"),
        f"κ̂ {column(paper, 'median_kappa')}, geometric {column(paper, 'geo_over_top')}, leverage "
        f"{column(paper, 'lev_over_top')}, π̂ {column(paper, 'median_pi')}, of "
        f"{listed(paper['family'].unique(maintain_order=True).to_list())}",
    )


def tasks(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Which of the bounds that were written down before the capture hold, of all tasks together.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.tasks.task_table`.
    paper : polars.DataFrame
        `quantity, side, bound` as the paper registered them.
    """
    first = ours.unique(["model", "quantity"], keep="first", maintain_order=True)
    families = first.filter(pl.col("model") != ALL_FAMILIES)
    judged = families.filter(pl.col("verdict").is_in(["held", "not held"]))
    broken = [
        f"{QUANTITIES.get(row['quantity'], row['quantity'])} {row['value']:.3g} against "
        f"{SIGN[row['side']]} {row['bound']:g} in {row['model']}"
        for row in judged.filter(verdict="not held").iter_rows(named=True)
    ]
    median = families.filter(quantity="closable_median")
    more = f" and {len(broken) - MOST} more" if len(broken) > MOST else ""
    held = (judged["verdict"] == "held").to_list()
    names = first["task"].unique(maintain_order=True).to_list()
    of = "all tasks together" if names == [ALL] else f"of {listed(names)} alone, which is no test"
    return Finding(
        f"The bounds registered before the capture hold {cases(held)} cases of family and quantity, {of} "
        f"(broken: {listed(broken[:MOST])}{more}), and the median closable share is "
        f"{by_family(median, 'value', percent)}.",
        rests(median),
        estimates(median, "value"),
        "registered: "
        + "; ".join(
            f"{QUANTITIES.get(row['quantity'], row['quantity'])} {SIGN[row['side']]} {float(row['bound']):g}"
            for row in paper.iter_rows(named=True)
        ),
    )


def _ends(row: dict[str, str | None], names: tuple[str, ...]) -> str:
    return span((float(text) for name in names if (text := row[name])), plain)


def _ends_of_budgets(frame: pl.DataFrame, quantity: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Every family's rows of the least and of the largest budget that has `quantity`, and the two side by
    side where they are two budgets."""
    known = frame.drop_nulls(quantity).sort("model", "s", maintain_order=True)
    first, last = (known.unique("model", keep=end, maintain_order=True) for end in ("first", "last"))
    both = first.join(last, on="model", suffix="_last", maintain_order="left")
    return first, last, both.filter(pl.col("s") < pl.col("s_last"))
