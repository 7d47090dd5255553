"""``ceiling zero-error``: is there a kept set of error exactly zero, for the rounded rows of a dump?"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.certify import announce, lasting
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
    from ceiling.stages.zero_error import Plan


def zero_error(
    dump: DumpOption,
    store: StoreOption = Path("store"),
    budgets: BudgetsOption = "4,8,16,32",
    bits: Annotated[
        str, typer.Option("--bits", help="Bits of a rounded number: whole numbers, comma-separated.")
    ] = "8",
    rows: Annotated[
        int | None, typer.Option(help="Ask so many rows of each document and layer [default: all].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the choice of rows.")] = 0,
    work: Annotated[
        float, typer.Option(help="CP-SAT's limit for an instance, in its own deterministic seconds.")
    ] = 10.0,
    seconds: Annotated[
        float, typer.Option(help="Guard for an instance; what it stops may end otherwise in a rerun.")
    ] = 60.0,
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Ask of every row, rounded to whole numbers, whether a kept set of error exactly zero exists.

    The question is NP-complete. CP-SAT answers it, beside two other engines where their tables fit; two
    that disagree end the run. A yes carries a set that was checked in rational numbers, a no the engine
    that proved it. Keys whose rounded mass is zero are left out, else zeros are trivial; the answer is
    about the rounded row, and says of the captured one only how it was rounded. One shard per document
    and layer, into table `zero_errors`; shards that exist are done.
    """
    from ceiling.stages import zero_error as stage

    plan = stage.plan(
        dump,
        store,
        whole_numbers("budgets", budgets),
        whole_numbers("bits", bits),
        rows,
        seed,
        seconds,
        work,
        verify,
    )
    if dry_run:
        describe(plan)
        return
    if plan.todo:
        announce(plan.store, stage.TABLE, plan.id, plan.config)
    kept = len(plan.units) - len(plan.todo)
    units = stage.run(plan)
    if not plan.todo:
        typer.echo(f"nothing to do: all {kept} shards exist in {plan.store}")
        return
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} shards exist and are kept", err=True)
    start, statuses = process_time(), Counter[str]()
    with progress("zero-error", len(plan.todo)) as advance:
        for done in units:
            statuses.update(done.statuses)
            advance()
    typer.echo(
        f"{len(plan.todo)} shards, {counted(statuses)} in {process_time() - start:.1f} CPU s -> {plan.store}"
    )


def counted(statuses: Mapping[str, int]) -> str:
    """How many instances ended how, as words."""
    ends = ", ".join(f"{n:,} {status}" for status, n in sorted(statuses.items()))
    return f"{sum(statuses.values()):,} instances ({ends})"


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} shards to do (document x layer)")
    typer.echo(f"work     {plan.rows} rows each, {plan.instances:,} instances")
    typer.echo(f"bytes    about {plan.bytes / 1e6:,.1f} MB")
    typer.echo(f"time     about {lasting(plan.seconds)} on one core")
