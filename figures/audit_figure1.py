"""Audit, figure 1 and table 2: does sight of the question decide who beats the best trivial press?"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_cells import NATURAL, cell_table
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.analysis.audit_reference import (
    NOT_AUDITED,
    VERDICTS,
    beside_paper,
    numeric,
    paper_differs,
    paper_verdicts,
)
from ceiling.analysis.audit_verdicts import group_table, verdict_table
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_gaps import flip_plot

REFERENCE = Path(__file__).parent / "reference" / "audit_table2_verdict.csv"
CAPTION = """**Audit, figure 1 and table 2.** Each press's mean paired gap to the best of the trivial
presses, cell by cell (points, of all models; hollow: at the floor, in no mean), without sight of the
question (agnostic) and with it: aware-scores evicts as much of the same context, aware-kvpress compresses
the question too. Boxes: quartiles and median over cells; marks: means with intervals; beside them Δ, aware
minus agnostic; white: a form that is not the default. Crosses: the paper's means (36 cells, H2O on another
backend), its aware arm beside aware-kvpress. The last table holds the best real press against the best
trivial one, each press left out in turn; `fair`: mean over subsets of as many real presses as trivial
ones."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_figure1.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours = verdict_table(audit)
    cells = cell_table(audit).filter(pl.col("axis") != NATURAL)
    drawn = ours.filter(model=ours["model"][-1])
    paper = paper_verdicts(pl.read_csv(REFERENCE, infer_schema=False))
    group = ["model", "arm", "without", "real", "trivial", "cells", "wins", "fair_wins"]
    tables = {
        "Table 2: ours, then the paper's": beside_paper(ours, paper, VERDICTS),
        "Best real against best trivial press": as_text(group_table(audit), group, ["gap", "fair_gap"]),
    }
    differ = paper_differs(drawn, paper, VERDICTS)
    caption = f"{CAPTION}\n\n{differ} {NOT_AUDITED}\n\n{rests_on(audit, ours['interval'][0])}"
    figure = flip_plot(drawn, cells, numeric(paper, VERDICTS))
    found = audit_findings.audit_figure1(drawn, paper, audit)
    for path in write(args.out, "audit_figure1", figure, cells, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
