"""Audit, table 1: scores of the full cache by axis, which bound what any press can reach."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_cells import FLOOR, anchor_table
from ceiling.analysis.audit_gate import length_table
from ceiling.analysis.audit_notes import rests_on
from ceiling.analysis.audit_reference import (
    NOT_AUDITED,
    beside_paper,
    numeric,
    paper_anchors,
    paper_differs,
)
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_anchors import anchor_dots

REFERENCE = Path(__file__).parent / "reference" / "audit_table1_anchors.csv"
CAPTION = f"""**Audit, table 1.** Mean score of the full cache on each axis of tasks, without eviction; in
grey the paper's (arXiv 2607.11942), from left to right Llama-3.1-8B, Qwen2.5-7B, R1-Distill-Qwen-7B. Below
{FLOOR} (hatched) an axis is at the floor: its cells enter no mean and no verdict. The second table has
lengths in the model's own tokens and the share of answers that their room cut short."""
KEYS = ("axis", "tasks", "instances", "floor")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_table1.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours = anchor_table(audit)
    paper = paper_anchors(pl.read_csv(REFERENCE, infer_schema=False))
    tables = {
        "Table 1: ours, then the paper's": beside_paper(ours, paper, ["anchor"], ["axis"]),
        "Ours": ours.select("model", *KEYS),
        "Lengths and cut answers": length_table(audit),
    }
    differ = paper_differs(ours, paper, ["anchor"], ["axis"])
    caption = f"{CAPTION}\n\n{differ} {NOT_AUDITED}\n\n{rests_on(audit, ours['interval'][0])}"
    figure = anchor_dots(ours, numeric(paper, ["anchor"]), FLOOR)
    found = audit_findings.audit_table1(ours, paper, audit)
    for path in write(args.out, "audit_table1", figure, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
