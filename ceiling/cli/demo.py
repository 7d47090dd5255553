"""``ceiling demo``: the main job on a built-in model, from weights to figures and words."""

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ceiling.cli import capture, enumerate, figures
from ceiling.cli.options import BudgetsOption, DryRunOption, whole_numbers


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write: dump, store and figures.")] = Path("demo"),
    documents: Annotated[int, typer.Option(help="Documents of python-docs.")] = 8,
    tokens: Annotated[int, typer.Option(help="Tokens a document.")] = 1024,
    rows: Annotated[int, typer.Option(help="Sampled query positions a document.")] = 6,
    budgets: BudgetsOption = "4,8,16,32",
    seed: Annotated[int, typer.Option(help="Seed of the sampled positions.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dry_run: DryRunOption = False,
) -> None:
    """Measure the selection ceiling of smollm2-135m: capture, enumerate, figures, and what was found.

    51,840 instances (8 documents x 30 layers x 9 heads x 6 rows x 4 budgets) take a minute or so on two
    cores, once half a minute more to fetch the model and compile. What an earlier run finished is not
    done again.
    """
    from ceiling.stages import capture as capture_stage
    from ceiling.stages import enumerate as enumerate_stage

    start = perf_counter()
    numbers = whole_numbers("budgets", budgets)
    plan = capture_stage.plan(
        out=out / "dump", documents=documents, tokens=tokens, rows=rows, seed=seed, device=device
    )
    if dry_run:
        capture.describe(plan)
        return
    typer.echo("1/3 capture the attention of smollm2-135m")
    capture.run(plan)
    typer.echo("2/3 enumerate kept sets")
    work = enumerate_stage.plan(out / "dump", out / "store", numbers)
    enumerate.run(work)
    typer.echo("3/3 draw the figures")
    figures.figures(str(out / "store"), out / "figures", config=work.config)
    for line in _found(out / "store", work.config):
        typer.echo(line)
    typer.echo(f"\nThe figures, each with its table, are in {out / 'figures'}; ask the store more with")
    where = f"--store {shlex.quote(str(out / 'store'))} --config {work.config}"
    typer.echo(f'  ceiling query {where} "SELECT s, median(closable) FROM instances GROUP BY s"')
    typer.echo(f"Done in {perf_counter() - start:.0f} s.")


def _found(store: Path, config: str) -> list[str]:
    """What was found, in words, beside the paper's ranges."""
    import polars as pl

    from ceiling.analysis import summary
    from ceiling.store import open_store

    reference = pl.read_csv(figures.scripts_folder() / "reference" / "forced_weights_text.csv")
    lines = summary(open_store(store, config).instances, reference)
    return ["\nWhat was found (in brackets, the paper's ten larger models at 4,096 tokens and more):"] + [
        f"- {line}" for line in lines
    ]
