"""Table 8: the budget profile, drawn and in numbers."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import (
    beside_rows,
    budget_profile,
    counts,
    differences,
    findings,
    of_text,
    ranges,
    readable,
    texts_note,
)
from ceiling.analysis.penalty import CAVEAT, penalty_fit
from ceiling.analysis.profile import IMPROVED, PROFILE
from ceiling.cli.figures import arguments
from ceiling.plots import profile_lines, write

REFERENCE = Path(__file__).parent / "reference" / "forced_weights_table8_budget_profile.csv"
CAPTION = """**Table 8.** Per budget: κ̂ = e_top/e_pool, median and 99th percentile; share of instances with
e_pool ≤ 0.9 e_top; medians of the geometric and of the ridge-leverage (λ = 0.01 × the mean
eigenvalue of KᵀK) set's error over top-mass's; the paper's π̂ = e_pool/ef_fw, drawn, and
in the table below also the improved π̂ = e_pool/ef, median and 99th percentile; Spearman's ρ of Φ and
e_pool. The paper's rows, of one family, are grey."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table8.{png,pdf,csv,md,json} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    store = open_store(args.store, args.config)
    instances = of_text(store.instances, store.documents, args.text)
    ours = budget_profile(instances)
    several = ours["model"].n_unique() > 1
    rows = pl.concat([ours, budget_profile(instances, together=True)]) if several else ours
    paper, text = pl.read_csv(REFERENCE), pl.read_csv(REFERENCE, infer_schema=False)
    theirs = paper.select(pl.format("paper, {}", "family").alias("model"), "s", *PROFILE)
    tables = {"Ours, then the paper's": beside_rows(rows, text, [*PROFILE, *IMPROVED], by=["s"])} | {
        f"log({of}) = intercept + slope · log(m_s √s), all budgets": readable(
            penalty_fit(instances, ratio=ratio), ["n_fit", "intercept", "slope", "r2", "fit"]
        )
        for ratio, of in (("pi", "e_pool/ef_fw"), ("pi_improved", "e_pool/ef"))
    }
    note = f"{counts(ours)} {texts_note(store.instances, store.documents, args.text)}"
    caption = f"{CAPTION} {CAVEAT}\n\n{differences(rows, ranges(text, PROFILE, 's'))}\n\n{note}"
    both = pl.concat([rows, theirs], how="diagonal")
    drawn, found = profile_lines(ours, paper), findings.table8(ours, paper)
    for path in write(args.out, "table8", drawn, both, caption, tables, found, args.command):
        print(path)


if __name__ == "__main__":
    main()
