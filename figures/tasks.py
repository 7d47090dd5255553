"""Tasks: what holds where needles are known, beside the bounds that were registered before the capture."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import counts, findings
from ceiling.analysis.contexts import TASKS, context, lengths_note, of_text, texts_note
from ceiling.analysis.tasks import task_table, verdicts_readable
from ceiling.cli.figures import arguments
from ceiling.plots import write
from ceiling.plots.task_bounds import task_bounds

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_tasks.csv"
CAPTION = """**Tasks.** Task-structured contexts, all budgets pooled: median closable share; 90th percentile
of κ̂ on retrieval rows (whose query reads the answer off the needles) over that on background rows; share of
retrieval rows that are value-aware: κ̂ > 1.11, and the pool optimum keeps a needle's key that top-mass drops;
AUC of dropped mass for κ̂ > 1.11; share of cells (layer, head) whose flat label at s = 8 is that of the main
text. Grey is what the bound allows that was written down before the capture, a hollow mark did not hold. A
bound is of all tasks together: its verdict on one of them, on fewer documents, is no test. A verdict is of
the value, not of its interval; `n` counts instances, cells or query positions. The bounds of the paper are of
its own tasks and families. With --text NAME, that task alone, or another text's map in place of the main
one's."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write tasks.{png,pdf,csv,md,json} from a store's instances, documents and rows."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    one = args.text if (args.text or "").startswith(TASKS) else None
    instances = of_text(store.instances, store.documents, one) if one else store.instances
    main_text = of_text(store.instances, store.documents, None if one else args.text)
    ours = task_table(instances, store.documents, store.rows, main_text)
    everything = ours.filter(quantity="closable_median").unique("model", keep="first", maintain_order=True)
    paper = pl.read_csv(REFERENCE, schema_overrides={"paper": pl.String})
    tables = {
        "Verdicts": verdicts_readable(ours),
        "Registered by the paper": paper,
    }
    note = texts_note(main_text, store.documents).removeprefix("Text: ")
    ids = context(store.documents).filter(pl.col("text").str.starts_with(TASKS))["dump"].to_list()
    lengths = lengths_note(instances.filter(pl.col("dump").is_in(ids)), store.documents)
    caption = f"{CAPTION}\n\n{counts(everything)} Tasks: {lengths}. Main text: {note}"
    drawn, found = task_bounds(ours), findings.tasks(ours, paper)
    for path in write(args.out, "tasks", drawn, ours, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
