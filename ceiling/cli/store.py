"""``ceiling store``: the health of a store, a compact copy, the schema."""

import shlex
from enum import StrEnum
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ceiling.cli.options import ConfigOption, StoreOption
from ceiling.problem import InputError

if TYPE_CHECKING:
    import polars as pl

    from ceiling.dump import Dump
    from ceiling.store import Health, Wanted

app = typer.Typer(no_args_is_help=True, help="Check a store, merge its shards, print its schema.")


class Format(StrEnum):
    """How a report is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


Whose = tuple[str | None, str | None]
"""A dump's id and a configuration's."""

FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.command()
def check(
    store: StoreOption = Path("store"),
    dump: Annotated[
        list[Path] | None,
        typer.Option("--dump", help="A dump whose units must all be there; may be given several times."),
    ] = None,
    config: ConfigOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Find damaged, foreign, repeated and missing shards, and say what fills the holes.

    Reads every file. Prints a line a problem, then the commands that mend what enumerating again mends.
    Without `--dump`, holes are documents that lack what others of the store have. Exit code 1 where there
    are problems.
    """
    from ceiling.dump import open_dump
    from ceiling.store import check_store

    opened = [open_dump(path) for path in dump or ()]
    health = check_store(store, config, [_wanted(each) for each in opened])
    commands = _commands(health, store, {each.id: each.path for each in opened})
    if format is not Format.TABLE:
        import polars as pl

        rows = [
            (p.kind, p.where, p.what, p.dump, p.config, commands.get((p.dump, p.config)) if p.rerun else None)
            for p in health.problems
        ]
        columns = ("kind", "where", "problem", "dump", "config", "command")
        _print(pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String()), orient="row"), format)
    else:
        typer.echo(_summary(health), err=bool(health.problems))
        for p in health.problems:
            typer.echo(f"{p.kind}: {p.where}: {p.what}")
        for command in dict.fromkeys(commands.values()):
            typer.echo(command)
    if health.problems:
        raise typer.Exit(1)


@app.command()
def compact(
    out: Annotated[Path, typer.Option("--out", help="Folder of the new store; must not exist.")],
    store: StoreOption = Path("store"),
) -> None:
    """Merge the shards of a store into a new one of few large files that answers every query alike.

    The new store is for reading: `ceiling enumerate` refuses to add to it. Keep the old one to enumerate
    into, and compact again. Damaged or repeated shards are refused by name.
    """
    from ceiling.store import compact_store

    done = compact_store(store, out)
    typer.echo(
        f"{done.shards} shards, {done.bytes_before / 1e6:,.1f} MB -> "
        f"{done.parts} parts, {done.bytes / 1e6:,.1f} MB, {done.rows:,} rows in {out}"
    )


