"""Enumerate a dump on Ray: the units of ``ceiling enumerate``, spread over a cluster.

On this machine, with a local Ray:

    python jobs/enumerate.py --dump dumps/smollm2 --store store

On a cluster, the dump and the store on a path that every node sees:

    ray job submit --working-dir . -- python jobs/enumerate.py --dump /shared/dump --store /shared/store
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ceiling import cluster
from ceiling.cli.enumerate import describe
from ceiling.cli.options import whole_numbers
from ceiling.cli.progress import progress
from ceiling.problem import InputError
from ceiling.stages import enumerate as stage

UNITS_PER_TASK = 8
"""Eight 1 024-token layers take about half a second: far more than the scheduling of a task."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 failed, 2 bad input, 130 interrupted)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dump", type=Path, required=True, help="folder written by `ceiling capture`")
    parser.add_argument("--store", type=Path, required=True, help="folder of the result store")
    parser.add_argument(
        "--budgets", default="4,8,16,32", help="keys kept, comma-separated (default %(default)s)"
    )
    parser.add_argument(
        "--extra", type=int, help="candidates beside top-mass (default 24/12/6/4 at 4/8/16/32)"
    )
    parser.add_argument(
        "--cap", type=int, help="as many candidates as keep an instance within so many subsets"
    )
    parser.add_argument("--verify", action="store_true", help="first compare the files with their sha256")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument(
        "--dry-run", action="store_true", help="print units, bytes and a time estimate; do nothing"
    )
    options = parser.parse_args(argv)
    try:
        dump, store = options.dump.resolve(), options.store.resolve()
        budgets = whole_numbers("budgets", options.budgets)
        plan = stage.plan(dump, store, budgets, options.extra, options.cap, options.verify)
        if options.dry_run:
            describe(plan)
        elif not plan.todo:
            stage.prepare(plan)
            print(f"nothing to do: all {len(plan.units)} shards exist in {plan.store}")
        else:
            run(plan)
    except KeyboardInterrupt:
        print("enumerate: interrupted; finished shards are kept, the same command continues", file=sys.stderr)
        return 130
    except Exception as error:
        if options.debug:
            raise
        print(f"enumerate: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


def run(plan: stage.Plan) -> None:
    """Do the missing units on the cluster this process belongs to, or on a local one."""
    stage.prepare(plan)
    batches = [plan.todo[i : i + UNITS_PER_TASK] for i in range(0, len(plan.todo), UNITS_PER_TASK)]
    cpus = cluster.start()
    try:
        with progress(f"enumerate on {cpus} CPUs", len(plan.todo)) as advance:
            for batch, _ in cluster.run_batches(_task, (plan.dump, plan.store, plan.extras), batches, cpus):
                for _ in batch:
                    advance()
    finally:
        cluster.stop()
    print(f"{len(plan.todo)} shards -> {plan.store}")


def _task(dump: Path, store: Path, extras: dict[int, int], units: Sequence[stage.Unit]) -> list[stage.Done]:
    return list(stage.run_units(dump, store, extras, units))


if __name__ == "__main__":
    sys.exit(main())
