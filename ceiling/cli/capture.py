"""``ceiling capture``: a model's attention on a text, into a dump."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.options import DryRunOption, whole_numbers
from ceiling.cli.progress import progress

if TYPE_CHECKING:
    from ceiling.stages.capture import Plan


def capture(
    model: Annotated[
        str,
        typer.Option(help="Built-in (see `ceiling models`), local folder or .gguf file, or Hugging Face id."),
    ] = "smollm2-135m",
    text: Annotated[
        str,
        typer.Option(
            help="File, folder, or built-in: python-docs, python-code; task:needle, task:multi-needle, "
            "task:variable-chain, task:qa or task:mixed, with :TEXT for another haystack than python-docs; "
            "wikitext-103 or hf:NAME[:CONFIG[:SPLIT[:COLUMN]]] of the Hugging Face hub."
        ),
    ] = "python-docs",
    tokens: Annotated[int, typer.Option(help="Tokens a document.")] = 1024,
    documents: Annotated[int, typer.Option(help="Documents; they never overlap.")] = 8,
    rows: Annotated[int, typer.Option(help="Sampled query positions a document.")] = 6,
    layers: Annotated[
        str | None, typer.Option(help="Layers to write, comma-separated [default: all].")
    ] = None,
    queries: Annotated[bool, typer.Option("--queries", help="Also write all query vectors.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write [default: dumps/MODEL-TEXT-TOKENS].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampled positions and of a task's facts.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, bfloat16 or float16 [default: float32 on cpu, bfloat16 on cuda]."),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Capture the attention of a model on a text, into a dump.

    Every sampled row is compared with the attention output the model really produced; one that disagrees
    stops the capture. A run that was stopped continues after its last finished document.
    """
    from ceiling.stages import capture as stage
    from ceiling.texts import short_name

    plan = stage.plan(
        model,
        text,
        out=out or Path("dumps") / f"{Path(model).name}-{short_name(text)}-{tokens}",
        tokens=tokens,
        documents=documents,
        rows=rows,
        layers=None if layers is None else whole_numbers("layers", layers),
        queries=queries,
        seed=seed,
        device=device,
        dtype=dtype,
    )
    if dry_run:
        describe(plan)
    else:
        run(plan)


def run(plan: "Plan") -> None:
    """Capture what was planned, with progress; says so where it is done already."""
    from ceiling.dump import open_dump
    from ceiling.stages import capture as stage

    if plan.complete:
        typer.echo(f"nothing to do: {plan.out} is this dump already ({plan.identity.id})")
        return
    with progress("capture", plan.units) as advance:
        stage.run(plan, advance)
    worst = max(layer["max"] for layer in open_dump(plan.out).manifest["fidelity"])
    documents, tokens = plan.tokens.shape
    typer.echo(
        f"{documents} documents of {tokens} tokens, {len(plan.layers)} layers, largest deviation from the "
        f"model's own output {worst:.1e} -> {plan.out} ({plan.identity.id})"
    )


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    documents, tokens = plan.tokens.shape
    typer.echo(f"model    {plan.folder.id}, {plan.dtype} on {plan.device}, licence {plan.folder.licence}")
    typer.echo(f"text     {plan.text.source}, {documents} documents of {tokens} tokens")
    typer.echo(f"dump     {plan.out} ({plan.identity.id}){', complete already' if plan.complete else ''}")
    typer.echo(f"units    {0 if plan.complete else plan.units} layers of documents to do")
    typer.echo(f"bytes    about {plan.bytes / 1e6:,.0f} MB")
    typer.echo(f"time     about {plan.seconds:,.0f} s and loading the model")
