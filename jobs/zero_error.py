"""The zero-error question on Ray: the units of ``ceiling zero-error``, spread over a cluster.

On this machine, with a local Ray:

    python jobs/zero_error.py --dump dumps/smollm2 --store store --bits 8

On a cluster, the dump and the store on a path that every node sees:

    ray job submit --working-dir . -- python jobs/zero_error.py --dump /shared/dump --store /shared/store

Shards that exist are done: the same command continues where a run stopped. A unit that fails, or takes four
workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object a unit:
time, document, layer, outcome (done, kept, failed), seconds, statuses, retries, node, host, pid, reason,
trace.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.options import whole_numbers
from ceiling.cli.zero_error import counted, describe
from ceiling.stages import zero_error as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__)
    parser.add_argument(
        "--budgets", default="4,8,16,32", help="keys kept, comma-separated (default %(default)s)"
    )
    parser.add_argument(
        "--bits", default="8", help="bits of a rounded number, comma-separated (default %(default)s)"
    )
    parser.add_argument("--rows", type=int, help="ask so many rows of each document and layer (default all)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows (default %(default)s)")
    parser.add_argument(
        "--work",
        type=float,
        default=stage.WORK,
        help="CP-SAT's limit for an instance, in its own deterministic seconds (default %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=float, default=stage.SECONDS, help="guard for an instance (default %(default)s)"
    )
    options = parser.parse_args(argv)
    return job.exit_code("zero-error", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    plan = stage.plan(
        cluster.shared_path("dump", options.dump),
        cluster.shared_path("store", options.store),
        whole_numbers("budgets", options.budgets),
        whole_numbers("bits", options.bits),
        options.rows,
        options.seed,
        options.seconds,
        options.work,
        options.verify,
    )
    return job.fill(
        "zero-error", stage, plan, options, describe, _task,
        (plan.dump, plan.store, plan.question, plan.id), {"statuses": {}},
        lambda done: counted(sum((Counter(each.statuses) for each in done), Counter())),
    )  # fmt: skip


def _task(
    dump: Path, store: Path, question: stage.Question, dump_id: str, units: Sequence[stage.Unit]
) -> Iterator[stage.Done]:
    yield from stage.run_units(dump, store, question, units, dump_id)


if __name__ == "__main__":
    sys.exit(main())
