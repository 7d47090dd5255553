"""Enumerate a dump on Ray: the units of ``ceiling enumerate``, spread over a cluster.

On this machine, with a local Ray:

    python jobs/enumerate.py --dump dumps/smollm2 --store store

On a cluster, the dump and the store on a path that every node sees:

    ray job submit --working-dir . -- python jobs/enumerate.py --dump /shared/dump --store /shared/store
    ray submit jobs/cluster.yaml jobs/enumerate.py -- --dump /shared/dump --store /shared/store

Shards that exist are done: the same command continues where a run stopped. A unit that fails, or takes four
workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object a unit:
time, document, layer, outcome (done, kept, failed), seconds, subsets, excluded, retries, node, host, pid,
reason, trace.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.enumerate import describe
from ceiling.cli.options import whole_numbers
from ceiling.stages import enumerate as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__)
    parser.add_argument(
        "--budgets", default="4,8,16,32", help="keys kept, comma-separated (default %(default)s)"
    )
    parser.add_argument(
        "--extra", type=int, help="candidates beside top-mass (default 24/12/6/4 at 4/8/16/32)"
    )
    parser.add_argument(
        "--cap", type=int, help="as many candidates as keep an instance within so many subsets"
    )
    options = parser.parse_args(argv)
    return job.exit_code("enumerate", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    dump = cluster.shared_path("dump", options.dump)
    store = cluster.shared_path("store", options.store)
    budgets = whole_numbers("budgets", options.budgets)
    plan = stage.plan(dump, store, budgets, options.extra, options.cap, options.verify)
    shared = (plan.dump, plan.store, plan.extras, plan.id)
    measured = {"subsets": 0, "excluded": 0}
    return job.fill("enumerate", stage, plan, options, describe, _task, shared, measured)


def _task(
    dump: Path, store: Path, extras: dict[int, int], dump_id: str, units: Sequence[stage.Unit]
) -> Iterator[stage.Done]:
    stage.warm_up(extras)  # once a worker; else the compiler's time would stand in the store as measured
    yield from stage.run_units(dump, store, extras, units, dump_id)


if __name__ == "__main__":
    sys.exit(main())
