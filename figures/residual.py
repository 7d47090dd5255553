"""The value-side residual: what of the closable share dropped mass tells, what the values, per layer."""

from collections.abc import Sequence

import polars as pl

from ceiling.analysis import counts, of_text, readable, texts_note
from ceiling.analysis.residual import (
    DEFINITIONS,
    OUT_OF_DOCUMENT,
    SPLIT,
    residual_finding,
    residual_table,
    split_table,
)
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.residual_lines import residual_lines

CAPTION = """**Value-side residual.** How much of the closable share a linear fit explains by the mass that
top-mass drops, by what is left of the error without it, and by both: R² on documents the fit has not seen,
layer by layer and, right of them, all layers together with a 95% cluster-bootstrap interval where there are
at least five documents. The paper leaves the value side open and has no number here."""
SIDES = ("mass", "values", "both", "only_mass", "only_values", "difference")
PARTS = ("unchanged", "gain", "mass_part", "offset_part")
NO_SCORES = "Without scores of top-mass and balancing what balancing pays is not drawn; run `ceiling score`."


def main(argv: Sequence[str] | None = None) -> None:
    """Write residual.{png,pdf,csv,md,json} from a store's instances, and its scores where it has them."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    texts = (store.documents, args.text)
    ours = residual_table(of_text(store.instances, *texts))
    split = split_table(of_text(store.scores, *texts))
    whole = ours.filter(pl.col("layer").is_null())
    tables = {"R² over all layers": readable(whole, SIDES)}
    if split.height:
        paid = split.filter(pl.col("layer").is_null())
        tables["What balancing pays and wins, over all layers"] = readable(paid, PARTS)
    notes = f"{counts(whole)} {texts_note(store.instances, *texts)}"
    parts = (CAPTION, DEFINITIONS, OUT_OF_DOCUMENT, SPLIT if split.height else NO_SCORES, notes)
    figure, finding = residual_lines(ours, split), residual_finding(ours, split)
    if split.height:
        paid = split.drop("documents").rename({"n": "changed"})
        ours = ours.join(paid, on=["model", "s", "layer"], how="left", nulls_equal=True)
    for path in write(args.out, "residual", figure, ours, "\n\n".join(parts), tables, finding, args.command):
        print(path)


if __name__ == "__main__":
    main()
