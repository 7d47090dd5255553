"""``ceiling selectors``: the rules that `ceiling score` knows, and how to name one of your own."""

import typer


def selectors() -> None:
    """List the built-in selectors; --selector of `ceiling score` also takes a rule of your own."""
    from ceiling.selectors.registry import BALANCING, SELECTORS

    for selector in SELECTORS.values():
        needy = ", ".join(reading for reading in selector.rules if reading in selector.needs_queries)
        parameters = [f"{name}={value}" for name, value in selector.parameters.items()]
        least = f" (budgets from {selector.least} on)" if selector.least > 1 else ""
        typer.echo(f"{selector.name}{least}")
        typer.echo(f"  readings    {', '.join(selector.rules)}")
        typer.echo(f"  queries     {f'needed in {needy}' if needy else 'not needed'}")
        typer.echo(f"  parameters  {', '.join(parameters) or 'none'}")
        typer.echo(f"  source      {selector.source}")
    typer.echo(BALANCING)
    typer.echo("  readings    per-query")
    typer.echo("  queries     not needed")
    typer.echo("  parameters  none")
    typer.echo(
        "  source      no rule: top-mass improved by swaps in a pool, with sight of the values; Shi & Gu"
    )
    typer.echo("\nwindow=0, page=0: set by the budget")
    typer.echo("With other parameters: --selector snapkv:kernel=5,pooling=avg")
    typer.echo("A rule of your own: --selector module:function, see `ceiling score --help`")
    typer.echo("Query vectors, where needed: `ceiling capture --queries`")
