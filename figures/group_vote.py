"""Group vote: what query heads pay for sharing one kept set, by group size."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import beside, counts, differences, findings_kept, readable
from ceiling.analysis.contexts import of_text, texts_note
from ceiling.analysis.group_vote import group_vote_table
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.vote_dots import vote_dots

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_selectors.csv"
CAPTION = """**Group vote.** All query heads of a KV head keep the same s keys, those of largest mass summed
over their rows. Per model and budget, the median of the shared set's error over the row's own top-mass
error, with a 95% cluster-bootstrap interval over documents where there are at least five; the band is the
range of the paper's family medians at s = 8, which rise with group size. Below 1 the shared set is better
than the row's own. `cost_p90` is the 90th percentile, `dearer` the share of rows on which sharing costs
anything. A model has one group size, so models here differ in more than that."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write group_vote.{png,pdf,csv,md,json} from a store's scores."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    ours = group_vote_table(of_text(store.scores, store.documents, args.text))
    paper = pl.read_csv(REFERENCE, schema_overrides={"paper": pl.String}).filter(quantity="cost")
    tables = {
        "Ours beside the paper's": beside(ours, paper, ["cost"]).insert_column(2, ours["group"]),
        "Cost of the shared set": readable(ours, ["group", "cost", "cost_p90", "dearer"]),
        "Where the paper says so": paper,
    }
    note = texts_note(store.scores, store.documents, args.text)
    stated = paper.with_columns(pl.col("low", "high").cast(pl.String))
    caption = f"{CAPTION} {differences(ours, stated)}\n\n{counts(ours)} {note}"
    drawn, found = vote_dots(ours, paper), findings_kept.group_vote(ours, paper)
    for path in write(args.out, "group_vote", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
