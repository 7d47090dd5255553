"""Audit presses on Ray: the instances of ``ceiling audit``, spread over a cluster.

On this machine, with a local Ray, the whole default grid, or some of it:

    python jobs/audit.py --store store
    python jobs/audit.py --store store --presses snapkv --presses snapkv:window=16 --instances 50

On a cluster, the store on a path that every node sees; a module of a press of your own in the folder that is
submitted:

    ray job submit --working-dir . -- python jobs/audit.py --store /shared/store

Shards that exist are done: the same command continues where a run stopped. An instance that fails, or takes
four workers along, is named at the end; all others complete. Every run keeps an event log, one JSON object an
instance: time, task, instance, outcome (done, kept, failed), seconds, records, retries, node, host, pid,
reason, trace.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ceiling import cluster
from ceiling.cli import job
from ceiling.cli.audit import budgets_of, describe, names, say_refused, words
from ceiling.stages import audit as stage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code (0 done, 1 instances failed, 2 bad input, 130 interrupted)."""
    parser = job.parser(__doc__, dump=False)
    parser.add_argument("--model", default="smollm2-135m", help="built-in, folder or hub id (%(default)s)")
    parser.add_argument("--presses", action="append", help="presses (default the paper's nine, and more)")
    parser.add_argument("--ratios", default="0.25,0.5,0.75,0.9", help="shares evicted, or none (%(default)s)")
    parser.add_argument("--slots", help="further budgets: keys kept a KV head")
    parser.add_argument("--held", help="further budgets: shares of bytes held when the answer begins")
    parser.add_argument("--arms", help="agnostic, aware-kvpress, aware-scores (default all)")
    parser.add_argument("--tasks", action="append", help="tasks (default the model's own set)")
    parser.add_argument("--instances", type=int, default=stage.INSTANCES, help="a task (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=stage.TOKENS, help="an instance (default %(default)s)")
    parser.add_argument("--questions", type=int, default=1, help="of each context (default %(default)s)")
    parser.add_argument("--text", default="python-docs", help="haystack (default %(default)s)")
    parser.add_argument("--backend", default="eager", help="eager or sdpa (default %(default)s)")
    parser.add_argument("--dtype", help="float32, bfloat16 or float16")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default %(default)s)")
    parser.add_argument("--engine", default="shared", help="shared or native (default %(default)s)")
    parser.add_argument("--ceilings", help="none, top, balance or certify; see `ceiling audit`")
    parser.add_argument("--seed", type=int, default=0, help="of instances and presses (default %(default)s)")
    options = parser.parse_args(argv)
    return job.exit_code("audit", lambda: _job(options), options.debug)


def _job(options: argparse.Namespace) -> int:
    plan = stage.plan(
        cluster.shared_path("store", Path(options.store)),
        job.everywhere("model", options.model),
        names(options.presses),
        budgets=budgets_of(options.ratios, options.slots, options.held),
        arms=None if options.arms is None else words(options.arms),
        tasks=names(options.tasks),
        instances=options.instances,
        tokens=options.tokens,
        questions=options.questions,
        text=job.everywhere("text", options.text),
        backend=options.backend,
        dtype=options.dtype,
        device=options.device,
        engine=options.engine,
        ceilings=options.ceilings,
        seed=options.seed,
    )
    say_refused(plan)
    return job.fill(
        "audit", stage, plan, options, describe, _task, (plan,), {"records": 0},
        lambda done: f"{sum(each.records for each in done):,} records", _place,
    )  # fmt: skip


def _task(plan: stage.Plan, units: Sequence[stage.Unit]) -> Iterator[stage.Done]:
    torch.set_num_threads(1)  # Ray owns the cores
    yield from stage.run_units(plan, units)


def _place(unit: stage.Unit) -> dict[str, Any]:
    return {"task": unit.task, "instance": unit.instance}


if __name__ == "__main__":
    sys.exit(main())
