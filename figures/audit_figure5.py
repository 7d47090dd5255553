"""Audit, figure 5: what the attention backend alone does to scores."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_contrasts import backend_table
from ceiling.analysis.audit_notes import lengths
from ceiling.analysis.audit_reference import NOT_AUDITED, beside_paper, numeric, paper_backends, paper_differs
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_backends import backend_dots

REFERENCE = Path(__file__).parent / "reference" / "audit_fig5_backend.csv"
BY, ENDS = ("label", "budget"), ("difference", "difference_low", "difference_high")
CAPTION = """**Audit, figure 5.** Score on backend eager minus score on sdpa, the same instances, for the full
cache and two presses that read no attention, over all arms and tasks; crosses: the paper's, of its own
models, n = 600. A difference of the backend is none of the press: no figure of the audit ranks presses across
backends. `pooled` weighs every pair alike, so the full cache less than the presses with their budgets.
Intervals: 95% percentile, instances resampled within tasks."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_figure5.{png,pdf,csv,md,json} from a store's audits of both backends, whatever --config."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    if args.config in store.configurations("audit"):
        store = open_store(args.store)
    audit = store.audit.collect()
    ours = backend_table(audit)
    paper = paper_backends(pl.read_csv(REFERENCE, infer_schema=False))
    tables = {"Figure 5: ours, then the paper's": beside_paper(ours, paper, ["difference"], BY)}
    differ = paper_differs(ours, paper, ["difference"], BY)
    caption = f"{CAPTION}\n\n{differ} {NOT_AUDITED}\n\n{lengths(audit)}"
    figure = backend_dots(ours, numeric(paper, ENDS))
    found = audit_findings.audit_figure5(ours, paper, audit)
    for path in write(args.out, "audit_figure5", figure, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
