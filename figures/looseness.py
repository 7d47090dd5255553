"""Looseness of the pool: what its best set misses, by layer and budget."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import counts, findings_kept, looseness, looseness_table, of_text, texts_note
from ceiling.analysis.certification import PROVED, SEMANTICS, certification_table
from ceiling.cli.figures import arguments
from ceiling.plots import looseness_dots, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table7_certification.csv"
CAPTION = """**Looseness.** By how much the best set known of *all* keys undercuts the best of the candidate
pool, 1 − es_upper/e_pool, for every instance certified without a mass floor (dots; hollow where the
interval is open), and its median over bands of neighbouring layers, each of at least ten instances where
there are as many (line); dotted, the median of 1 − es_lower/e_pool, which no set exceeds. With the paper's
pools and rows, its solver found a set more than 1% better on 4.9% of the instances it solved."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write looseness.{png,pdf,csv,md,json} from a store's certificates and instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    certificates = of_text(store.certificates, store.documents, args.text)
    rows = looseness(certificates, store.instances)
    table = looseness_table(rows)
    unrestricted = certificates.filter(pl.col("mass_floor") == 0)
    note = counts(certification_table(unrestricted, store.instances))
    note += f" {texts_note(store.certificates, store.documents, args.text)}"
    caption = f"{CAPTION}\n\n{SEMANTICS}\n\n{PROVED}\n\nCertified: {note}"
    tables = {"Medians by layers": table}
    drawn, found = looseness_dots(rows, table), findings_kept.looseness(rows, pl.read_csv(REFERENCE))
    for path in write(args.out, "looseness", drawn, rows, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
