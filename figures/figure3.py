"""Figure 3: how far deployed selectors are from the pool's best set, beside top-mass."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import findings_kept, readable
from ceiling.analysis.contexts import of_text, texts_note
from ceiling.analysis.selection import (
    READING,
    against_paper,
    excess_ranges,
    rests_on,
    selector_table,
    with_pool,
)
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.selector_dots import selector_dots

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_selectors.csv"
CAPTION = """**Figure 3.** Median of each selector's error over the pool optimum, error/e_pool, with a 95%
cluster-bootstrap interval over documents where there are at least five; logarithmic axis. The grey bands are
the range of the paper's medians at s = 8, of its deployed selectors and of top-mass (which TOVA is, per
query). The pool optimum lies above the optimum over all sets, so error/e_pool is a lower bound of
error/ES(s); where an instance is certified, `excess_lower` and `excess_upper` are the medians of
error/es_upper and error/es_lower, between which error/ES(s) lies, proved."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write figure3.{png,pdf,csv,md,json} from a store's scores, beside its instances and certificates."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    scores = of_text(store.scores, store.documents, args.text)
    ours = with_pool(selector_table(scores, store.instances, store.certificates))
    paper = pl.read_csv(REFERENCE, schema_overrides={"paper": pl.String})
    ranges = excess_ranges(ours, paper)
    shown = ["n_pool", "excess", "excess_p90", "n_proved", "excess_lower", "excess_upper"]
    tables = {
        "Least and greatest median at the paper's budget, beside the paper's": ranges,
        "Every selector": readable(ours, shown, ["selector", "reading"]),
        "Where the paper says so": paper.filter(pl.col("quantity").str.starts_with("excess")),
    }
    note = texts_note(store.scores, store.documents, args.text)
    caption = f"{CAPTION}\n\n{READING}\n\n{against_paper(ranges)}\n\n{rests_on(ours)} {note}"
    drawn, found = selector_dots(ours, paper), findings_kept.figure3(ours, ranges, paper)
    for path in write(args.out, "figure3", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
