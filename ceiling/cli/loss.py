"""``ceiling loss``: what kept sets cost on the text that follows, in the model's own forward."""

from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.certify import announce, lasting
from ceiling.cli.options import DryRunOption, DumpOption, StoreOption, VerifyOption, whole_numbers
from ceiling.cli.progress import progress

if TYPE_CHECKING:
    from ceiling.stages.loss import Plan


def loss(
    dump: DumpOption,
    store: StoreOption = Path("store"),
    selector: Annotated[
        list[str] | None,
        typer.Option(
            help="A built-in (snapkv), one with parameters (snapkv:kernel=5), or module:function, a rule of "
            "your own; may be given several times [default: top-mass, snapkv, h2o, quest, streaming-llm]."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Where the dump's model is [default: the one it names].")
    ] = None,
    budgets: Annotated[str, typer.Option(help="Keys kept: whole numbers, comma-separated.")] = "8",
    documents: Annotated[
        int | None, typer.Option(help="The first so many of the dump [default: all].")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Of a document [default: 1024, or all there are].")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="Of them before the first prediction [default: half].")
    ] = None,
    draws: Annotated[int, typer.Option(help="Random choices of as many cells as are flat.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the random choices.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16 [default: the dump's].")
    ] = None,
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Continue a dump's documents with restricted attention, and compare the loss with the model's own.

    Into table `losses`, one shard per document; shards that exist are done. The model reads the first
    half of a document; every row that predicts a token of the rest attends, in every layer and head, to `s`
    kept keys alone, weights renormalised. Kept are: the largest masses; these improved by balancing swaps
    in all cells (layer, head), in flat cells alone, in as many random cells; and what deployed rules choose
    with sight of the query, by themselves and with balancing in flat cells.

    A cell is flat where the median dropped mass of 8 keys is above 0.25 over the sampled rows of the dump's
    other documents. Before anything is compared, the same code with nothing restricted must give the
    model's own logits back.
    """
    from ceiling.stages import loss as stage

    plan = stage.plan(
        dump,
        store,
        selector or None,
        model=model,
        budgets=whole_numbers("budgets", budgets),
        documents=documents,
        tokens=tokens,
        context=context,
        draws=draws,
        seed=seed,
        device=device,
        dtype=dtype,
        verify=verify,
    )
    if dry_run:
        describe(plan)
    else:
        run(plan)


def run(plan: "Plan") -> None:
    """Do what is missing, with progress; says so where nothing is."""
    from ceiling.stages import loss as stage

    kept = len(plan.units) - len(plan.todo)
    units = stage.run(plan)
    if not plan.todo:
        typer.echo(f"nothing to do: all {kept} shards exist in {plan.store}")
        return
    announce(plan.store, stage.TABLE, plan.id, plan.config)
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} shards exist and are kept", err=True)
    start, records = process_time(), 0
    with progress("loss", len(plan.todo)) as advance:
        for done in units:
            records += done.arms
            advance()
    typer.echo(
        f"{len(plan.todo)} shards, {records} records in {process_time() - start:.0f} CPU s -> {plan.store} "
        f"(configuration {plan.config})"
    )


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    arms = plan.arms
    typer.echo(f"rules    {', '.join(choice.name for choice in plan.choices)}")
    typer.echo(f"budgets  {', '.join(map(str, plan.budgets))}")
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} documents to do")
    typer.echo(f"work     {len(arms)} arms each, {plan.context} tokens of context, "
               f"{plan.tokens - plan.context} predicted")  # fmt: skip
    typer.echo(f"bytes    about {plan.bytes / 1e3:,.0f} kB")
    typer.echo(f"time     about {lasting(plan.seconds)} on one core")
