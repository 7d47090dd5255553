"""``ceiling audit``: published eviction methods at matched budgets, and the bytes they hold."""

from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.certify import announce, lasting
from ceiling.cli.options import DryRunOption, StoreOption
from ceiling.cli.progress import progress
from ceiling.problem import InputError

if TYPE_CHECKING:
    from ceiling.stages.audit import Plan


def audit(
    store: StoreOption = Path("store"),
    model: Annotated[str, typer.Option(help="Built-in, folder, .gguf file or hub id.")] = "smollm2-135m",
    presses: Annotated[
        list[str] | None,
        typer.Option(
            help="Presses of kvpress, snapkv or snapkv:window=16, or module:Class of yours; comma-separated "
            "or repeated [default: the paper's nine, AdaKV enforced, SnapKV at a window of 16]."
        ),
    ] = None,
    ratios: Annotated[
        str, typer.Option(help="Shares evicted, comma-separated, or none.")
    ] = "0.25,0.5,0.75,0.9",
    slots: Annotated[str | None, typer.Option(help="Further budgets: keys kept a KV head.")] = None,
    held: Annotated[
        str | None, typer.Option(help="Further budgets: shares of bytes held when the answer begins.")
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(help="What scoring sees: agnostic, aware-kvpress, aware-scores [default: all]."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--tasks",
            help="Tasks, niah_multikey_1 or niah_multikey_1:keys=2; comma-separated or repeated "
            "[default: those chosen for the model by its full cache alone].",
        ),
    ] = None,
    instances: Annotated[int, typer.Option(help="Instances a task.")] = 20,
    tokens: Annotated[int, typer.Option(help="Of context, question and the answer's room together.")] = 1000,
    questions: Annotated[int, typer.Option(help="Questions asked of each compressed context.")] = 1,
    text: Annotated[str, typer.Option(help="What facts are hidden in.")] = "python-docs",
    backend: Annotated[str, typer.Option(help="Attention: eager, or sdpa (without H2O).")] = "eager",
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    engine: Annotated[
        str, typer.Option(help="shared: one prefill for all presses; native: each by kvpress itself.")
    ] = "shared",
    ceilings: Annotated[
        str | None,
        typer.Option(
            help="Judge kept sets on attention rows: against top-mass (top), balancing too (balance: two "
            "fifths longer), lower bounds of up to 32 kept keys too (certify: 0.1 to 1 s a head, row and "
            "count, ten minutes an instance at 1,000 tokens and one such budget), or none "
            "[default: top where there are such rows: eager, shared]."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of instances and of random presses.")] = 0,
    dry_run: DryRunOption = False,
) -> None:
    """Run published presses, as kvpress implements them, and record answers, scores and bytes held.

    Into table `audit`, one shard per task, instance and arm; shards that exist are done. One prefill takes
    the kept sets of all presses that only score, at every budget and arm; others have prefills of their own.

    In arm `agnostic` the context is compressed before there is a question. In `aware-kvpress` context and
    question are compressed together, kvpress's convention: the question eats budget and may be evicted. In
    `aware-scores` scores see the question, and the context is evicted at the agnostic arm's exact budget.
    The anchor, the full cache, is always run. Presses that cannot run are refused by name, with the reason.
    """
    from ceiling.stages import audit as stage

    plan = stage.plan(
        store,
        model,
        names(presses),
        budgets=budgets_of(ratios, slots, held),
        arms=None if arms is None else words(arms),
        tasks=names(task),
        instances=instances,
        tokens=tokens,
        questions=questions,
        text=text,
        backend=backend,
        dtype=dtype,
        device=device,
        engine=engine,
        ceilings=ceilings,
        seed=seed,
    )
    say_refused(plan)
    if dry_run:
        describe(plan)
    else:
        run(plan)


def budgets_of(ratios: str, slots: str | None, held: str | None) -> list[str]:
    """Budgets in words, from the three options; InputError where there is none."""
    given = (("ratio", None if ratios.strip() == "none" else ratios), ("slots", slots), ("held", held))
    found = [f"{kind}={value}" for kind, text in given for value in words(text or "")]
    if not found:
        raise InputError("ratios: none, and no slots or held either; name a budget")
    return found


def words(text: str) -> list[str]:
    """Comma-separated words."""
    return [part.strip() for part in text.split(",") if part.strip()]


def names(given: Iterable[str] | None) -> list[str] | None:
    """Names with parameters, comma-separated or repeated: ``snapkv:window=16,kernel=7,tova`` is two.

    None where none is given.
    """
    found: list[str] = []
    for word in words(",".join(given or ())):
        if found and ":" in found[-1] and "=" in word and ":" not in word:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found or None


def say_refused(plan: "Plan") -> None:
    """Name, on standard error, the presses of the default roster that cannot run here, and why; also what to
    know about the others."""
    for word, lines in (("refused", plan.refused), ("note", plan.notes)):
        for line in lines:
            typer.echo(f"{word}: {line}", err=True)


def run(plan: "Plan") -> None:
    """Do what is missing, with progress; says so where nothing is."""
    from ceiling.stages import audit as stage

    kept = len(plan.units) - len(plan.todo)
    units = stage.run(plan)
    if not plan.todo:
        typer.echo(f"nothing to do: all {kept} instances exist in {plan.store}")
        return
    announce(plan.store, stage.TABLE, plan.id, plan.config)
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} instances exist and are kept", err=True)
    start, records = process_time(), 0
    with progress("audit", len(plan.todo)) as advance:
        for done in units:
            records += done.records
            advance()
    typer.echo(
        f"{len(plan.todo)} instances, {records:,} records in {process_time() - start:.0f} CPU s -> "
        f"{plan.store} (configuration {plan.config})"
    )


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    typer.echo(f"model    {plan.folder.label()}, {plan.backend}, {plan.dtype} on {plan.device}")
    typer.echo(f"presses  full, {', '.join(plan.presses)}")
    typer.echo(f"budgets  {', '.join(plan.budgets)}")
    typer.echo(f"arms     {', '.join(plan.arms)}")
    typer.echo(f"tasks    {', '.join(plan.tasks)}")
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} instances to do, {plan.tokens} tokens each")
    typer.echo(f"records  {plan.records:,}, about {plan.bytes / 1e6:,.1f} MB")
    typer.echo(f"time     about {lasting(plan.seconds)} on one core")
