"""What the Ray jobs share: exit codes, units spread over a cluster, progress that a log can hold."""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ceiling import cluster, models, texts
from ceiling.cli.certify import announce
from ceiling.cli.progress import progress
from ceiling.problem import InputError

SAY_SECONDS = 10.0
"""Between lines of progress where standard error is no terminal, as in a submitted job."""

NAMED = 20
"""Reasons printed at the end; all stand in the event log."""


def parser(doc: str | None, dump: bool = True) -> argparse.ArgumentParser:
    """What every job takes, over a dump or not; `doc` is the job's own docstring."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if dump:
        made.add_argument("--dump", type=Path, required=True, help="folder written by `ceiling capture`")
        made.add_argument("--verify", action="store_true", help="first compare the files with their sha256")
    made.add_argument("--store", type=Path, required=True, help="folder of the result store")
    made.add_argument("--log", type=Path, help="event log to append to (default a new file in STORE/.log)")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    made.add_argument(
        "--dry-run", action="store_true", help="print units, bytes and a time estimate; do nothing"
    )
    return made


def everywhere(field: str, name: str) -> str:
    """A model or a text by a name that any node knows: folders and files absolute, all others as they are."""
    if field == "model":
        before, path = "", name if models.resolve(name).kind in ("folder", "gguf") else ""
    else:
        before, path = texts.path_in(name)
    return before + str(cluster.shared_path(field, Path(path).expanduser())) if path else name


def exit_code(verb: str, job: Callable[[], int], debug: bool) -> int:
    """The exit code of `job`; what it raises becomes one line (2 bad input, 1 failed, 130 interrupted)."""
    try:
        return job()
    except KeyboardInterrupt:
        typer.echo(f"{verb}: interrupted; what is finished is kept, the same command continues", err=True)
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        message = str(error)
        if isinstance(error, OSError) and error.strerror:
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        typer.echo(f"{verb}: {' '.join(message.split()) or type(error).__name__}", err=True)
        return 2 if isinstance(error, InputError) else 1


@contextmanager
def advancing(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal; elsewhere a line now and then, with the time that is left."""
    if sys.stderr.isatty():
        with progress(what, total) as advance:
            yield advance
        return
    start = said = time.monotonic()
    done = 0

    def say() -> None:
        nonlocal done, said
        done, now = done + 1, time.monotonic()
        if now - said >= SAY_SECONDS or done == total:
            said, spent = now, now - start
            left = spent / done * (total - done)
            typer.echo(f"{what}: {done} of {total}, {spent:.0f} s, about {left:.0f} s left", err=True)

    yield say


def fill(
    verb: str,
    stage: Any,  # its module
    plan: Any,
    options: argparse.Namespace,  # of `parser`
    describe_plan: Callable[[Any], None],
    task: Callable[..., Iterator[Any]],
    shared: tuple[Any, ...],
    measured: Mapping[str, Any],
    describe: Callable[[Sequence[Any]], str] = lambda done: "",
    place: Callable[[Any], dict[str, Any]] | None = None,
) -> int:
    """Fill a store with what a plan lacks, or with ``--dry-run`` say what that is; returns the exit code."""
    if options.dry_run:
        describe_plan(plan)
        return 0
    stage.prepare(plan)
    if not plan.todo:
        typer.echo(f"nothing to do: all {len(plan.units)} shards exist in {plan.store}")
        return 0
    announce(plan.store, stage.TABLE, plan.id, plan.config)
    log = cluster.EventLog(options.log or cluster.log_path(plan.store, verb))
    return run_plan(verb, plan, task, shared, log, measured, describe, place)


def run_plan(
    verb: str,
    plan: Any,  # of a stage: its todo, seconds and store
    task: Callable[..., Iterator[Any]],
    shared: tuple[Any, ...],
    log: cluster.EventLog,
    measured: Mapping[str, Any],
    describe: Callable[[Sequence[Any]], str] = lambda done: "",
    place: Callable[[Any], dict[str, Any]] | None = None,
) -> int:
    """Do the missing units on the cluster this process belongs to, or on a local one; returns the exit code.

    `measured` names what the log takes of a unit that is done, with what stands for it where it failed;
    `describe` says at the end what all that are done came to, `place` what a unit is called.
    """
    failed: list[tuple[str, str]] = []
    ends, all_done = Counter[str](), []
    cpus = cluster.start()
    on_gpu = str(getattr(plan, "device", "")).startswith("cuda")
    resources = cluster.whole_device() if on_gpu else None
    try:
        with advancing(f"{verb} on {cpus} CPUs", len(plan.todo)) as advance:
            each = plan.seconds / len(plan.todo)
            for outcome in cluster.run(task, shared, plan.todo, seconds=each, resources=resources):
                named, done = (place or _place)(outcome.unit), outcome.result
                ends[end := "failed" if done is None else "kept" if done.kept else "done"] += 1
                all_done += [] if done is None else [done]
                log.write(
                    outcome,
                    **named,
                    outcome=end,
                    seconds=outcome.seconds if done is None else done.seconds,
                    **{name: getattr(done, name, instead) for name, instead in measured.items()},
                )
                if outcome.reason is not None:
                    what = ", ".join(f"{kind} {name}" for kind, name in named.items())
                    failed.append((what, outcome.reason))
                advance()
    finally:
        log.close()
        cluster.stop()
    kept = f", {ends['kept']} done by another run meanwhile" if ends["kept"] else ""
    found = f", {words}" if (words := describe(all_done)) else ""
    typer.echo(f"{ends['done']} shards{kept}{found} -> {plan.store}, events -> {log.path}")
    return report_failed(verb, failed)


def _place(unit: Any) -> dict[str, Any]:
    document, layer = unit
    return {"document": document, "layer": layer}


def report_failed(verb: str, failed: Sequence[tuple[str, str]]) -> int:
    """Say which units failed and why, equal reasons together; returns the exit code."""
    if not failed:
        return 0
    reasons: dict[str, list[str]] = {}
    for name, reason in failed:
        reasons.setdefault(reason, []).append(name)
    for reason, names in list(reasons.items())[:NAMED]:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        typer.echo(f"{verb}: {'; '.join(names[:3])}{more}: {reason}", err=True)
    if len(reasons) > NAMED:
        typer.echo(f"{verb}: {len(reasons) - NAMED} more reasons stand in the event log", err=True)
    typer.echo(f"{verb}: {len(failed)} failed; the same command tries them again", err=True)
    return 1
