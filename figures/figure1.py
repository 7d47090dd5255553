"""Figure 1: the selection ceiling per model and budget."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import beside, ceiling_table, counts, differences, findings, of_text, texts_note
from ceiling.analysis.summary import LOWER_BOUND
from ceiling.cli.figures import arguments
from ceiling.plots import ceiling_bars, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_text.csv"
QUANTITIES = ("closable", "closable_labelled", "recovered", "attained", "kappa_le_1_5", "kappa_le_2")
CAPTION = """**Figure 1.** Above: median of the pool optimum's error over top-mass's error (block), and the
share of it that a better kept set of the pool closes (hatched). Below: that closable share enlarged, with a
95% cluster-bootstrap interval over documents where there are at least five. The diamond is what balancing by
single swaps closes, the band the range of the paper's family medians. In the table, `closable_labelled` is
the closable share where κ̂ > 1.11, `recovered` the median part of the closable gap that balancing closes,
`attained` the share of instances on which top-mass is the pool optimum, and `kappa_le_1_5`, `kappa_le_2` the
shares on which top-mass's error is within 1.5 and 2 times the pool optimum."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write figure1.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    ours = ceiling_table(of_text(store.instances, store.documents, args.text))
    paper = pl.read_csv(REFERENCE, schema_overrides={"paper": pl.String})
    stated = pl.read_csv(REFERENCE, infer_schema=False).filter(pl.col("quantity").is_in(QUANTITIES))
    differ = differences(ours, stated.with_columns(pl.col("s").cast(pl.Int64)))
    tables = {
        "Ours beside the paper's": beside(ours, paper, QUANTITIES),
        "Where the paper says so": paper.filter(pl.col("quantity").is_in(QUANTITIES)),
    }
    note = f"{counts(ours)} {texts_note(store.instances, store.documents, args.text)}"
    caption = f"{CAPTION} {LOWER_BOUND}\n\n{differ}\n\n{note}"
    drawn, found = ceiling_bars(ours, paper), findings.figure1(ours, paper)
    for path in write(args.out, "figure1", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
