"""Figure 2: the map of (layer, head) cells, how well dropped mass predicts, and whether texts agree."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling import analysis
from ceiling.analysis import beside, by_context, cell_map, counts, findings, map_table, of_text, readable
from ceiling.analysis.agreement import AGREEMENT
from ceiling.analysis.cells import FLAT_MASS, MAP_BUDGET
from ceiling.analysis.instances import COLUMNS
from ceiling.cli.figures import arguments
from ceiling.plots import cell_maps, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_text.csv"
CAPTION = f"""**Figure 2.** Median dropped mass and median κ̂ of every layer and head at s = {MAP_BUDGET};
dots mark flat cells, median dropped mass above {FLAT_MASS}; a cell without a measured row is grey.
`cell_auc`: whether a cell's median dropped mass tells a median κ̂ above 1.11. `edge_interior`: rate of
κ̂ > 1.11 in the first and last eighth of the layers (rounded up) over the rest. `rho_depth`: Spearman's
correlation, over layers, of median dropped mass and that rate. Each of these two needs every
layer: a dash where one below the highest captured is missing. The paper gives no formula for these three.
Within a cell, all budgets pooled, `auc` and the logistic fit are of the dropped mass for κ̂ > 1.11."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write figure2.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    instances = of_text(store.instances, store.documents, args.text).select(COLUMNS).collect()
    cells, ours = cell_map(instances), map_table(instances)
    within, prediction = analysis.cell_predictions(instances), analysis.prediction_table(instances)
    agreement = analysis.agreement_table(by_context(store.instances.select(COLUMNS), store.documents))
    paper = pl.read_csv(REFERENCE)
    stated = pl.read_csv(REFERENCE, infer_schema=False).filter(pl.col("quantity").str.ends_with("auc"))
    differ = analysis.differences(pl.concat([ours, prediction], how="diagonal"), stated.drop("s"))
    fits = readable(prediction, ["n_labelled", "auc", "intercept", "slope", "fit"])
    tables = {
        "The map": readable(ours, ["cells", "flat_cells", "cell_auc", "edge_interior", "rho_depth"]),
        "Beside the paper's": pl.concat(
            [beside(ours, paper, ["cell_auc"]), beside(prediction, paper, ["auc"])]
        ),
        "AUC of dropped mass for κ̂ > 1.11, and the label's logistic fit": fits,
        "Within cells": analysis.cell_summary(within),
        "Calibration of the pooled fit, by decile of dropped mass": analysis.calibration_table(instances),
        "Agreement of the map between texts": agreement,
    }
    note = f"{counts(ours)} {analysis.texts_note(store.instances, store.documents, args.text)}"
    data = cells.join(within, on=["model", "layer", "head"], how="left", maintain_order="left")
    caption = f"{CAPTION} Between texts, {AGREEMENT}\n\n{differ}\n\n{note}"
    drawn, found = cell_maps(cells, ours), findings.figure2(ours, prediction, agreement, paper)
    for path in write(args.out, "figure2", drawn, data, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
