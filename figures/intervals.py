"""Proved intervals of the closable share against dropped mass, under each mass floor."""

from collections.abc import Sequence

import polars as pl

from ceiling.analysis import counts, findings_kept, interval_table, of_text, texts_note
from ceiling.analysis.certificates import floor_name
from ceiling.analysis.certification import PROVED, SEMANTICS, certification_table
from ceiling.cli.figures import arguments
from ceiling.plots import interval_panels, write

CAPTION = """**Intervals.** Per budget and decile of dropped mass, the median of the closable share's two
ends: a bar reaches from what a known set closes (mark) to what no set that meets the floor exceeds (dash).
Floors stand side by side. Deciles are those of the manifest that the instances were drawn by, or of the
certified rows where there was none. The paper has no such figure."""
SHOWN = ("n", "solved", "dropped_mass", "closable_lower", "closable_upper", "lower_over_upper", "light")


def main(argv: Sequence[str] | None = None) -> None:
    """Write intervals.{png,pdf,csv,md,json} from a store's certificates."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    certificates = of_text(store.certificates, store.documents, args.text)
    ours = interval_table(certificates)
    names = [floor_name(floor) for floor in ours["mass_floor"]]
    shown = ours.select("model", pl.Series("floor", names, dtype=pl.String), "s", "decile", *SHOWN)
    whole = certification_table(certificates)
    note = f"{counts(whole)} {texts_note(store.certificates, store.documents, args.text)}"
    caption = f"{CAPTION}\n\n{SEMANTICS}\n\n{PROVED}\n\nAn instance counts once under each floor. {note}"
    tables = {"Medians by decile of dropped mass": shown}
    drawn, found = interval_panels(ours), findings_kept.intervals(ours, whole)
    for path in write(args.out, "intervals", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
