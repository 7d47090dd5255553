"""Audit, figure 4 and table 5: every press against the best trivial one on natural text."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_cells import boards, natural_table, paired_note
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_gaps import gap_panels
from ceiling.problem import InputError

REFERENCE = Path(__file__).parent / "reference" / "audit_table5_longbench.csv"
CAPTION = """**Audit, figure 4 and table 5.** Mean paired gap to the best trivial press on natural text
(LongBench), a panel a model and budget; no verdict on generated tasks includes it. White marks: a form of a
press that is not the default. The paper's table 5 is set below as it is in the reference data, which say of
which models and ratios its numbers are but not of which press: they are not drawn."""
KEYS = ("model", "budget", "arm", "label", "target", "instances", "anchor", "floor")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_figure4.{png,pdf,csv,md,json} from a store's audit of natural text."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours = natural_table(audit)
    if ours.is_empty():
        raise InputError(
            "audit: no records of natural text; `ceiling audit` has no tasks of LongBench yet, and the other "
            "figures show generated ones"
        )
    parts = ours.partition_by("model", "budget", as_dict=True, maintain_order=True)
    panels = {f"{model}, {budget}": part for (model, budget), part in parts.items()}
    paper = pl.read_csv(REFERENCE, infer_schema=False)
    tables = {
        "Figure 4": as_text(ours, KEYS, ["score", "gap"]),
        "Table 5, the paper's": paper,
    }
    caption = f"{CAPTION}\n\n{rests_on(audit, paired_note(boards(audit)))}"
    found = audit_findings.audit_figure4(ours, paper, audit)
    for path in write(
        args.out, "audit_figure4", gap_panels(panels, {}), ours, caption, tables, found, args.command
    ):
        print(path)


if __name__ == "__main__":
    main()
