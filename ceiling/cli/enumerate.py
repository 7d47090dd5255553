"""``ceiling enumerate``: exact minima over candidate pools, for every row of a dump."""

from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.certify import announce
from ceiling.cli.options import (
    BudgetsOption,
    DryRunOption,
    DumpOption,
    StoreOption,
    VerifyOption,
    whole_numbers,
)
from ceiling.cli.progress import progress

if TYPE_CHECKING:
    from ceiling.stages.enumerate import Plan


def enumerate_dump(
    dump: DumpOption,
    store: StoreOption = Path("store"),
    budgets: BudgetsOption = "4,8,16,32",
    extra: Annotated[
        int | None,
        typer.Option(help="Candidates beside the top-mass set [default: 24/12/6/4 at s=4/8/16/32]."),
    ] = None,
    cap: Annotated[
        int | None, typer.Option(help="Take as many candidates as keep an instance within so many subsets.")
    ] = None,
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Enumerate every row of a dump at every budget, into a store.

    Writes one shard per document and layer; shards that exist are done, so a rerun continues where the
    last one stopped. The best subset of the candidate pool bounds the best of all subsets from above:
    what it wins over top-mass is a lower bound of what any choice could win.
    """
    from ceiling.stages import enumerate as stage

    plan = stage.plan(dump, store, whole_numbers("budgets", budgets), extra, cap, verify)
    if dry_run:
        describe(plan)
    else:
        run(plan)


def run(plan: "Plan") -> None:
    """Do what is missing, with progress; says so where nothing is."""
    from ceiling.stages import enumerate as stage

    kept = len(plan.units) - len(plan.todo)
    if not plan.todo:
        stage.prepare(plan)  # the small tables may be gone
        typer.echo(f"nothing to do: all {kept} shards exist in {plan.store}")
        return
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} shards exist and are kept", err=True)
    units = stage.run(plan)
    announce(plan.store, stage.TABLE, plan.id, plan.config)
    if (seconds := stage.warm_up(plan.extras)) > 1:
        typer.echo(f"compiled the kernels in {seconds:.0f} s; later runs load them", err=True)
    start, subsets, excluded = process_time(), 0, 0
    with progress("enumerate", len(plan.todo)) as advance:
        for done in units:
            subsets, excluded = subsets + done.subsets, excluded + done.excluded
            advance()
    seconds = process_time() - start
    proved = f" evaluated, {excluded:,} excluded by proof," if excluded else ""
    typer.echo(
        f"{len(plan.todo)} shards, {len(plan.todo) * plan.rows * len(plan.extras):,} instances, "
        f"{subsets:,} subsets{proved} in {seconds:.1f} CPU s -> {plan.store}"
    )


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    pools = ", ".join(f"s={s}: top-mass + {extra}" for s, extra in plan.extras.items())
    typer.echo(f"pools    {pools}")
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} shards to do (document x layer)")
    typer.echo(f"work     {plan.subsets:,} subsets, at most")
    typer.echo(f"bytes    about {plan.bytes / 1e6:,.1f} MB")
    typer.echo(f"time     about {plan.seconds:,.1f} s on one core, and half a minute once for the compiler")
