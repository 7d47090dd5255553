"""Figure 2: the map of (layer, head) cells, and how well dropped mass predicts."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import (
    beside,
    calibration_table,
    cell_map,
    counts,
    map_table,
    prediction_table,
    readable,
)
from ceiling.analysis.cells import FLAT_MASS, MAP_BUDGET
from ceiling.cli.figures import arguments
from ceiling.plots import cell_maps, write

REFERENCE = Path(__file__).parent / "reference"
CAPTION = f"""**Figure 2.** Median dropped mass and median κ̂ of every layer and head at s = {MAP_BUDGET};
dots mark flat cells, median dropped mass above {FLAT_MASS}; a cell without a measured row is grey.
`cell_auc`: whether a cell's median dropped mass tells a median κ̂ above 1.11. `edge_interior`: rate of
κ̂ > 1.11 in the first and last eighth of the layers (rounded up) over the rest. `rho_depth`: Spearman's
correlation, over layers, of median dropped mass and that rate. The paper gives no formula for these three."""
PANEL = ("family", "auc_dropped_mass", "^edge_interior.*$", "rho_depth")


def main(argv: Sequence[str] | None = None) -> None:
    """Write figure2.{png,pdf,csv,md} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    instances = open_store(args.store, args.config).instances
    cells, ours, prediction = cell_map(instances), map_table(instances), prediction_table(instances)
    paper = pl.read_csv(REFERENCE / "forced_weights_text.csv")
    panel = pl.read_csv(REFERENCE / "forced_weights_table6_panel.csv").select(PANEL)
    fit = ["n_labelled", "auc", "intercept", "slope", "fit"]
    tables = {
        "The map": readable(ours, ["cells", "flat_cells", "cell_auc", "edge_interior", "rho_depth"]),
        "The map beside the paper's": beside(ours, paper, ["cell_auc"]),
        "AUC beside the paper's": beside(prediction, paper, ["auc"]),
        "AUC of dropped mass for κ̂ > 1.11, and the label's logistic fit": readable(prediction, fit),
        "Calibration of the pooled fit, by decile of dropped mass": calibration_table(instances),
        "The paper's panel (its table 6)": panel,
    }
    caption = f"{CAPTION}\n\n{counts(ours)}"
    for path in write(args.out, "figure2", cell_maps(cells, ours), cells, caption, tables):
        print(path)


if __name__ == "__main__":
    main()
