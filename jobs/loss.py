"""Held-out loss on Ray: the documents of ``ceiling loss``, spread over a cluster.

On this machine, with a local Ray, all rules, or some, one of them your own:

    python jobs/loss.py --dump dumps/smollm2 --store store
    python jobs/loss.py --dump dumps/smollm2 --store store --selector snapkv --selector my_module:my_rule

On a cluster, the dump and the store on a path that every node sees; a module of your own in the folder that
is submitted:

    ray job submit --working-dir . -- python jobs/loss.py --dump /shared/dump --store /shared/store

The model lies where the driver found it: give a path that every node sees, or let CEILING_CACHE be one.

Shards that exist are done: the same command continues where a run stopped. A document that fails, or takes
four workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object a
document: time, document, outcome (done, kept, failed), seconds, arms, retries, node, host, pid, reason,
trace.
"""

import argparse
import sys
from collections.abc import Sequence

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.loss import describe
from ceiling.cli.options import whole_numbers
from ceiling.stages import loss as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__)
    parser.add_argument(
        "--selector", action="append", help=f"a rule, or module:function; repeatable (default {_LISTED})"
    )
    parser.add_argument("--model", help="where the dump's model is (default the one it names)")
    parser.add_argument("--budgets", default="8", help="keys kept, comma-separated (default %(default)s)")
    parser.add_argument("--documents", type=int, help="the first so many (default all)")
    parser.add_argument("--tokens", type=int, help="of a document (default 1024, or all there are)")
    parser.add_argument("--context", type=int, help="of them before the first prediction (default half)")
    parser.add_argument(
        "--draws", type=int, default=stage.DRAWS, help="of random cells (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random choices (default %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default %(default)s)")
    parser.add_argument("--dtype", help="float32, bfloat16 or float16 (default the dump's)")
    options = parser.parse_args(argv)
    return job.exit_code("loss", lambda: _job(options), options.debug)


_LISTED = ", ".join(stage.SELECTORS)


def _job(options: argparse.Namespace) -> int:
    plan = stage.plan(
        cluster.shared_path("dump", options.dump),
        cluster.shared_path("store", options.store),
        options.selector,
        model=options.model and job.everywhere("model", options.model),
        budgets=whole_numbers("budgets", options.budgets),
        documents=options.documents,
        tokens=options.tokens,
        context=options.context,
        draws=options.draws,
        seed=options.seed,
        device=options.device,
        dtype=options.dtype,
        verify=options.verify,
    )
    return job.fill(
        "loss", stage, plan, options, describe, stage.run_units, (plan,), {"arms": 0},
        lambda done: f"{sum(each.arms for each in done)} records",
        lambda unit: {"document": unit.document},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
