"""Selection: every rule's kept sets at every budget, against the pool's best and against top-mass's."""

from collections.abc import Sequence

from ceiling.analysis import findings_kept, readable
from ceiling.analysis.contexts import of_text, texts_note
from ceiling.analysis.selection import READING, rests_on, selector_table
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.selector_grid import selector_grid

CAPTION = """**Selection.** Medians of a rule's error over the pool optimum (where instances are enumerated)
and over top-mass's error, and the share of rows on which its error is below top-mass's by more than a tie;
the darker, the farther above 1, or the larger the share. The tables add 90th percentiles, the median mass
of the kept set, and its median overlap with the top-mass set of as many keys. Balancing is no rule to
deploy: it reads the values, and stands here as what single swaps can win. Figure 3 has the paper's ranges;
it states no number a selector."""
TABLES = {
    "Error over the pool's best": ("n_pool", "excess", "excess_p90"),
    "Error over top-mass's": ("over_top", "over_top_p90", "better", "kept_mass", "overlap"),
    "Counts": ("trivial", "degenerate", "n_pool", "n_proved"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Write selection.{png,pdf,csv,md,json} from a store's scores, beside its instances and certificates."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    scores = of_text(store.scores, store.documents, args.text)
    ours = selector_table(scores, store.instances, store.certificates)
    tables = {
        heading: readable(ours, columns, ["selector", "reading"]) for heading, columns in TABLES.items()
    }
    note = texts_note(store.scores, store.documents, args.text)
    caption = f"{CAPTION}\n\n{READING}\n\n{rests_on(ours)} {note}"
    drawn, found = selector_grid(ours), findings_kept.selection(ours)
    for path in write(args.out, "selection", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
