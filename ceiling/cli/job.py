"""What the Ray jobs share: exit codes, units spread over a cluster, progress that a log can hold."""

import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from ceiling import cluster
from ceiling.cli.progress import progress
from ceiling.problem import InputError

SAY_SECONDS = 10.0
"""Between lines of progress where standard error is no terminal, as in a submitted job."""

NAMED = 20
"""Reasons printed at the end; all stand in the event log."""


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
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
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


def run_plan(
    verb: str,
    plan: Any,  # of a stage: its todo, seconds and store
    task: Callable[..., Iterator[Any]],
    shared: tuple[Any, ...],
    log: cluster.EventLog,
    measured: Mapping[str, Any],
    describe: Callable[[Sequence[Any]], str] = lambda done: "",
) -> int:
    """Do the missing units on the cluster this process belongs to, or on a local one; returns the exit code.

    `measured` names what the log takes of a unit that is done, with what stands for it where it failed;
    `describe` says at the end what all that are done came to.
    """
    failed: list[tuple[str, str]] = []
    ends, all_done = Counter[str](), []
    cpus = cluster.start()
    try:
        with advancing(f"{verb} on {cpus} CPUs", len(plan.todo)) as advance:
            for outcome in cluster.run(task, shared, plan.todo, seconds=plan.seconds / len(plan.todo)):
                (document, layer), done = outcome.unit, outcome.result
                ends[end := "failed" if done is None else "kept" if done.kept else "done"] += 1
                all_done += [] if done is None else [done]
                log.write(
                    outcome,
                    document=document,
                    layer=layer,
                    outcome=end,
                    seconds=outcome.seconds if done is None else done.seconds,
                    **{name: getattr(done, name, instead) for name, instead in measured.items()},
                )
                if outcome.reason is not None:
                    failed.append((f"document {document}, layer {layer}", outcome.reason))
                advance()
    finally:
        log.close()
        cluster.stop()
    kept = f", {ends['kept']} done by another run meanwhile" if ends["kept"] else ""
    found = f", {words}" if (words := describe(all_done)) else ""
    typer.echo(f"{ends['done']} shards{kept}{found} -> {plan.store}, events -> {log.path}")
    return report_failed(verb, failed)


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
