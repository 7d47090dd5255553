"""Audit, figure 3 and table 4: the effect of sight on every press, beside how visible the question is."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_cells import boards, paired_note
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.analysis.audit_reference import NOT_AUDITED, beside_paper, numeric, paper_deltas, paper_differs
from ceiling.analysis.audit_sight import sight_table, visibility_table
from ceiling.analysis.audit_verdicts import verdict_table
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_sight import sight_dots

REFERENCE = Path(__file__).parent / "reference" / "audit_table2_verdict.csv"
BY = ("reading", "label")
CAPTION = """**Audit, figure 3 and table 4.** Δ: what sight of the question adds to a press's mean gap to
the best trivial press, the largest first (all models together), in both readings of aware; crosses: the
paper's. Beside it what the score reads of the question, from kvpress's source, and the share of records in
which the question changed the kept set at equal budget (one position of one head is enough). The order is
of a few presses: evidence for the reading that aware scores measure sight, no fitted law. White marks: a
form that is not the default. A window longer than the question also sees what precedes it: table 4 has the
question's mean length."""
SIGHT = ("model", "label", "sight", "sees", "question_tokens", "pairs")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_figure3.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours = sight_table(audit)
    paper = paper_deltas(pl.read_csv(REFERENCE, infer_schema=False))
    drawn = ours.filter(model=verdict_table(audit, draws=0)["model"][-1])
    tables = {"Figure 3: ours, then the paper's": beside_paper(ours, paper, ["delta"], BY)}
    if ours["seen"].count():
        tables["Table 4"] = as_text(visibility_table(audit), SIGHT, ["seen"])
    differ = paper_differs(drawn, paper, ["delta"], BY)
    caption = f"{CAPTION}\n\n{differ} {NOT_AUDITED}\n\n{rests_on(audit, paired_note(boards(audit)))}"
    figure = sight_dots(drawn, numeric(paper, ["delta"]))
    found = audit_findings.audit_figure3(drawn, paper, audit)
    for path in write(args.out, "audit_figure3", figure, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
