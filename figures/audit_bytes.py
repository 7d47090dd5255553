"""Audit: score against the bytes held, measured, for every press: the figure the paper lacks."""

from collections.abc import Sequence

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_bytes import bytes_table, cost_table, matched_table
from ceiling.analysis.audit_gate import gate
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_shares import DODGE, share_lines

CAPTION = f"""**Audit, held bytes.** Mean score against the bytes of the cache's storage after eviction, as a
share of the full cache of the same tokens, at every budget. Presses of equal bytes stand {DODGE:g} points
apart so that their intervals do too. A press that only masks stands at 100% at every budget. Grey band: the
full cache's interval; dashes: a form of a press that is not the default. Tables: every point, with
`begin_share`, held when the answer begins, which compares arms (aware-kvpress holds no whole question), and
`pareto`, not beaten in both bytes and score; and all presses at matched held bytes, each at its own budget
that holds most within the level, against the best trivial press that fits. The paper states no bytes."""
POINTS = ("model", "arm", "label", "budget", "nominal_share", "held_share", "begin_share", "pareto")
LEVELS = ("model", "arm", "level", "label", "budget", "held_share", "cells", "wins")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_bytes.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = gate(open_store(args.store, args.config).audit)
    ours = bytes_table(audit)
    tables = {
        "Score and bytes": as_text(ours, POINTS, ["score"]),
        "At matched held bytes": as_text(matched_table(audit), LEVELS, ["score", "gap"]),
    }
    if audit["question"].max() != 0:
        tables["Cost of an answer"] = cost_table(audit)
    caption = f"{CAPTION}\n\n{rests_on(audit, ours['interval'][0])}"
    found = audit_findings.audit_bytes(ours, audit)
    for path in write(args.out, "audit_bytes", share_lines(ours), ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
