"""Findings of the figures of kept sets: of rules that were scored and of sets that were proved."""

import polars as pl

from ceiling.analysis.certificates import floor_name
from ceiling.analysis.certification import IMPROVED, wilson_high
from ceiling.analysis.finding import Finding
from ceiling.analysis.findings_words import (
    MOST,
    at_map,
    away,
    by_family,
    cases,
    column,
    estimates,
    greatest,
    grounds,
    listed,
    named,
    rests,
    sided,
    span,
    stated,
)
from ceiling.analysis.summary import number, percent
from ceiling.analysis.zero_errors import ANSWERS
from ceiling.objective import TIE
from ceiling.problem import Status

NO_NUMBER = "none a selector: ranges of its medians at s = 8 stand beside figure 3"
"""What the paper has for `selection`."""


def allocation(ours: pl.DataFrame) -> Finding:
    """Whether any way of spreading one total budget over the heads beats the uniform one.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.allocation.allocation_table`.
    """
    parts = []
    for (name,), rows in ours.group_by("allocation", maintain_order=True):
        sides = away(rows, "median_scaled", 1)
        parts.append(
            f"{name} is better {sided(sides, -1)} and worse {sided(sides, 1)} "
            f"({span(rows['median_scaled'])} times the error)"
        )
    first = ours.filter(allocation=ours["allocation"][0])
    best = ours.drop_nulls("median_scaled").sort("median_scaled", maintain_order=True).head(1)
    return Finding(
        "Against the same budget for every head, errors in units of σ, in cases of family and budget "
        f"({grounds(ours, 'median_scaled')}), {'; '.join(parts)}.",
        rests(first, "instances"),
        estimates(best, "median_scaled", ["allocation"]),
        "none: no number of the paper's for an allocation is in the reference data",
    )


