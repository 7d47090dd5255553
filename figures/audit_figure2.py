"""Audit, figure 2: the one cell in which sight of the question changes a verdict most."""

from collections.abc import Sequence

from ceiling.analysis import audit_findings
from ceiling.analysis.audit_flips import arm_flips, model_flips, sharp_cell
from ceiling.analysis.audit_notes import as_text, rests_on
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.audit_sharp import sharp_dots

CAPTION = """**Audit, figure 2.** Every press's mean score in one cell (model, axis, budget), without sight of
the question and with it. The rule, not the eye, chose the cell: of real presses that beat the best trivial
one in one arm only, the one whose gap changes most (in bold); had none turned, of all. The largest of many is
partly luck; figure 1 has all cells. Vertical lines: the full cache, and the best trivial press of each arm.
White marks: a form of a press that is not the default. The second table: in which cells two arms disagree
about the best press, and in what share of the resamplings. The paper's own sharp cell is of its models; no
table of the reference data holds it."""
CELL = ("model", "axis", "budget", "arm", "label", "target", "wins")


def main(argv: Sequence[str] | None = None) -> None:
    """Write audit_figure2.{png,pdf,csv,md,json} from a store's audit."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    audit = open_store(args.store, args.config).audit.collect()
    ours, flips = sharp_cell(audit), arm_flips(audit)
    tables = {
        "The cell": as_text(ours, CELL, ["score", "gap"]),
        "Where arms disagree about the best press": flips.drop("interval"),
    }
    if audit["model"].n_unique() > 1:
        tables["Where models disagree about the best press"] = model_flips(audit).drop("interval")
    caption = f"{CAPTION}\n\n{rests_on(audit, flips['interval'][0])}"
    found = audit_findings.audit_figure2(ours, flips, audit)
    for path in write(
        args.out, "audit_figure2", sharp_dots(ours), ours, caption, tables, found, args.command
    ):
        print(path)


if __name__ == "__main__":
    main()
