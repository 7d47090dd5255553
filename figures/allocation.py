"""Allocation: one total budget spread over the heads in several ways, against the same for all."""

from collections.abc import Sequence

from ceiling.analysis import findings_kept, readable
from ceiling.analysis.allocation import allocation_table
from ceiling.analysis.contexts import of_text, texts_note
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.allocation_lines import allocation_lines

CAPTION = """**Allocation.** For every query, errors of the top-mass sets summed over all cells (layer, head)
under an allocation, over the same sum when every head keeps s keys; median over queries, with a 95%
cluster-bootstrap interval over documents where there are at least five. Below 1 the allocation is better.
`map`: a cell whose median dropped mass at s = 8 exceeds 0.25 gets twice the keys of another, the median being
over all rows of the dump, those scored here among them; `mass-greedy`: a key a cell, the rest to the largest
masses of this query in any cell, which no cache can know; `pyramid`: falling linearly from the first layer to
s/20 at the last (PyramidKV). The paper gives no formula for the first two. Left of each pair plain sums, in
which layers of large values count most; right, every error in units of its row's σ. The total is matched: a
query on which an allocation keeps more or fewer keys in all than the uniform one is left out (`unmatched`).
`cell_median` is the median over cells, without sums. No number of the paper's stands beside these: none is in
this project's reference data."""
SHOWN = ("cells", "unmatched", "median", "mean", "median_scaled", "mean_scaled", "cell_median")
MASS = ("kept_mass", "kept_mass_uniform")


def main(argv: Sequence[str] | None = None) -> None:
    """Write allocation.{png,pdf,csv,md,json} from a store's scores."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    ours = allocation_table(of_text(store.scores, store.documents, args.text))
    most = ours.sort("n", descending=True, maintain_order=True).unique("model", maintain_order=True)
    rests_on = " ".join(
        f"{row['model']}: n = {row['n']:,} queries a budget, {row['instances']:,} instances of "
        f"{row['documents']} documents; intervals: {row['interval']}."
        for row in most.iter_rows(named=True)
    )
    note = texts_note(store.scores, store.documents, args.text)
    tables = {"Errors over the uniform allocation's": readable(ours, [*SHOWN, *MASS], ["allocation"])}
    caption = f"{CAPTION}\n\n{rests_on} {note}"
    drawn, found = allocation_lines(ours), findings_kept.allocation(ours)
    for path in write(args.out, "allocation", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
