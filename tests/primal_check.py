"""How often the local search alone finds what is proved optimal: ``python -m tests.primal_check DUMP STORE``.

For every certificate that is proved optimal, the search runs again, from scratch, with its default
limit; prints the share that reaches the proved optimum within 1e-6, and the CPU seconds it took.
"""

import sys
import time

import numpy as np
import polars as pl

from ceiling import improve, open_store
from ceiling.dump import open_dump


def main(dump: str, store: str) -> None:
    opened = open_dump(dump)
    proved = open_store(store).certificates.filter(dump=opened.id, status="optimal").collect()
    found, seconds = [], []
    for line in proved.iter_rows(named=True):
        document = opened.document(line["document"])
        r = document.query_positions.tolist().index(line["position"])
        row = document.row(line["layer"], line["head"], r)
        start = time.process_time()
        answer = improve(row, line["s"], mass_floor=line["mass_floor"] or None)
        seconds.append(time.process_time() - start)
        found.append(answer.error <= line["es_upper"] * (1 + 1e-6))
    table = proved.select("s", "mass_floor").with_columns(
        pl.Series("found", found), pl.Series("seconds", np.array(seconds))
    )
    print(table.group_by("s", "mass_floor").agg(
        pl.len().alias("proved"), pl.col("found").mean(), pl.col("seconds").median(),
        pl.col("seconds").max().alias("most"),
    ).sort("mass_floor", "s"))  # fmt: skip
    print(f"{np.mean(found):.1%} of {len(found)}; at most {max(seconds):.2f} CPU s")


if __name__ == "__main__":
    main(*sys.argv[1:3])