@app.command()
def schema(
    table: Annotated[str | None, typer.Option("--table", help="Only this table.")] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Print every column of the store's tables: type, unit, meaning."""
    import polars as pl

    from ceiling.store import COLUMNS

    if table is not None and table not in COLUMNS:
        raise InputError(f"table: {table!r} is none of {', '.join(COLUMNS)}")
    rows = [
        (name, column, str(c.type), c.unit, c.meaning)
        for name, table_columns in COLUMNS.items()
        for column, c in table_columns.items()
        if table in (None, name)
    ]
    if format is Format.TABLE:
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            typer.echo("  ".join([*(text.ljust(w) for text, w in zip(row, widths, strict=False)), row[4]]))
    else:
        columns = ["table", "column", "type", "unit", "meaning"]
        _print(pl.DataFrame(rows, schema=columns, orient="row"), format)


def _wanted(dump: "Dump") -> "Wanted":
    from ceiling.store import Wanted

    rows = [dump.heads * len(positions) for positions in dump.manifest["positions"]]
    return Wanted(dump.id, {(d, layer): n for d, n in enumerate(rows) for layer in dump.layers})


def _summary(health: "Health") -> str:
    """What was looked at, in a line."""
    from ceiling.store import COLUMNS

    count = len(health.problems)
    found = f"{count} problem{'s' * (count > 1)}" if count else "clean"
    if count and health.compacted:
        found += " in a compacted store: mend the store it was made from, and compact again"
    rows = (
        ", ".join(f"{health.rows[table]:,} {table}" for table in COLUMNS if health.rows[table]) or "no rows"
    )
    old = f", {health.unsealed} of them without a digest: only decoded" if health.unsealed else ""
    return f"{found}: {health.files} parquet files{old}; {rows}"


def _commands(health: "Health", store: Path, dumps: dict[str, Path]) -> dict[Whose, str]:
    """What mends each dump and configuration, as a line for a shell."""
    again = [p for p in health.problems if p.rerun and p.dump]
    lines: dict[Whose, str] = {}
    for dump in dict.fromkeys(p.dump for p in again):
        configs = dict.fromkeys(p.config for p in again if p.dump == dump and p.config)
        known: list[str | None] = [config for of, config in health.records if of == dump]
        chosen = [*configs] or known[:1] or [None]  # any configuration's run mends the small tables
        for config in chosen:
            mine = [p for p in again if p.dump == dump and p.config in (config, None)]
            gone = list(dict.fromkeys(str(store / p.where) for p in mine if p.remove))
            remove = f"{shlex.join(['rm', '-f', '--', *gone])} && " if gone else ""
            folder = str(dumps.get(dump or "", f"FOLDER-OF-DUMP-{dump}"))
            try:
                verb, *options = _command(health, config, store)
                command = ["ceiling", verb, "--dump", folder, "--store", str(store), *options]
                lines[dump, config] = remove + shlex.join(command)
            except LookupError as error:
                lines[dump, config] = f"# configuration {config}: {error.args[0]}"
        lines.setdefault((dump, None), lines[dump, chosen[0]])
    return lines


def _command(health: "Health", config: str | None, store: Path) -> list[str]:
    """The verb and options that give a configuration; LookupError says why there are none."""
    from ceiling.objective import default_extra
    from ceiling.stages.enumerate import configuration
    from ceiling.store import config_id

    if config is None:
        return ["enumerate"]
    record = next((record for (_, each), record in health.records.items() if each == config), None)
    if record is None:
        raise LookupError("its record is lost, so nothing says which options made it")
    if "mass_floors" in record:
        return ["certify", *_certify_options(record, store)]
    if "bits" in record:
        return ["zero-error", *_zero_error_options(record, config)]
    if "native" in record:  # losses have selectors too
        return ["score", *_score_options(record)]
    if "extras" not in record:
        raise LookupError("run the command that made it again")
    extras = {s: record["extras"][str(s)] for s in sorted(map(int, record["extras"]))}
    if config_id(configuration(extras)) != config:
        raise LookupError(f"made by another version of this program, engine {record.get('engine')}")
    options = ["enumerate", "--budgets", ",".join(map(str, extras))]
    if extras == {s: default_extra(s) for s in extras}:
        return options
    if len(set(extras.values())) == 1:
        return [*options, "--extra", str(next(iter(extras.values())))]
    cap = max(comb(s + extra, s) for s, extra in extras.items())
    if extras == {s: default_extra(s, cap) for s in extras}:
        return [*options, "--cap", str(cap)]
    raise LookupError("no one --extra or --cap gives its pools; `ceiling sweep` gives some such")


def _certify_options(record: dict[str, Any], store: Path) -> list[str]:
    """Options of ``ceiling certify`` that give a configuration, its manifest looked for beside the store."""
    from ceiling.certify.manifest import find_manifest

    options = {name: str(record[name]) for name in ("nodes", "seconds", "gap", "seed")}
    options["mass-floor"] = ",".join(str(floor) if floor else "none" for floor in record["mass_floors"])
    if record["manifest"] is None:
        options["budgets"] = ",".join(map(str, record["budgets"]))
    else:
        found = find_manifest(store, record["manifest"])
        options["manifest"] = str(found or f"MANIFEST-OF-DIGEST-{record['manifest']}")
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _zero_error_options(record: dict[str, Any], config: str) -> list[str]:
    """Options of ``ceiling zero-error`` that give a configuration, or LookupError."""
    from ceiling.stages.zero_error import Question
    from ceiling.store import config_id

    names = ("budgets", "bits", "rows", "seed", "seconds", "work")
    asked = {name: record[name] for name in names}
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in asked.items()}
    question = Question(**values)
    if config_id(question.configuration) != config:
        raise LookupError(
            f"made by another version of this program, engine {record['engine']}, or of CP-SAT, "
            f"{record['ortools']}"
        )
    texts = {n: ",".join(map(str, v)) if isinstance(v, list) else str(v) for n, v in asked.items()}
    return [word for n, text in texts.items() if asked[n] is not None for word in (f"--{n}", text)]


def _score_options(record: dict[str, Any]) -> list[str]:
    """Options of ``ceiling score`` that give a configuration, or LookupError."""
    from ceiling.stages.panel import ENGINE

    if record["engine"] != ENGINE:
        raise LookupError(f"made by another version of this program, engine {record['engine']}")
    chosen = record["selectors"]
    readings = {reading for each in chosen for reading in each["readings"]}
    options = [word for each in chosen for word in ("--selector", each["name"])]
    options += ["--reading", *readings] if len(readings) == 1 else []
    for name, values in (("budgets", "budgets"), ("native", "native"), ("allocation", "allocations")):
        options += [f"--{name}", ",".join(map(str, record[values])) or "none"]
    return options


def _print(frame: "pl.DataFrame", format: Format) -> None:
    typer.echo(frame.write_csv() if format is Format.CSV else f"{frame.write_json()}\n", nl=False)
