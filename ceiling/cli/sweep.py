"""``ceiling sweep``: how much more does a wider pool close?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ceiling.cli import enumerate, figures
from ceiling.cli.options import (
    BudgetsOption,
    DryRunOption,
    DumpOption,
    StoreOption,
    VerifyOption,
    whole_numbers,
)
from ceiling.cli.query import as_text
from ceiling.problem import InputError, check_budget, check_budgets

if TYPE_CHECKING:
    import polars as pl

    from ceiling.stages.enumerate import Plan

NARROW = 4
"""Candidates (keys) beside the top-mass set of the narrowest pool: the paper's number at s = 32."""

REFERENCE = "forced_weights_widening.csv"
"""What the paper says about wider pools, in the folder of the figures' reference numbers."""

COUNTS = ("pool_size", "subsets", "evaluated", "excluded")
QUANTITIES = (
    *("width", "extra", "pool_size", "subsets", "closable", "change", "relative"),
    *("label_rate", "better", "seconds", "evaluated", "excluded"),
)

CAPTION = """**Widening sweep.** The same instances with ever wider candidate pools. `extra`: candidates
beside the top-mass set; `closable`: median of 1 − e_pool/e_top; `change`: of that median against the paper's
default pool (24/12/6/4 candidates at s = 4/8/16/32), `relative`: the same over the default's median;
`label_rate`: share of instances with κ̂ > 1.11; `better`: share on which the pool holds a better set than the
default's; `seconds` an instance, balancing and enumeration; `evaluated`, `excluded`: subsets computed, and
ruled out by proof. Only instances that all pools of a budget hold are compared; intervals are paired. In the
figure the default pool is the filled marker, and the band spans the paper's label rates."""


class Width(NamedTuple):
    """One width of the sweep: its name, how `ceiling enumerate` would be asked for it, and its pools."""

    name: str
    extra: int | None
    cap: int | None
    extras: dict[int, int]


def sweep(
    dump: DumpOption,
    store: StoreOption = Path("store"),
    budgets: BudgetsOption = "4,8,16,32",
    caps: Annotated[
        str, typer.Option(help="Widen until an instance has so many subsets, comma-separated.")
    ] = "200000,1000000,5000000",
    out: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("figures-out"),
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Enumerate a dump with ever wider pools; tabulate what a wider pool adds and what it costs.

    The widths: at most 4 candidates beside the top-mass set, the default of `ceiling enumerate`, then as
    many as each cap allows. Each is a configuration of the store and continues where it was stopped; a pool
    that two widths share is enumerated once. Writes sweep.png, .pdf, .csv and .md. Other commands on that
    store then need the --config of one width.
    """
    wanted = widths(whole_numbers("budgets", budgets), whole_numbers("caps", caps))
    plans = _plans(dump, store, wanted, verify)
    if not dry_run:
        _make(out)
    for name, plan in plans.items():
        typer.echo(f"{name}: " + ", ".join(f"s={s} + {extra}" for s, extra in plan.extras.items()))
        if dry_run:
            enumerate.describe(plan)
        else:
            enumerate.run(plan)
    if not dry_run:
        _report(list(plans.values()), wanted, out)


def widths(budgets: Sequence[int], caps: Sequence[int]) -> list[Width]:
    """The widths of a sweep: the default first, then from narrow to wide.

    The narrowest is nowhere wider than the default.

    Raises
    ------
    InputError
        For budgets or caps that are none.
    """
    from ceiling.objective import default_extra

    checked, caps = check_budgets(budgets), [check_budget(cap, field="caps") for cap in caps]
    default = {s: default_extra(s) for s in checked}
    narrow = {s: min(NARROW, extra) for s, extra in default.items()}
    found = [Width("default", None, None, default), Width(f"at most {NARROW}", NARROW, None, narrow)]
    for cap in sorted(set(caps)):
        found.append(Width(f"cap {cap:,}", None, cap, {s: default_extra(s, cap) for s in checked}))
    return found


def _plans(dump: Path, store: Path, wanted: Sequence[Width], verify: bool) -> dict[str, "Plan"]:
    """A plan for every width that adds a pool, for those budgets only."""
    from ceiling.stages import enumerate as stage

    plans: dict[str, Plan] = {}
    planned: set[tuple[int, int]] = set()
    for width in wanted:
        if budgets := [s for s, extra in width.extras.items() if (s, extra) not in planned]:
            plan = stage.plan(dump, store, budgets, width.extra, width.cap, verify and not plans)
            planned.update(plan.extras.items())
            plans[width.name] = plan
    return plans


def _make(out: Path) -> None:
    """Make the folder before hours of work, not after."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out: {out} is no folder that can be written to ({error.strerror})") from None


def _report(plans: Sequence["Plan"], wanted: Sequence[Width], out: Path) -> None:
    """Tabulate what the store holds of these plans, write it and print it."""
    import polars as pl

    from ceiling.analysis import counts, readable, sweep_table
    from ceiling.analysis.summary import LOWER_BOUND
    from ceiling.plots import sweep_lines, write

    names = _names(wanted)
    table = sweep_table(pl.concat([_instances(plan) for plan in plans]))
    table = table.join(names, on=["s", "extra"], maintain_order="left")
    paper = pl.read_csv(
        figures.scripts_folder() / "reference" / REFERENCE, schema_overrides={"paper": pl.String}
    )
    text = readable(table.with_columns(_grouped(table[name]) for name in COUNTS), QUANTITIES)
    caption = f"{CAPTION} {LOWER_BOUND}\n\n{counts(table.filter('default'))}"
    tables = {"Ours": text, "The paper's": paper}
    paths = write(out, "sweep", sweep_lines(table, paper), table, caption, tables)
    typer.echo(as_text(text.drop("model", "pool_size", "relative")), nl=False)
    typer.echo(_stated(paper))
    for path in paths:
        typer.echo(path)
    typer.echo(
        f"Other commands read one configuration at a time: --config {plans[0].config} is the default pool."
    )


def _instances(plan: "Plan") -> "pl.LazyFrame":
    """What the store holds of a plan, with the candidates beside the top-mass set."""
    import polars as pl

    from ceiling.dump import open_dump
    from ceiling.store import open_store

    mine = pl.col("dump") == open_dump(plan.dump).id
    extra = pl.col("s").replace_strict(plan.extras, return_dtype=pl.Int64)
    return open_store(plan.store, plan.config).instances.filter(mine).with_columns(extra=extra)


def _names(wanted: Sequence[Width]) -> "pl.DataFrame":
    """Which widths a pool belongs to: `s, extra, width`."""
    import polars as pl

    rows = [(s, extra, width.name) for width in wanted for s, extra in width.extras.items()]
    named = pl.DataFrame(rows, schema=["s", "extra", "width"], orient="row")
    return named.group_by("s", "extra").agg(pl.col("width").str.join(", "))


def _grouped(numbers: "pl.Series") -> "pl.Series":
    """Whole numbers as text, thousands apart."""
    import polars as pl

    return pl.Series(numbers.name, [None if n is None else f"{n:,.0f}" for n in numbers], dtype=pl.String)


def _stated(paper: "pl.DataFrame") -> str:
    """The paper's numbers in a sentence."""
    moved = paper.filter(quantity="median_moves_below").row(0, named=True)
    rates = " -> ".join(f"{100 * rate:.1f}" for rate in paper.filter(quantity="label_rate")["value"])
    return (
        f"The paper: at s = {moved['s']} the median moves by less than {moved['value']:.0%} "
        f"({moved['where']}); label rate {rates}% ({paper.filter(quantity='label_rate')['where'][0]})."
    )
