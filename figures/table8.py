"""Table 8: the budget profile, drawn and in numbers."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ceiling.analysis import budget_profile, counts, penalty_fit, readable
from ceiling.analysis.penalty import CAVEAT
from ceiling.analysis.profile import IMPROVED, PROFILE
from ceiling.cli.figures import arguments
from ceiling.plots import profile_lines, write

REFERENCE = Path(__file__).parent / "reference"
CAPTION = """**Table 8.** Per budget: κ̂ = e_top/e_pool, median and 99th percentile; share of instances with
e_pool ≤ 0.9 e_top; medians of the geometric and of the ridge-leverage (λ = 0.01 × the mean
eigenvalue of KᵀK) set's error over top-mass's; the paper's π̂ = e_pool/ef_fw, drawn, and
in the table below also the improved π̂ = e_pool/ef, median and 99th percentile; Spearman's ρ of Φ and
e_pool. The paper's rows are grey."""


def main(argv: Sequence[str] | None = None) -> None:
    """Write table8.{png,pdf,csv,md} from a store's instances."""
    args = arguments(__doc__, argv)

    from ceiling.store import open_store

    instances = open_store(args.store, args.config).instances
    ours = budget_profile(instances)
    paper = pl.read_csv(REFERENCE / "forced_weights_table8_budget_profile.csv")
    theirs = paper.select(pl.format("paper, {}", "family").alias("model"), "s", *PROFILE)
    both = pl.concat([ours, theirs], how="diagonal")
    tables = {
        "Ours, then the paper's": readable(both, [*PROFILE, *IMPROVED]),
    } | {
        f"log({of}) = intercept + slope · log(m_s √s), all budgets": readable(
            penalty_fit(instances, ratio=ratio), ["n_fit", "intercept", "slope", "r2", "fit"]
        )
        for ratio, of in (("pi", "e_pool/ef_fw"), ("pi_improved", "e_pool/ef"))
    }
    caption = f"{CAPTION} {CAVEAT}\n\n{counts(ours)}"
    for path in write(args.out, "table8", profile_lines(ours, paper), both, caption, tables):
        print(path)


if __name__ == "__main__":
    main()
