"""Audit, tables 3 and 6: the verdicts of every press by axis of tasks."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_notes import rests_on
from ceiling.analysis.audit_reference import (
    NOT_AUDITED,
    VERDICTS,
    beside_paper,
    numeric,
    paper_axes,
    paper_differs,
)
from ceiling.analysis.audit_verdicts import verdict_table
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_gaps import by_arm, gap_panels

REFERENCE = Path(__file__).parent / "reference" / "audit_table3_6_axes.csv"
AXES = ("retrieval", "aggregation", "multihop")
BY = ("axis", "label")
CAPTION = """**Audit, tables 3 and 6.** Mean paired gap to the best trivial press on each axis of tasks, over
its budgets (and models, where there are several); crosses: the paper's, over 12 cells an axis, its aware arm
beside aware-kvpress. White marks: a form of a press that is not the default. An axis whose anchor is at the
floor is hatched and has no verdict."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_table3.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours = verdict_table(audit, by_axis=True)
    paper = paper_axes(pl.read_csv(REFERENCE, infer_schema=False))
    drawn = ours.filter(model=ours["model"][-1])
    mine, theirs = by_arm(drawn), by_arm(numeric(paper, VERDICTS))
    axes = [axis for axis in AXES if axis in audit["axis"]]
    panels, crosses = ({axis: frame.filter(axis=axis) for axis in axes} for frame in (mine, theirs))
    tables = {"Tables 3 and 6: ours, then the paper's": beside_paper(ours, paper, VERDICTS, BY)}
    differ = paper_differs(drawn, paper, VERDICTS, BY)
    caption = f"{CAPTION}\n\n{differ} {NOT_AUDITED}\n\n{rests_on(audit, ours['interval'][0])}"
    found = audit_findings.audit_table3(drawn, paper, audit)
    for path in write(
        args.out, "audit_table3", gap_panels(panels, crosses), ours, caption, tables, found, args.command
    ):
        print(path)


if __name__ == "__main__":
    main()
