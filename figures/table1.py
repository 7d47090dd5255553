"""Table 1: native budgets, where no pool is enumerated."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import counts, differences, findings, native_table, of_text, texts_note
from ceiling.analysis.instances import ALL_FAMILIES
from ceiling.analysis.native import (
    READING,
    native_beside,
    native_missing,
    native_paper,
    native_ranges,
    sources,
)
from ceiling.cli.figures import arguments
from ceiling.plots import native_lines, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table1_native_budgets.csv"
CAPTION = f"""**Table 1.** What balancing by single swaps closes of top-mass's error, up to the budgets that
caches are run at, where subsets are too many to enumerate; ours beside the paper's in grey. {READING}
Balancing swaps in the pool's candidates beside top-mass, 24/12/6/4 at s = 4/8/16/32 unless others were
asked for, and in 24 at the budgets above: the step between is not of the budget alone. `all families` pools
rows, so a family weighs by its heads."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table1.{png,pdf,csv,md,json} from a store's scores, or from its instances where it has none."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    texts = (store.documents, args.text)
    ours = native_table(of_text(store.instances, *texts), of_text(store.scores, *texts))
    paper = pl.read_csv(REFERENCE, infer_schema=False)
    long = native_paper(paper)
    families = ours.filter(pl.col("model") != ALL_FAMILIES)
    differ = differences(ours, native_ranges(long))
    missing = native_missing(ours, long["s"].unique().to_list())
    notes = (sources(ours), missing, counts(families), texts_note(store.instances, *texts))
    caption = f"{CAPTION}\n\n{differ}\n\n{' '.join(filter(None, notes))}"
    tables = {"Ours, then the paper's": native_beside(ours, paper)}
    drawn, found = native_lines(families, long), findings.table1(ours, long)
    for path in write(args.out, "table1", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