def figure3(ours: pl.DataFrame, ranges: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Whether a rule that is deployed comes as near to the pool's best as top-mass.

    Parameters
    ----------
    ours, ranges : polars.DataFrame
        From `ceiling.analysis.selection.with_pool` and `excess_ranges`.
    paper : polars.DataFrame
        The reference of the paper's selectors.
    """
    top = ranges.filter(kind="top-mass", reading="per-query")
    rules = ours.filter(kind="deployed").join(ranges, on=["model", "kind", "reading", "s"], how="semi")
    if rules.drop_nulls("excess").is_empty():
        return Finding(
            "No rule the paper calls deployed has a median at its budget.", "none", "none", _ranges(paper)
        )
    nearest = greatest(rules.with_columns(near=-pl.col("excess")), "near").drop("near")
    both = nearest.join(top, on="model")
    beyond = (both["excess"] > both["low"] * (1 + TIE)).to_list()
    who = [f"{number(row['excess'])} ({row['selector']}, {row['reading']})" for row in nearest.to_dicts()]
    who = who if len(who) <= MOST else [span(nearest["excess"])]
    return Finding(
        f"At s = {nearest['s'][0]}, in the median row, the error of deployed rules is "
        f"{by_family(rules, 'excess')} times the pool's best, that of top-mass {by_family(top, 'low')}: "
        f"the nearest, {listed(who)}, stays behind top-mass {cases(beyond)} families.",
        rests(nearest, "n_pool"),
        estimates(nearest, "excess", ["selector", "reading"]),
        _ranges(paper),
    )


def group_vote(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """What a query head pays for sharing its kept set, and whether larger groups pay more.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.group_vote.group_vote_table`.
    paper : polars.DataFrame
        The reference of the paper's selectors.
    """
    here = at_map(ours)
    pairs = [
        (a["cost"], b["cost"])
        for a in here.drop_nulls("cost").to_dicts()
        for b in here.drop_nulls("cost").to_dicts()
        if a["group"] < b["group"] and a["s"] == b["s"]
    ]
    more = f", and the larger group pays more {cases([a < b for a, b in pairs])} pairs of families"
    groups = [f"{row['group']} heads in {row['model']}" for row in here.to_dicts()]
    groups = groups if len(groups) <= MOST else [f"{span(here['group'], '{:g}'.format)} heads"]
    return Finding(
        f"Under one kept set for {listed(groups)} the median row's error is {by_family(ours, 'cost')} times "
        f"its own top-mass error, above it {sided(away(ours, 'cost', 1), 1)} cases of family and budget "
        f"({grounds(ours, 'cost')})"
        f"{more if pairs else ''}.",
        rests(ours),
        estimates(here, "cost"),
        stated(paper, "cost"),
    )


def selection(ours: pl.DataFrame) -> Finding:
    """Whether any rule but balancing beats top-mass on its own rows.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.selection.selector_table`.
    """
    known = ours.drop_nulls("over_top")
    same = pl.col("selector").is_in(["top-mass", "tova"]) & (pl.col("reading") == "per-query")
    rules = known.filter(~same, pl.col("selector") != "balancing").sort("over_top", maintain_order=True)
    balancing = known.filter(selector="balancing")
    swaps = f"; balancing, which reads the values, comes to {span(balancing['over_top'])} times"
    if rules.is_empty():
        return Finding("No rule but top-mass's own was scored.", "none", "none", NO_NUMBER)
    ends = [
        f"{number(row['over_top'])} times ({named(row, ['selector', 'reading'])})"
        for row in rules.gather([0, -1]).to_dicts()
    ]
    which = ["model", "selector", "reading"]
    below = rules.group_by(which).agg((pl.col("over_top") < 1 - TIE).any())["over_top"].to_list()
    return Finding(
        f"In the median row a rule's error is below top-mass's at some budget {cases(below)} cases of "
        f"family, rule and reading, and goes from {ends[0]} to {ends[1]}{swaps if balancing.height else ''}.",
        rests(ours.filter(selector=ours["selector"][0], reading=ours["reading"][0])),
        estimates(rules.head(1), "over_top", ["selector", "reading"]),
        NO_NUMBER,
    )


def intervals(ours: pl.DataFrame, whole: pl.DataFrame) -> Finding:
    """Whether more is proved to be closable where attention is diffuse.

    Parameters
    ----------
    ours, whole : polars.DataFrame
        From `ceiling.analysis.interval_table` and `certification_table` of the same certificates.
    """
    low, high = "closable_lower", "closable_upper"
    case = ["mass_floor", "model", "s"]
    ordered = ours.drop_nulls([low, high]).sort(*case, "decile")
    first, last = (ordered.unique(case, keep=end, maintain_order=True) for end in ("first", "last"))
    both = first.join(last, on=case, suffix="_last").filter(pl.col("decile") < pl.col("decile_last"))
    parts = []
    for (floor,), rows in both.group_by("mass_floor", maintain_order=True):
        more, less = rows[f"{low}_last"] > rows[high], rows[f"{high}_last"] < rows[low]
        under = f"under mass floor {floor_name(floor)}"
        parts.append(f"larger {cases(more)} and smaller {cases(less)} cases of family and budget {under}")
    light = last.filter(mass_floor=last["mass_floor"].min())
    ends = [
        f"[{row[low]:.4g}, {row[high]:.4g}] ({named(row)}, decile {row['decile']}, floor "
        f"{floor_name(row['mass_floor'])})"
        for row in at_map(light).head(MOST).to_dicts()
    ]
    sizes = span([*both["n"], *both["n_last"]], "{:g}".format)
    return Finding(
        f"In the decile of most dropped mass the median closable share is proved {', '.join(parts)}, against "
        f"the decile of least (medians over n = {sizes})."
        if parts
        else "No case of family and budget has two deciles of dropped mass to compare.",
        rests(whole.filter(mass_floor=whole["mass_floor"].min())),
        f"proved: {'; '.join(ends)}" if ends else "none: undefined",
        "none: the paper has no such figure",
    )


def looseness(rows: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """How often the pool misses a set that is better by more than a hundredth.

    Parameters
    ----------
    rows : polars.DataFrame
        From `ceiling.analysis.looseness`.
    paper : polars.DataFrame
        The paper's table 7, in numbers.
    """
    rate = pl.col("improved") / pl.col("solved")
    counted = {
        "n": pl.len().cast(pl.Int64),
        "documents": pl.struct("dump", "document").n_unique(),
    } | _solved()
    families, budgets = (
        rows.group_by(by, maintain_order=True).agg(**counted).with_columns(rate=rate.fill_nan(None))
        for by in (["model"], ["model", "s"])
    )
    bounds = [
        f"{row['improved']} of {row['solved']}, at most {percent(bound)} ({named(row)})"
        for row in families.head(MOST).to_dicts()
        if (bound := wilson_high(row["improved"], row["solved"])) is not None
    ]
    most = budgets.drop_nulls("rate").sort("rate", descending=True, maintain_order=True).head(1).to_dicts()
    medians = rows.group_by("model", maintain_order=True).agg(pl.col("looseness").median())
    where = f" (most: {percent(most[0]['rate'])}, {named(most[0])})" if most else ""
    theirs = int(paper["improved"].sum()), int(paper["solved"].sum())
    return Finding(
        f"A set more than {IMPROVED:.0%} better than the pool's best exists on "
        f"{by_family(families, 'rate', percent)} of the instances that were solved{where}, and the median "
        f"instance's best known set is {by_family(medians, 'looseness', percent)} better.",
        rests(families),
        f"95% Wilson bound, instances as if independent: {'; '.join(bounds)}"
        if bounds
        else "none: none is solved",
        f"{percent(theirs[0] / theirs[1])} ({theirs[0]} of {theirs[1]} solved)",
    )


def table7(ours: pl.DataFrame, paper: pl.DataFrame) -> Finding:
    """Between which ends the ceiling is proved to lie, and whether the pool understates it.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.certification_table`.
    paper : polars.DataFrame
        Its reference, in numbers.
    """
    parts = []
    for (floor,), rows in ours.group_by("mass_floor", maintain_order=True):
        above = (rows["closable_lower"] > rows["median_closable"] + TIE).to_list()
        low = rows.unpivot(["closable_lower", "closable_upper"], index="model", variable_name="end")
        parts.append(
            f"under mass floor {floor_name(floor)} {by_family(low, 'value', percent)}, above the pool's "
            f"{cases(above)} cases of family and budget ({rows['solved'].sum()} of {rows['n'].sum()} solved)"
        )
    lightest = at_map(ours.filter(mass_floor=ours["mass_floor"].min()))
    ends = [
        f"[{row['closable_lower']:.4g}, {row['closable_upper']:.4g}] ({named(row)})"
        for row in lightest.drop_nulls(["closable_lower", "closable_upper"]).head(MOST).to_dicts()
    ]
    return Finding(
        f"The median closable share of all kept sets is proved to lie, over the budgets, {'; '.join(parts)}.",
        rests(ours.filter(mass_floor=ours["mass_floor"].min())),
        f"proved: {'; '.join(ends)}" if ends else "none: undefined",
        f"{column(paper, 'median_closable')} of its pools, {paper['solved'].sum()} instances solved",
    )


def zero_error(answers: pl.DataFrame, times: pl.DataFrame) -> Finding:
    """How often a kept set leaves no error at all, and whether the question can be answered.

    Parameters
    ----------
    answers, times : polars.DataFrame
        From `ceiling.analysis.answer_table` and `solving_times`.
    """
    yes, no, unknown, n = (int(answers[name].sum()) for name in (*map(str, ANSWERS), "n"))
    parts = [
        f"{yes} of {asked} at {bits} bits"
        for bits, yes, asked in answers.group_by("bits", maintain_order=True)
        .agg(pl.col("yes", "n").sum())
        .iter_rows()
    ]
    slowest = times.sort("seconds_max", descending=True, maintain_order=True).to_dicts()[0]
    return Finding(
        f"A kept set of error exactly zero exists in {yes} of {n} questions about rounded rows "
        f"({listed(parts)}), is proved not to in {no}, and {unknown} stay unknown; the longest "
        f"took {slowest['seconds_max']:.3g} s ({slowest['engine']}, {slowest['m_from']} to {slowest['m_to']} "
        f"keys).",
        rests(answers, of="questions"),
        "none: answers are proved and counted",
        "none: the paper proves that the question is NP-complete, and times no answer",
    )


def _ranges(paper: pl.DataFrame) -> str:
    deployed, top = (stated(paper, f"excess_{kind}") for kind in ("deployed", "top-mass"))
    return f"deployed rules {deployed}, top-mass {top}"


def _solved() -> dict[str, pl.Expr]:
    """Instances proved optimal, and those of them with a better set than the pool's."""
    solved = pl.col("status") == Status.OPTIMAL
    improved = pl.col("improved_known") & solved
    return {name: flag.sum().cast(pl.Int64) for name, flag in (("solved", solved), ("improved", improved))}
