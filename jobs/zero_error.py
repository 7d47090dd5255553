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
from ceiling.cli.certify import announce
from ceiling.cli.job import exit_code, run_plan
from ceiling.cli.options import whole_numbers
from ceiling.cli.zero_error import counted, describe
from ceiling.stages import zero_error as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dump", type=Path, required=True, help="folder written by `ceiling capture`")
    parser.add_argument("--store", type=Path, required=True, help="folder of the result store")
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
    parser.add_argument("--verify", action="store_true", help="first compare the files with their sha256")
    parser.add_argument("--log", type=Path, help="event log to append to (default a new file in STORE/.log)")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument(
        "--dry-run", action="store_true", help="print units, bytes and a time estimate; do nothing"
    )
    options = parser.parse_args(argv)
    return exit_code("zero-error", lambda: _job(options), options.debug)


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
    if options.dry_run:
        describe(plan)
        return 0
    stage.prepare(plan)
    if not plan.todo:
        print(f"nothing to do: all {len(plan.units)} shards exist in {plan.store}")
        return 0
    announce(plan.store, stage.TABLE, plan.id, plan.config)
    log = cluster.EventLog(options.log or cluster.log_path(plan.store, "zero-error"))
    shared = (plan.dump, plan.store, plan.question, plan.id)
    return run_plan(
        "zero-error", plan, _task, shared, log, {"statuses": {}},
        lambda done: counted(sum((Counter(each.statuses) for each in done), Counter())),
    )  # fmt: skip


def _task(
    dump: Path, store: Path, question: stage.Question, dump_id: str, units: Sequence[stage.Unit]
) -> Iterator[stage.Done]:
    yield from stage.run_units(dump, store, question, units, dump_id)


if __name__ == "__main__":
    sys.exit(main())
