"""Table 6: the panel of families."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import beside_rows, counts, differences, findings, of_text, ranges, texts_note
from ceiling.analysis.panel import PANEL, READING, panel_table
from ceiling.cli.figures import arguments
from ceiling.plots import panel_dots, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table6_panel.csv"
PANELS = {
    "auc_dropped_mass": "AUC of m",
    "edge_interior": "edge /\ninterior",
    "rho_depth": "ρ depth",
    "rho_phi_es_pool": "ρ(Φ, e)",
}
CAPTION = f"""**Table 6.** Per family: AUC of the dropped mass for κ̂ > 1.11; rate of that label in the first
and last eighth of the layers (rounded up) over the rest; Spearman's correlation over layers of median dropped
mass and that rate (each of these two needs every layer: a dash where one below the highest captured
is missing); Spearman's correlation of Φ and the pool optimum's error; and, in the table, median κ̂_bal
= e_balance/e_pool. {READING}"""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table6.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    ours = panel_table(of_text(store.instances, store.documents, args.text))
    paper = pl.read_csv(REFERENCE, infer_schema=False)
    differ = differences(ours, ranges(paper, PANEL))
    note = f"{counts(ours)} {texts_note(store.instances, store.documents, args.text)}"
    caption = f"{CAPTION}\n\n{differ}\n\n{note}"
    tables = {"Ours, then the paper's": beside_rows(ours, paper, PANEL)}
    numbers = paper.with_columns(pl.col("^(auc|edge|rho|median)_.*$").cast(pl.Float64))
    drawn, found = panel_dots(ours, numbers, PANELS), findings.table6(ours, numbers)
    for path in write(args.out, "table6", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
