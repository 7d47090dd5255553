"""Table 7: what is proved of the ceiling, beside the paper's solver runs."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import counts, differences, findings_kept, of_text, ranges, readable, texts_note
from ceiling.analysis.certificates import floor_name
from ceiling.analysis.certification import PROVED, SEMANTICS, TABLE7, certification_table
from ceiling.cli.figures import arguments
from ceiling.plots import certified_bars, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table7_certification.csv"
PROVED_HERE = ("closable_lower", "closable_upper", "lower_over_upper", "light", "seconds", "seconds_p90")
COUNTS = ("n_pool", "improved_known", "undecided", "confirmed")
COMPARED = ("median_closable",)
CAPTION = """**Table 7.** Per budget and mass floor, the median of the closable share over certified
instances, as the interval that is proved: from what a known set closes to what no set exceeds. Beside it the
pool's median (diamond) and the paper's (cross), each dotted up to its cap: how far the median can rise if
better sets exist on as many instances as the Wilson bound allows when what is not ruled out counts as
improved (a cap above the panel is in the table; the fewer instances, the higher, so caps are not compared).
`improved` are solved instances with a set more than 1% better than the pool's (than top-mass's on rows
without a pool), and `wilson95_high` bounds their rate; gains up to 1% are no part of a cap. The pool knows no
floor: its best set may keep too little mass to count under one, and then no set that counts need be as good.
`confirmed`: no set is better than the pool's, proved. The paper gave SCIP 240 instances of its own rows a
budget, solved 237, 234, 234 and 234 of them, and confirmed the pool's set on 37% of those."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table7.{png,pdf,csv,md,json} from a store's certificates, beside its instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    ours = certification_table(of_text(store.certificates, store.documents, args.text), store.instances)
    paper = pl.read_csv(REFERENCE)
    both = pl.concat([ours, paper.select(pl.lit("paper").alias("model"), "s", *TABLE7)], how="diagonal")
    tables = {
        "Ours, then the paper's": _by_floor(both, TABLE7),
        "Proved of our rows": _by_floor(ours, PROVED_HERE),
        "In counts": _by_floor(ours, COUNTS),
    }
    note = f"{counts(ours)} {texts_note(store.certificates, store.documents, args.text)}"
    stated = ranges(pl.read_csv(REFERENCE, infer_schema=False), COMPARED, "s")
    note += f"\n\n{differences(ours.filter(mass_floor=ours['mass_floor'].min()), stated)}"
    caption = f"{CAPTION}\n\n{SEMANTICS}\n\n{PROVED}\n\nAn instance counts once under each floor. {note}"
    drawn, found = certified_bars(ours, paper), findings_kept.table7(ours, paper)
    for path in write(args.out, "table7", drawn, both, caption, tables, found, args.command):
        print(path)


def _by_floor(frame: pl.DataFrame, quantities: Sequence[str]) -> pl.DataFrame:
    floors = [None if floor is None else floor_name(floor) for floor in frame["mass_floor"]]
    return readable(frame.with_columns(pl.Series("floor", floors, dtype=pl.String)), quantities, ["floor"])


if __name__ == "__main__":
    main()
