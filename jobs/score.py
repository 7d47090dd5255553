"""Score rules on Ray: the units of ``ceiling score``, spread over a cluster.

On this machine, with a local Ray, all built-in rules, or some, one of them your own:

    python jobs/score.py --dump dumps/smollm2 --store store
    python jobs/score.py --dump dumps/smollm2 --store store --selector snapkv --selector my_module:my_rule

On a cluster, the dump and the store on a path that every node sees; a module of your own in the folder that
is submitted:

    ray job submit --working-dir . -- python jobs/score.py --dump /shared/dump --store /shared/store

Shards that exist are done: the same command continues where a run stopped. A unit that fails, or takes four
workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object a unit:
time, document, layer, outcome (done, kept, failed), seconds, sets, retries, node, host, pid, reason, trace.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.options import whole_numbers
from ceiling.cli.score import Reading, describe, names_or_none, numbers_or_none, one_reading, say_left_out
from ceiling.stages import score as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__)
    parser.add_argument(
        "--selector", action="append", help="a rule, or module:function; repeatable (default all built-in)"
    )
    parser.add_argument(
        "--reading",
        choices=[str(each) for each in Reading],
        default=str(Reading.BOTH),
        help="chosen anew for each query, or before it comes (default %(default)s)",
    )
    parser.add_argument(
        "--budgets", default="4,8,16,32", help="keys kept, comma-separated (default %(default)s)"
    )
    parser.add_argument(
        "--native", help="further budgets of top-mass and balancing alone, or none (default 64,128,256)"
    )
    parser.add_argument(
        "--allocation", help="pyramid, mass-greedy, map, or none (default all; none with --selector)"
    )
    options = parser.parse_args(argv)
    return job.exit_code("score", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    plan = stage.plan(
        cluster.shared_path("dump", options.dump),
        cluster.shared_path("store", options.store),
        options.selector,
        reading=one_reading(options.reading),
        budgets=whole_numbers("budgets", options.budgets),
        native=numbers_or_none("native", options.native),
        allocations=names_or_none(options.allocation),
        verify=options.verify,
    )
    say_left_out(plan)
    return job.fill(
        "score", stage, plan, options, describe, _task, (plan,), {"sets": 0},
        lambda done: f"{sum(each.sets for each in done):,} kept sets",
    )  # fmt: skip


def _task(plan: stage.Plan, units: Sequence[stage.Unit]) -> Iterator[stage.Done]:
    stage.warm_up()  # once a worker; else the compiler's time would stand in the store as measured
    yield from stage.run_units(plan, units)


if __name__ == "__main__":
    sys.exit(main())
