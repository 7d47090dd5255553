"""``ceiling score``: deployed rules, and a user's own, against top-mass at every row of a dump."""

from collections.abc import Sequence
from enum import StrEnum
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
    from ceiling.stages.score import Plan


class Reading(StrEnum):
    """When a rule chooses."""

    PER_QUERY = "per-query"
    CACHE = "cache"
    BOTH = "both"


def score(
    dump: DumpOption,
    store: StoreOption = Path("store"),
    selector: Annotated[
        list[str] | None,
        typer.Option(
            help="A built-in (snapkv), one with parameters (snapkv:kernel=5,pooling=avg), balancing, or "
            "module:function, a rule of your own; may be given several times [default: all built-in ones]."
        ),
    ] = None,
    reading: Annotated[
        Reading, typer.Option(help="Chosen anew for each query, or before it comes; where a rule has it.")
    ] = Reading.BOTH,
    budgets: BudgetsOption = "4,8,16,32",
    native: Annotated[
        str | None,
        typer.Option(
            help="Further budgets, of top-mass and balancing alone, or none "
            "[default: 64,128,256 where rows are longer]."
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            help="Spread the keys of top-mass over heads: pyramid, mass-greedy, map (comma-separated), or "
            "none [default: all; none with --selector]."
        ),
    ] = None,
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Score kept sets of deployed rules on every row: forced error, kept mass, overlap with top-mass.

    Into table `scores`, one shard per document and layer; shards that exist are done. Rules that recompute
    attention need a dump that was captured with `--queries`.

    In reading `per-query` a rule chooses with sight of the query; in reading `cache` the tokens before it
    have been prefilled, the rule evicts, one set for all query heads of a KV head, and only then the query
    comes, its own key held. The paper names both and defines neither: this is our reading of it.

    A rule of your own is a function of what it may see and a number of keys, that returns as many positions;
    it is found by name, in the current folder or wherever Python finds its module. Another source of it is
    another configuration of the store. `ceiling selectors` lists the built-in ones.

    `sight` shows masses, keys, values, queries, candidates, position, attention(first, last) and received().
    Two attributes are optional: `rule.reading` is "per-query" (the default), "cache" or "both", and
    `rule.needs_queries` True where it looks at queries, attention or received, in `cache` also at masses.
    """
    from ceiling.stages import score as stage

    plan = stage.plan(
        dump,
        store,
        selector or None,
        reading=one_reading(reading),
        budgets=whole_numbers("budgets", budgets),
        native=numbers_or_none("native", native),
        allocations=names_or_none(allocation),
        verify=verify,
    )
    say_left_out(plan)
    if dry_run:
        describe(plan)
    else:
        run(plan)


def one_reading(text: str) -> str | None:
    """The one reading that an option names; None for both."""
    return None if text == Reading.BOTH else str(text)


def numbers_or_none(field: str, text: str | None) -> list[int] | None:
    """Whole numbers, comma-separated; none at all for ``none``; None where nothing is said."""
    if text is None:
        return None
    return [] if text.strip() == "none" else whole_numbers(field, text)


def names_or_none(text: str | None) -> list[str] | None:
    """Names, comma-separated; none at all for ``none``; None where nothing is said."""
    if text is None:
        return None
    return [] if text.strip() == "none" else [part.strip() for part in text.split(",")]


def say_left_out(plan: "Plan") -> None:
    """Name, on standard error, the built-in selectors that the dump does not allow."""
    if plan.left_out:
        typer.echo(
            f"left out, as dump {plan.dump} has no query vectors (`ceiling capture --queries` keeps them): "
            f"{', '.join(plan.left_out)}",
            err=True,
        )


def run(plan: "Plan") -> None:
    """Do what is missing, with progress; says so where nothing is."""
    from ceiling.stages import score as stage

    kept = len(plan.units) - len(plan.todo)
    units = stage.run(plan)
    if plan.todo:
        announce(plan.store, stage.TABLE, plan.id, plan.config)
    if not plan.todo:
        typer.echo(f"nothing to do: all {kept} shards exist in {plan.store}")
        return
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} shards exist and are kept", err=True)
    if (seconds := stage.warm_up()) > 1:
        typer.echo(f"compiled the kernels in {seconds:.0f} s; later runs load them", err=True)
    start, sets = process_time(), 0
    with progress("score", len(plan.todo)) as advance:
        for done in units:
            sets += done.sets
            advance()
    typer.echo(
        f"{len(plan.todo)} shards, {sets:,} kept sets in {process_time() - start:.1f} CPU s -> {plan.store} "
        f"(configuration {plan.config})"
    )


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    panel = plan.panel
    rules = "; ".join(f"{choice.name} ({', '.join(choice.readings)})" for choice in panel.choices)
    typer.echo(f"rules    {rules}")
    typer.echo(f"budgets  {listed(panel.budgets)}; native: {listed(panel.native)}")
    typer.echo(f"spread   uniform{''.join(f', {name}' for name in panel.allocations)}")
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} shards to do (document x layer)")
    typer.echo(f"work     {plan.rows} rows each, {plan.sets} kept sets a row, {plan.scores:,} in all")
    typer.echo(f"bytes    about {plan.bytes / 1e6:,.1f} MB")
    typer.echo(f"time     about {lasting(plan.seconds)} on one core")


def listed(numbers: Sequence[int]) -> str:
    """Numbers, comma-separated, or ``none``."""
    return ", ".join(map(str, numbers)) or "none"
