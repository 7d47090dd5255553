"""``ceiling certify``: proved intervals for the best of all kept sets, and the replay of their proofs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer

from ceiling.cli.options import (
    ConfigOption,
    DryRunOption,
    DumpOption,
    StoreOption,
    VerifyOption,
    whole_numbers,
)
from ceiling.cli.progress import progress
from ceiling.problem import InputError

if TYPE_CHECKING:
    from ceiling.certify.manifest import Manifest
    from ceiling.stages.certify import Done, Plan


CHECKING = ("dump", "store", "seed", "verify", "check", "sample", "all_", "config")
"""Options that mean something with ``--check``."""


def certify(
    context: typer.Context,
    dump: DumpOption,
    store: StoreOption = Path("store"),
    budgets: Annotated[
        str | None,
        typer.Option(help="Keys kept, comma-separated [default: 4,8,16,32, or those of the manifest]."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(help="Nodes of the search an instance; the limit that decides.")
    ] = 200_000,
    seconds: Annotated[
        float, typer.Option(help="Guard an instance; what it stops may end otherwise in a rerun.")
    ] = 60.0,
    gap: Annotated[float, typer.Option(help="Relative gap at which an interval counts as closed.")] = 1e-6,
    mass_floor: Annotated[
        str,
        typer.Option(help="Share of the top-mass set's mass that a set must keep; comma-separated, or none."),
    ] = "none",
    manifest: Annotated[
        Path | None, typer.Option(help="Certify the instances of this file only; drawn if it is not there.")
    ] = None,
    instances: Annotated[
        int | None, typer.Option(help="Draw so many, evenly over budgets and dropped mass.")
    ] = None,
    least_keys: Annotated[int, typer.Option(help="Draw only rows of so many keys.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the draw, the search, and the sample of --check.")] = 0,
    verify: VerifyOption = False,
    dry_run: DryRunOption = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check what is stored instead, and replay proofs in exact arithmetic."),
    ] = False,
    sample: Annotated[int | None, typer.Option(help="With --check: so many [default: 40].")] = None,
    all_: Annotated[bool, typer.Option("--all", help="With --check: every proof.")] = False,
    config: ConfigOption = None,
) -> None:
    """Prove an interval for the smallest forced error over all kept sets, for every row or a drawn few.

    `ceiling enumerate` bounds that error from above; this bounds it from both sides, so that the closable
    share becomes an interval. One shard per document and layer, into table `certificates`; shards that
    exist are done. With `--instances`, the instances are drawn, and written down, before the first is
    solved.

    Mind what is asked. On diffuse rows the best of *all* sets consists of tail keys of negligible mass,
    which no cache would keep: legal by the definition, and of no use to one. So ask also with a floor:
    `--mass-floor none,0.9,0.5` asks three times, of all sets and of those that keep at least 0.9 and 0.5
    of the mass of the top-mass set.

    With `--check`, all certificates in the store are compared with the dump, and proofs are replayed by a
    program that shares nothing with the search (directions that long proofs leave out are found again by
    the search, and checked), a sample of them unless `--all`. Exit code 1 where
    anything is wrong or missing.
    """
    if check:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        given = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
        refuse([name for name in given if name not in CHECKING])
        replay(dump, store, sample, all_, seed, config, verify)
        return
    if sample is not None or all_ or config is not None:
        raise InputError("sample, all, config: only with --check")
    from ceiling.stages import certify as stage

    limits = stage.Limits(nodes, seconds, gap, floors(mass_floor), seed)
    numbers = whole_numbers("budgets", budgets) if budgets is not None else None
    drawn, new = chosen(dump, store, numbers, manifest, instances, least_keys, seed)
    plan = stage.plan(
        dump, store, numbers if drawn is None else None, limits=limits, manifest=drawn, verify=verify
    )
    if dry_run:
        describe(plan)
        return
    write_down(drawn, new)
    run(plan)


def refuse(names: Sequence[str]) -> None:
    """`InputError` where options were given that ``--check`` has no use for."""
    if names:
        options = ", ".join(name.replace("_", "-") for name in names)
        raise InputError(f"{options}: no use with --check, which takes what is stored; leave out")


def floors(text: str) -> tuple[float, ...]:
    """Comma-separated mass floors, ``none`` as 0, or `InputError`."""
    found = []
    for part in (part.strip() for part in text.split(",")):
        try:
            found.append(0.0 if part == "none" else float(part))
        except ValueError:
            raise InputError(f"mass-floor: {part!r} is neither a number nor none") from None
    return tuple(found)


def chosen(
    dump: Path,
    store: Path,
    budgets: Sequence[int] | None,
    manifest: Path | None,
    instances: int | None,
    least_keys: int,
    seed: int,
) -> "tuple[Manifest | None, Path | None]":
    """The manifest to use: none, the one that is there, or a newly drawn one and where it is to be written.

    Raises
    ------
    InputError
        When there is none and none is to be drawn, or the one that is there is not what would be drawn.
    """
    from ceiling.certify.manifest import draw_manifest, read_manifest
    from ceiling.dump import open_dump
    from ceiling.stages.certify import BUDGETS

    if instances is None and manifest is None:
        if least_keys != 1:
            raise InputError("least-keys: of a draw; only with --instances")
        return None, None
    opened = open_dump(dump)
    if instances is None:
        if manifest is None or not manifest.exists():
            raise InputError(f"manifest: no file {manifest}; --instances N draws one")
        if budgets is not None or least_keys != 1:
            raise InputError(f"budgets, least-keys: {manifest} has its instances; leave them out")
        return read_manifest(manifest, [opened]), None
    place = store.absolute()
    path = manifest or place.with_name(f"{place.name}-certify-{instances}-seed-{seed}-{opened.id}.csv")
    drawn = draw_manifest([opened], budgets or BUDGETS, instances, seed=seed, least_keys=least_keys)
    if path.exists():
        if read_manifest(path, [opened]).digest != drawn.digest:
            raise InputError(
                f"manifest: {path} holds other instances than these options draw; "
                "leave --instances out to certify those, or name a new file"
            )
        typer.echo(f"manifest {path}: {instances} instances, drawn before", err=True)
        return drawn, None
    return drawn, path


def write_down(drawn: "Manifest | None", new: Path | None) -> None:
    """Write a newly drawn manifest: before the first solve, and after all that may be refused."""
    if drawn is not None and new is not None:
        drawn.write(new)
        typer.echo(f"manifest {new}: {len(drawn.instances)} instances drawn", err=True)


def run(plan: "Plan") -> None:
    """Do what is missing, with progress; says so where nothing is."""
    from ceiling.stages import certify as stage

    kept = len(plan.units) - len(plan.todo)
    if not plan.todo:
        stage.prepare(plan)  # the small tables may be gone
        typer.echo(f"nothing to do: all {kept} shards exist in {plan.store}")
        return
    if kept:
        typer.echo(f"{kept} of {len(plan.units)} shards exist and are kept", err=True)
    announce(plan.store, "certificates", plan.id, plan.config)
    units = stage.run(plan)
    if (seconds := stage.warm_up()) > 1:
        typer.echo(f"compiled the kernels in {seconds:.0f} s; later runs load them", err=True)
    start, all_done = process_time(), list["Done"]()
    with progress("certify", len(plan.todo)) as advance:
        for done in units:
            all_done.append(done)
            advance()
    typer.echo(
        f"{len(plan.todo)} shards, {counted(all_done, len(plan.limits.floors))} "
        f"in {process_time() - start:.1f} CPU s -> {plan.store} (configuration {plan.config})"
    )


def announce(store: Path, table: str, dump: str, config: str) -> None:
    """Say so where a run adds a configuration: queries then ask which one is meant.

    Of scores, where records decide it, the run's own lies in the store already.
    """
    from ceiling.store.reader import can_mix, configurations

    both = sorted({*configurations(store, table, dump), config})
    if not can_mix(store, table, dump, both):
        typer.echo(
            f"store now holds {len(both)} configurations of {table}: {', '.join(both)}; "
            "name one with --config to query",
            err=True,
        )


def counted(all_done: "Iterable[Done]", floors: int) -> str:
    """What became of the intervals of all units, as words."""
    numbers = [(done.intervals, done.proved, done.trivial, done.nodes) for done in all_done]
    intervals, proved, trivial, nodes = map(sum, zip((0, 0, 0, 0), *numbers, strict=True))
    of_small = f", {trivial:,} trivial" if trivial else ""
    return f"{product(intervals, floors)}, {proved:,} proved optimal{of_small}, {nodes:,} nodes"


def product(intervals: int, floors: int) -> str:
    """How many intervals, and why, as words: an instance is a row at a budget."""
    plural = "s" if floors > 1 else ""
    return f"{intervals // floors:,} instances x {floors} mass floor{plural} = {intervals:,} intervals"


def lasting(seconds: float) -> str:
    """A length of time in a unit that suits it."""
    for unit, length in (("s", 1), ("min", 60)):
        if seconds < 120 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 3600:,.0f} h"


def describe(plan: "Plan") -> None:
    """Print what a run would do."""
    floors = ", ".join(f"{floor:g}" if floor else "none" for floor in plan.limits.floors)
    typer.echo(f"budgets  {', '.join(map(str, plan.budgets))}; mass floors: {floors}")
    typer.echo(f"units    {len(plan.todo)} of {len(plan.units)} shards to do (document x layer)")
    typer.echo(f"work     {product(plan.intervals, len(plan.limits.floors))} to prove")
    typer.echo(f"bytes    about {plan.bytes / 1e6:,.1f} MB")
    guard = f"{plan.limits.seconds:g} s an interval"
    typer.echo(f"time     at most {lasting(plan.seconds)} on one core ({guard}); most end far earlier")


def replay(
    dump: Path,
    store: Path,
    sample: int | None,
    everything: bool,
    seed: int,
    config: str | None,
    verify: bool,
) -> None:
    """Check what is stored; names what is rejected or missing, and then ends with exit code 1."""
    from ceiling.stages import replay as stage

    if sample is not None and everything:
        raise InputError(f"sample: {sample}, and all: give one")
    wanted = None if everything else stage.SAMPLE if sample is None else sample
    chosen = stage.choose(dump, store, sample=wanted, seed=seed, config=config, verify=verify)
    start, rejected = process_time(), 0
    if chosen.unlisted:
        digest = chosen.record["manifest"]
        typer.echo(f"no file beside {store} is manifest {digest}: nothing tells what is missing", err=True)
    with progress("check", len(chosen.wrong) + chosen.certificates) as advance:
        for done in stage.replay(chosen):
            if done.wrong is not None:
                rejected += 1
                typer.echo(f"rejected: {done.where}: {done.wrong}")
            advance()
    typer.echo(
        f"{chosen.certificates:,} certificates checked, {len(chosen.proofs):,} of {chosen.proved:,} proofs "
        f"replayed in {process_time() - start:.1f} CPU s: "
        f"{f'{rejected:,} rejected' if rejected else 'all accepted'}"
    )
    if rejected:
        raise typer.Exit(1)
