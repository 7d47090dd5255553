"""Audit: how far kept sets are from their ceiling on the rows that answer, beside the answers' score."""

from collections.abc import Sequence

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_join import agreement, ceiling_scores
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_ceilings import ceiling_dots

CAPTION = """**Audit, ceilings beside scores.** The forced error of what a press kept over that of the
top-mass set of as many keys, on attention rows of the question's end and of the answer, against the mean
score of the same records; a press's budgets are joined, larger marks keep more; dashes: a form that is not
the default. Medians over instances of each one's median over layers; the rows are those of a model that
evicted nothing. At large budgets top-mass drops next to nothing and ratios grow: compare presses, not
budgets. Under 1, a set is closer than top-mass's: top-mass is not optimal. Ticks at the bottom, where
`--ceilings balance` took them: the same ratio of the top-mass set after balancing swaps over all keys, at a
press's count, on the question's last row and the answer's first. The first table has what bounds these
errors, means over sigma: `e_top`, `bound` = 2Dm/sigma (above e_top, proved), and, of those two rows alone,
`e_balance` (after balancing swaps) and `e_lower` (no such set is under it, proved; up to 32 keys): compare
balancing by `balance_over_top`, which is taken row by row; an en dash where not taken. The second: the rank
correlation over presses of score and error over top-mass's, -1 where the smaller error scores better. The
paper has no such figure."""
KEYS = ("model", "arm", "rows_of", "label", "budget")
MEANS = ("count", "kept_mass", "top_mass", "error", "e_top", "e_balance", "bound", "e_lower")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_ceilings.{png,pdf,csv,md,json} from a store's audit and audit_ceilings."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    audit = store.audit.collect()
    ours = ceiling_scores(store.audit_ceilings, audit)
    quantities = ["error_over_top", "balance_over_top", *MEANS, "score"]
    agreed = agreement(ours)
    tables = {
        "Ceilings and scores": as_text(ours, KEYS, quantities),
        "Do presses closer to the ceiling score better?": agreed,
    }
    caption = f"{CAPTION}\n\n{rests_on(audit, ours['interval'][0])}"
    found = audit_findings.audit_ceilings(agreed, audit)
    figure = ceiling_dots(ours)
    for path in write(args.out, "audit_ceilings", figure, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
