"""Certify a dump on Ray: the units of ``ceiling certify``, spread over a cluster.

On this machine, with a local Ray, the instances of a manifest that is drawn before the first is solved:

    python jobs/certify.py --dump dumps/smollm2 --store store --instances 240 --mass-floor none,0.9,0.5

On a cluster, the dump, the store and the manifest on a path that every node sees:

    ray job submit --working-dir . -- \\
        python jobs/certify.py --dump /shared/dump --store /shared/store --manifest /shared/instances.csv

Shards that exist are done: the same command continues where a run stopped. A unit that fails, or takes four
workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object a unit:
time, document, layer, outcome (done, kept, failed), seconds, intervals, proved, trivial, nodes, retries,
node, host, pid, reason, trace.

Without a mass floor the best set of a diffuse row consists of tail keys of negligible mass, which no cache
would keep; ask for floors too.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.certify import chosen, counted, describe, floors, write_down
from ceiling.cli.options import whole_numbers
from ceiling.stages import certify as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 units failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__)
    parser.add_argument("--budgets", help="keys kept, comma-separated (default 4,8,16,32, or the manifest's)")
    limits = stage.Limits()
    parser.add_argument(
        "--nodes", type=int, default=limits.nodes, help="nodes an instance (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=limits.seconds, help="guard an instance (default %(default)s)"
    )
    parser.add_argument(
        "--gap", type=float, default=limits.gap, help="relative, of a closed interval (default %(default)s)"
    )
    parser.add_argument(
        "--mass-floor", default="none", help="shares of the top-mass set's mass, comma-separated, or none"
    )
    parser.add_argument("--manifest", type=Path, help="certify the instances of this file only")
    parser.add_argument("--instances", type=int, help="draw so many, into --manifest or beside the store")
    parser.add_argument("--least-keys", type=int, default=1, help="draw only rows of so many keys")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and the search")
    options = parser.parse_args(argv)
    return job.exit_code("certify", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    dump = cluster.shared_path("dump", options.dump)
    store = cluster.shared_path("store", options.store)
    path = cluster.shared_path("manifest", options.manifest) if options.manifest else None
    budgets = whole_numbers("budgets", options.budgets) if options.budgets is not None else None
    limits = stage.Limits(
        options.nodes, options.seconds, options.gap, floors(options.mass_floor), options.seed
    )
    manifest, new = chosen(dump, store, budgets, path, options.instances, options.least_keys, options.seed)
    if manifest is not None:
        budgets = None
    plan = stage.plan(dump, store, budgets, limits=limits, manifest=manifest, verify=options.verify)
    if not options.dry_run:
        write_down(manifest, new)
    return job.fill(
        "certify", stage, plan, options, describe, _task, (plan,),
        {"intervals": 0, "proved": 0, "trivial": 0, "nodes": 0},
        lambda done: counted(done, len(plan.limits.floors)),
    )  # fmt: skip


def _task(plan: stage.Plan, units: Sequence[stage.Unit]) -> Iterator[stage.Done]:
    stage.warm_up()  # once a worker; else the compiler's time would stand in the store as measured
    yield from stage.run_units(plan, units)


if __name__ == "__main__":
    sys.exit(main())
