"""What each figure of the audit found, in one sentence that other records would turn round."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from ceiling.analysis.audit_bytes import SLACK
from ceiling.analysis.audit_cells import EQUAL, FLOOR, NATURAL, REAL
from ceiling.analysis.audit_contrasts import CONTROLS, POOLED
from ceiling.analysis.audit_gate import ANCHOR
from ceiling.analysis.audit_notes import without_noise
from ceiling.analysis.audit_reference import VERDICTS, numeric
from ceiling.analysis.audit_sight import SEES
from ceiling.analysis.audit_verdicts import AGNOSTIC, AWARE, column
from ceiling.analysis.bootstrap import FEWEST_DOCUMENTS, LEVEL
from ceiling.analysis.finding import Finding

LAST_QUERIES = 3
"""The sight (see `SEES`) of scores that read the last queries, which are the question's."""

Row = dict[str, Any]


def audit_figure1(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """Which real presses beat the best trivial one, and whose verdict sight of the question turns.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_verdicts.verdict_table`, of one model or all.
    paper : polars.DataFrame
        From `ceiling.analysis.audit_reference.paper_verdicts`.
    audit : polars.DataFrame
        The records.
    """
    real = ours.filter(role=REAL)
    arms = _arms(real)
    sentence = f"In the mean over cells the best trivial press loses to {_losses(real)}"
    if AGNOSTIC in arms and len(arms) > 1:
        blind, seeing = (set(_beating(real, arm)) for arm in arms[:2])
        turned = f"that on {_listed(sorted(blind ^ seeing))}" if blind ^ seeing else "none"
        sentence += f"; of these verdicts sight of the question ({arms[1]}) turns {turned}"
    best = [(arm, _top(real, f"{column(arm)}_gap")) for arm in arms]
    ends = "; ".join(_headline(f"{row['label']}, {arm}", row, f"{column(arm)}_gap") for arm, row in best)
    n = f"{_n(audit)}; {real.height} forms of {real['press'].n_unique()} real presses"
    return Finding(f"{sentence}.", n, ends, f"it loses to {_losses(numeric(paper, VERDICTS))}")


def audit_figure2(ours: pl.DataFrame, flips: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """What sight of the question does to one press in the cell that the rule chose.

    Parameters
    ----------
    ours, flips : polars.DataFrame
        From `ceiling.analysis.audit_flips`: `sharp_cell` and `arm_flips`.
    audit : polars.DataFrame
    """
    rows = without_noise(ours.filter(pl.col("label") == pl.col("flipped"))).to_dicts()
    blind, seeing = sorted(rows, key=lambda row: row["arm"] != AGNOSTIC)
    turns = blind["wins"] != seeing["wins"]
    across = (
        "across zero" if turns else "not across zero, nor that of any real press in any cell above the floor"
    )
    sentence = (
        f"In the cell {blind['model']}, {blind['axis']}, {blind['budget']}, sight of the question moves the "
        f"gap of {blind['label']} to the best trivial press from {blind['gap']:.3f} to {seeing['gap']:.3f}, "
        f"{across} (the largest such change of all cells above the floor); two arms disagree about the best "
        f"press in {flips['disagree'].sum()} of {flips.height} comparisons."
    )
    ends = "; ".join(_headline(row["arm"], row, "gap") for row in (blind, seeing))
    paper = "none: its sharp cell is of its own models, and no table of the reference data holds it"
    return Finding(sentence, f"{blind['instances']} instances of the cell; {_n(audit)}", ends, paper)


def audit_figure3(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """Whether presses whose score reads the question's own queries gain more from sight than others.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_sight.sight_table`, of one model or all.
    paper : polars.DataFrame
        From `ceiling.analysis.audit_reference.paper_deltas`.
    audit : polars.DataFrame
    """
    reading = next(arm for arm in AWARE if arm in ours["reading"])
    real = ours.filter(reading=reading, role=REAL)
    levels = {press: level for press, (level, _) in SEES.items()}
    theirs = numeric(paper, ["delta"]).with_columns(
        sight=pl.col("label").replace_strict(levels, default=None)
    )
    if real.is_empty():
        return _unanswered(audit)
    most = _top(real, "delta")
    return Finding(
        f"{_gains(real)} ({reading}).",
        _n(audit),
        _headline(f"the largest gain, {most['label']}", most, "delta"),
        f"{_gains(theirs)} ({theirs['reading'][0]})",
    )


def audit_figure4(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """In how many comparisons on natural text a real press beats the best trivial one.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_cells.natural_table`.
    paper : polars.DataFrame
        The paper's table 5 as text.
    audit : polars.DataFrame
    """
    natural = audit.filter(axis=NATURAL)
    real = ours.filter(role=REAL)
    stated = [float(value) for row in paper.select(pl.col("^ratio_.*$")).rows() for value in row]
    theirs = f"gaps from {min(stated):.3f} to {max(stated):.3f}, of which press the reference data do not say"
    if real.is_empty():
        return _unanswered(natural)._replace(paper=theirs)
    best = _top(real, "gap")
    where = f"{best['label']} at {best['budget']}, {best['arm']}, {best['model']}"
    wins = (real["gap"] > EQUAL).sum()
    sentence = (
        f"On natural text a real press beats the best trivial one in the mean in {wins} of {real.height} "
        f"comparisons; the largest gap is {best['gap']:.3f}, {where}."
    )
    return Finding(sentence, _n(natural), _headline(where, best, "gap"), theirs)


def audit_figure5(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """By how much the attention backend alone moves scores, and whether the interval leaves out zero.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_contrasts.backend_table`.
    paper : polars.DataFrame
        From `ceiling.analysis.audit_reference.paper_backends`.
    audit : polars.DataFrame
        Records of both backends.
    """
    pooled = without_noise(ours.filter(label=POOLED))
    row = pooled.sort(pl.col("difference").abs()).row(-1, named=True)
    value, low, high = (row[f"difference{end}"] for end in ("", "_low", "_high"))
    moved = (
        f"{abs(value):.3f} {'lower' if value < 0 else 'higher'} than" if abs(value) > EQUAL else "the same as"
    )
    zero = "" if low is None else f"; the interval {'holds' if low <= 0 <= high else 'leaves out'} zero"
    most = f", of {pooled.height} the largest difference" if pooled.height > 1 else ""
    sentence = (
        f"Over {row['pairs']:,} pairs of records of presses that read no attention, {row['model']} in "
        f"{row['dtype']} scores {moved} sdpa on backend eager{most}{zero}."
    )
    stated = paper.filter(label=POOLED).row(0, named=True)
    theirs = (
        f"{stated['difference']} [{stated['difference_low']}, {stated['difference_high']}], eager minus sdpa"
    )
    asked = audit.filter(pl.col("press").is_in(CONTROLS))
    return Finding(sentence, _n(asked), _headline("eager minus sdpa", row, "difference"), theirs)


def audit_table1(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """Between which scores of the full cache the audit has room, and which axes have none.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_cells.anchor_table`.
    paper : polars.DataFrame
        From `ceiling.analysis.audit_reference.paper_anchors`.
    audit : polars.DataFrame
    """
    least = ours.sort("anchor", maintain_order=True).row(0, named=True)
    where = f"the lowest, {least['model']} {least['axis']}"
    theirs = numeric(paper, ["anchor"])
    return Finding(
        f"The full cache scores {_anchors(ours)}.",
        _n(audit, ""),
        _headline(where, least, "anchor"),
        _anchors(theirs),
    )


def audit_table3(ours: pl.DataFrame, paper: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """On which axes some real press beats the best trivial one.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_verdicts.verdict_table` by axis, of one model or all.
    paper : polars.DataFrame
        From `ceiling.analysis.audit_reference.paper_axes`.
    audit : polars.DataFrame
    """
    real = ours.filter(role=REAL)
    if real.is_empty():
        return _unanswered(audit)
    arm = _arms(real)[0]
    gap = f"{column(arm)}_gap"
    best = [_top(real.filter(axis=axis), gap) for axis in real["axis"].unique().sort()]
    ends = "; ".join(_headline(f"{row['label']} on {row['axis']}", row, gap) for row in best)
    theirs = numeric(paper, VERDICTS)
    stated = _axes(theirs, gap) if gap in theirs.columns else f"none of the arm {arm}"
    sentence = f"In {_arm(arm)} a real press beats the best trivial one in the mean {_axes(real, gap)}."
    return Finding(sentence, _n(audit), ends, stated)


def audit_bytes(ours: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """Which presses hold more than their budgets promise, and whose points nothing beats in bytes and score.

    Parameters
    ----------
    ours : polars.DataFrame
        From `ceiling.analysis.audit_bytes.bytes_table`.
    audit : polars.DataFrame
    """
    presses = ours.filter(pl.col("label") != ANCHOR)
    if presses.is_empty():
        return _unanswered(audit)
    over = presses.filter(pl.col("held_share") > pl.col("nominal_share") * (1 + SLACK))
    held = "No press holds more bytes than its budget promises"
    if over.height:
        most = over.sort(pl.col("held_share") / pl.col("nominal_share"), maintain_order=True).row(
            -1, named=True
        )
        names = _listed(over["label"].unique().sort())
        held = (
            f"More bytes than promised are held by {names} (up to {most['held_share']:.0%} of the full "
            f"cache's where {most['nominal_share']:.0%} is promised)"
        )
    arm = AGNOSTIC if AGNOSTIC in presses["arm"] else presses["arm"][0]
    front = presses.filter("pareto", arm=arm).sort("held_share", "label")
    owners = front.group_by("label").len().sort("len", "label", descending=[True, False])
    points = _listed(f"{label} ({count})" for label, count in owners.iter_rows())
    sentence = (
        f"{held}; of {presses.filter(arm=arm).height} points in {_arm(arm)}, those unbeaten in bytes and "
        f"score are {points or 'none'}."
    )
    interval = "none: the full cache alone is unbeaten"
    if front.height:
        first = front.row(0, named=True)
        interval = _headline(
            f"score of {first['label']} on {first['held_share']:.0%} of the bytes", first, "score"
        )
    return Finding(sentence, _n(audit), interval, "none: the paper states no bytes")


def audit_ceilings(agreed: pl.DataFrame, audit: pl.DataFrame) -> Finding:
    """Whether presses that keep sets closer to their ceiling also score better.

    Parameters
    ----------
    agreed : polars.DataFrame
        From `ceiling.analysis.audit_join.agreement`.
    audit : polars.DataFrame
    """
    known = agreed.drop_nulls("rho")
    paper = "none: the paper has no such figure"
    if known.is_empty():
        sentence = "No comparison has the presses and the unequal scores that a rank correlation takes."
        return Finding(sentence, _n(audit), "none: no correlation", paper)
    medians = dict(known.group_by("arm").agg(pl.col("rho").median()).sort("arm").iter_rows())
    signs = {(rho > EQUAL) - (rho < -EQUAL) for rho in medians.values()}
    word = {-1: "better", 1: "worse", 0: "neither better nor worse"}[signs.pop()] if len(signs) == 1 else None
    closer = (known["rho"] < -EQUAL).sum()
    sentence = (
        f"Presses that stay closer to their ceiling score {word or 'better or worse, as the arm is'}: "
        f"the rank correlation of score and error (-1: the closer, the better) has the median "
        f"{_listed(f'{rho:.2f} in {_arm(arm)}' for arm, rho in medians.items())}, and is negative in "
        f"{closer} of {known.height} comparisons."
    )
    presses, rho = sorted(known["presses"]), sorted(known["rho"])
    few = " to ".join(str(count) for count in dict.fromkeys((presses[0], presses[-1])))
    ends = f"{rho[0]:.2f} to {rho[-1]:.2f}"
    interval = f"none: each correlation is over {few} presses; over the comparisons, {ends}"
    return Finding(sentence, _n(audit), interval, paper)


def _arms(frame: pl.DataFrame) -> list[str]:
    """The arms that `frame` has gaps of; agnostic first."""
    gaps = [(arm, f"{column(arm)}_gap") for arm in (AGNOSTIC, *AWARE)]
    return [arm for arm, gap in gaps if gap in frame.columns and frame[gap].count()]


def _arm(arm: str) -> str:
    return f"the {arm} arm" if arm == AGNOSTIC else arm


def _beating(frame: pl.DataFrame, arm: str) -> dict[str, float]:
    """Presses with a mean gap above zero, and their gaps."""
    gap = f"{column(arm)}_gap"
    return dict(frame.filter(pl.col(gap) > EQUAL).sort("label").select("label", gap).iter_rows())


def _losses(frame: pl.DataFrame) -> str:
    """To how many presses, and which, the best trivial one loses in every arm."""
    parts: list[str] = []
    for arm in _arms(frame):
        gaps = _beating(frame, arm)
        who = f" ({_listed(f'{label} by {gap:.3f}' for label, gap in gaps.items())})" if gaps else ""
        forms = "forms of " if frame["label"].str.split(":").list.first().is_duplicated().any() else ""
        real = "" if parts else f" {forms}real presses"
        parts.append(f"{len(gaps)} of {frame.height}{real} in {_arm(arm)}{who}")
    return _listed(parts)


def _gains(frame: pl.DataFrame) -> str:
    """Mean gains from sight, of scores that read the last queries against the others, one form a press."""
    reads = pl.col("sight").fill_null(0) == LAST_QUERIES
    name = pl.col("label").str.split(":").list.first()
    each = frame.sort("label").filter(name.is_first_distinct())  # the default sorts before its other forms
    near, far = (each.filter(which).select(pl.col("delta").mean()).item() for which in (reads, ~reads))
    most = without_noise(frame).sort("delta", maintain_order=True).row(-1, named=True)
    top = f"{most['label']} gains most, {most['delta']:.3f}"
    if near is None or far is None:
        return f"Of real presses {top}"
    more = "more" if near > far + EQUAL else "no more"
    return (
        f"Real presses whose score reads the last queries gain {more} from sight of the question than the "
        f"others, {near:.3f} against {far:.3f} on average; {top}"
    )


def _anchors(frame: pl.DataFrame) -> str:
    ordered = frame.sort("anchor", maintain_order=True)
    least, most = (ordered.row(i, named=True) for i in (0, -1))
    low = ordered.filter(pl.col("anchor") < FLOOR)
    names = ", ".join(f"{row['model']} {row['axis']}" for row in low.iter_rows(named=True))
    return (
        f"{least['anchor']:.3f} ({least['model']} {least['axis']}) to {most['anchor']:.3f} ({most['model']} "
        f"{most['axis']}); below the floor of {FLOOR} lie {low.height} of {frame.height} axes"
        f"{f' ({names})' if names else ''}"
    )


def _axes(frame: pl.DataFrame, gap: str) -> str:
    """On how many axes the best press of each has a gap above zero, and these presses."""
    known = frame.drop_nulls(gap)
    best = [_top(known.filter(axis=axis), gap) for axis in known["axis"].unique().sort()]
    wins = sum(row[gap] > EQUAL for row in best)
    names = _listed(f"{row['label']} on {row['axis']} ({row[gap]:.3f})" for row in best)
    return f"on {wins} of {len(best)} axes, the best being {names}"


def _top(frame: pl.DataFrame, quantity: str) -> Row:
    """The row of the largest value; of equal ones the first."""
    ordered = without_noise(frame).sort(quantity, descending=True, nulls_last=True, maintain_order=True)
    return ordered.row(0, named=True)


def _headline(what: str, row: Row, quantity: str) -> str:
    value, low, high = (row[f"{quantity}{end}"] for end in ("", "_low", "_high"))
    if low is None or high is None:
        return f"{what}: {value:.3f}, without one: a task has fewer than {FEWEST_DOCUMENTS} instances"
    return f"{what}: {value:.3f} [{low:.3f}, {high:.3f}], {LEVEL:.0%}"


def _n(audit: pl.DataFrame, without: str = NATURAL) -> str:
    """Records, instances, tasks and models; natural text is no part of the verdicts."""
    ours = audit if audit["axis"].unique().to_list() == [NATURAL] else audit.filter(pl.col("axis") != without)
    instances = ours.select("model", "task", "instance").n_unique()
    models = ", ".join(ours["model"].unique().sort())
    tasks = ours["task"].n_unique()
    return f"{ours.height:,} answers to {instances} instances of {tasks} task{'s' * (tasks > 1)}, {models}"


def _unanswered(audit: pl.DataFrame) -> Finding:
    return Finding(
        "No real press was audited.", _n(audit), "none: no real press", "none beside no press of ours"
    )


def _listed(names: Iterable[str]) -> str:
    """Names as a sentence has them: "a, b and c"."""
    *most, last = list(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last
