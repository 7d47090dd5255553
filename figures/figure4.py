"""Figure 4: what restricted attention costs on held-out text, and whether flat cells beat random ones."""

from collections.abc import Sequence

import polars as pl

from ceiling.analysis import of_text, readable, texts_note
from ceiling.analysis.bootstrap import FULL_DOCUMENTS
from ceiling.analysis.losses import (
    COARSE,
    READING,
    contrasts,
    documents_of,
    loss_finding,
    loss_table,
    losses_note,
)
from ceiling.analysis.tables import shown
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.loss_dots import loss_dots

CAPTION = """**Figure 4.** Above, next-token cross-entropy on the continuation when every head's attention is
replaced by the renormalised average over s kept keys, less the unmodified model's: means over documents with
95% bootstrap intervals where there are at least five, each document in grey. Cells keep what the rule named
keeps; `+ flat`, `+ random`, `+ all` use balancing in those cells instead. Below, the loss of one arm less
that of another on the same documents: right of 0 the second has less loss. The paper's figure 4 draws such
arms; it gives no numbers here to stand beside ours."""
BY = ("rule", "balanced")
QUANTITIES = ("excess", "relative", "kl", "agreement", "balanced_share", "kept_mass")
PAIRS = ("documents", "positive", "p", "draws_beaten", "verdict")


def main(argv: Sequence[str] | None = None) -> None:
    """Write figure4.{png,pdf,csv,md,json} from a store's losses."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    losses = of_text(store.losses, store.documents, args.text).collect()
    arms, pairs = loss_table(losses), contrasts(losses)
    gains = [shown(row, "difference") for row in pairs.iter_rows(named=True)]
    tables = {
        "Every arm": readable(arms, QUANTITIES, BY),
        "First less second, nats a token": pairs.select(
            "model", "s", "rule", "first", "second", pl.Series("difference", gains), *PAIRS
        ),
    }
    coarse = COARSE if arms["documents"].min() < FULL_DOCUMENTS else ""  # type: ignore[operator]
    notes = f"{losses_note(arms)} {texts_note(store.losses, store.documents, args.text)}"
    caption = "\n\n".join(filter(None, (CAPTION, READING, coarse, notes)))
    figure, finding = loss_dots(arms, pairs, documents_of(losses)), loss_finding(arms, pairs)
    for path in write(args.out, "figure4", figure, arms, caption, tables, finding, args.command):
        print(path)


if __name__ == "__main__":
    main()
