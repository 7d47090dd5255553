"""Table 2: prose, code and other contents."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import by_context, content_table, counts, differences, findings, of_text, ranges
from ceiling.analysis.content import CONTENT, content_beside
from ceiling.analysis.contexts import lengths_note
from ceiling.analysis.instances import COLUMNS
from ceiling.cli.figures import arguments
from ceiling.plots import content_bars, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table2_content.csv"
PANELS = {"auc_dropped_mass": "AUC of dropped mass", "share_kappa_gt_1_11": "share with κ̂ > 1.11"}
CAPTION = """**Table 2.** By the kind of text, the range over budgets of the AUC of the dropped mass for
κ̂ > 1.11 and of the share of instances with κ̂ > 1.11 (bar between the least and the greatest); the paper's,
of its reference family Qwen2.5-1.5B, in grey. Its ranges are read as over budgets. `auc` pools them."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table2.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    instances = store.instances.select(COLUMNS)
    if args.text is not None:
        instances = of_text(instances, store.documents, args.text)
    texts = by_context(instances, store.documents)
    ours = content_table(texts)
    paper = pl.read_csv(REFERENCE, infer_schema=False)
    stated = ranges(paper, CONTENT, "content")
    differ = differences(ours, stated, "content")
    notes = [f"{text}: {counts(rows)}" for (text,), rows in ours.group_by("text", maintain_order=True)]
    caption = f"{CAPTION}\n\n{differ}\n\n{' '.join(notes)} Texts: {lengths_note(instances, store.documents)}."
    tables = {"Ours, then the paper's": content_beside(ours, paper)}
    numeric = paper.with_columns(pl.col(CONTENT).cast(pl.Float64))
    figure = content_bars(ours, numeric, PANELS, "paper")
    found = findings.table2(ours, paper)
    for path in write(args.out, "table2", figure, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
