"""Units of work on Ray: bounded in flight, isolated when they fail, done again where a worker died.

A task is a batch of units and streams one answer a unit, so the driver knows at any time what is done. Ray's
own retries are off: they repeat whole batches, and without bound where a worker was killed for memory. Here
only the unit a worker died in counts a death; it waits until all others are under way, then runs alone.
"""

import contextlib
import errno
import json
import os
import platform
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import exceptions

from ceiling.problem import InputError

TASK_SECONDS = 10.0
"""Work in a task at most, by the estimate: long against the milliseconds of scheduling, short to lose."""

SHARES = 4
"""A task takes at most this part of a CPU's share of what is left, so that all CPUs end about together."""

IN_FLIGHT_PER_CPU = 2
"""Tasks: one running and one waiting, so that no core idles and a stop loses little."""

RETRIES = 3
"""Times a unit whose worker died is done again; several nodes may die, but a unit that takes its fourth
worker along is itself the reason."""

THREADS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"),
    "1",
)
"""Environment of a worker that has one CPU: Ray owns the cores."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
"""A full disk ends the run: no other unit would do better."""

_DEATHS = (
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
    exceptions.ObjectLostError,
    exceptions.ActorDiedError,
)
"""What Ray raises when whoever ran a task is gone, or its answer with them."""

_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable that Ray's job manager, and nothing else, sets for the command of ``ray job submit``."""

Task = Callable[..., Iterable[Any]]
"""``task(*shared, units)`` yields one small result a unit, in order; raises at the unit that fails."""


class Outcome(NamedTuple):
    """How one unit ended.

    Attributes
    ----------
    unit, result : Any
        The result is None where the unit failed.
    reason : str or None
        Why it failed, in one line.
    retries : int
        How often it was done again because a worker died.
    seconds : float
        From the answer before to this one, in the worker.
    node, host : str
        Ray's id of the node, and its name; empty where the worker died.
    pid : int
        Of the worker; 0 where it died.
    trace : str or None
        The traceback, where the exception is none that names its reason.
    """

    unit: Any
    result: Any
    reason: str | None
    retries: int
    seconds: float
    node: str
    host: str
    pid: int
    trace: str | None = None


def start() -> int:
    """Connect to the cluster this process belongs to, or start one here; returns its CPUs."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="ERROR")
    return _total("CPU")


def stop() -> None:
    """Leave the cluster; stops it if `start` started it."""
    ray.shutdown()


def whole_device() -> dict[str, Any]:
    """Options of a task that has a GPU where the cluster has any, else all CPUs of its largest node.

    Ray itself sets the threads of such a task to its CPUs, and ends a worker that had a GPU after the task.
    """
    if ray.cluster_resources().get("GPU"):
        return {"num_gpus": 1}
    nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
    return {"num_cpus": max(1, int(max(nodes, default=1)))}


def is_submitted() -> bool:
    """Whether this process is the command of ``ray job submit``: its folder is an uploaded copy."""
    return _SUBMITTED in os.environ


def shared_path(field: str, path: Path) -> Path:
    """`path`, absolute; `InputError` for a relative one in a submitted job.

    Such a job runs in a copy of the folder it was submitted from, without what ``.gitignore`` lists, on
    another machine: a relative path would name nothing there, and what is written would be lost.
    """
    if is_submitted() and not path.is_absolute():
        raise InputError(
            f"{field}: {path} is relative, and a submitted job runs in an uploaded copy of its folder, "
            "without dumps and stores; name an absolute path that every node sees"
        )
    return path.absolute()


def run(
    task: Task,
    shared: tuple[Any, ...],
    units: Iterable[Any],
    *,
    seconds: float,
    together: Callable[[Any], Any] | None = None,
    resources: dict[str, Any] | None = None,
) -> Iterator[Outcome]:
    """Run ``task(*shared, batch)`` over all units on the cluster.

    Parameters
    ----------
    task : callable
        See `Task`. What it does must bear repetition.
    shared : tuple
        First arguments of every call; small, they travel with each task.
    units : iterable of hashable
    seconds : float
        One unit takes, about; units are batched accordingly.
    together : callable, optional
        Neighbours of equal ``together(unit)`` are one batch, however long: they share what is costly to load.
    resources : dict, optional
        Options of a task for Ray; by default one CPU and one thread.

    Yields
    ------
    Outcome
        Once for every unit, in order of completion.

    Raises
    ------
    OSError
        When a worker finds the disk full.
    RayError
        When the cluster cannot run tasks at all.
    """
    queue = _Queue(units, seconds, together)
    options = resources or {"num_cpus": 1, "runtime_env": {"env_vars": THREADS}}
    remote = ray.remote(_serve).options(num_returns="streaming", max_retries=0, **options)
    running: dict[Any, deque[Any]] = {}
    kind = "GPU" if options.get("num_gpus") else "CPU"
    try:
        while queue or running:
            total = _total(kind) if queue else 0
            while queue and len(running) < total * IN_FLIGHT_PER_CPU:
                batch = queue.take(total)
                running[remote.remote(task, shared, batch)] = deque(batch)
            for stream in _ready(list(running)):
                yield from _advance(stream, running, queue)
    finally:
        for stream in running:
            with contextlib.suppress(exceptions.RayError):
                ray.cancel(stream)


class _Queue:
    """Units not under way, those a worker died in last."""

    def __init__(
        self, units: Iterable[Any], seconds: float, together: Callable[[Any], Any] | None = None
    ) -> None:
        self.waiting = deque(units)
        self.together = together
        self.suspects: deque[Any] = deque()
        self.deaths: Counter[Any] = Counter()
        self.most = max(1, int(TASK_SECONDS / max(seconds, 1e-9)))

    def __bool__(self) -> bool:
        return bool(self.waiting or self.suspects)

    def take(self, cpus: int) -> list[Any]:
        """The next batch."""
        if not self.waiting:
            return [self.suspects.popleft()]
        if key := self.together:
            first = key(self.waiting[0])
            size = len(list(takewhile(lambda unit: key(unit) == first, self.waiting)))
        else:
            size = min(self.most, max(1, len(self.waiting) // (SHARES * cpus)))
        return [self.waiting.popleft() for _ in range(size)]

    def died(self, batch: deque[Any]) -> Any | None:
        """Put back what a dead worker left; returns the unit that has had its last try, if any."""
        suspect = batch.popleft()
        self.waiting.extendleft(reversed(batch))
        self.deaths[suspect] += 1
        if self.deaths[suspect] > RETRIES:
            return suspect
        self.suspects.append(suspect)
        return None


def _ready(streams: list[Any]) -> list[Any]:
    """All streams with something to say, waiting for the first."""
    ray.wait(streams, num_returns=1)
    return ray.wait(streams, num_returns=len(streams), timeout=0)[0]


def _advance(stream: Any, running: dict[Any, deque[Any]], queue: _Queue) -> Iterator[Outcome]:
    """What a stream has to say: the outcome of its next unit, its end, or that its worker died."""
    batch = running[stream]
    try:
        answer = ray.get(next(stream))
    except StopIteration:
        del running[stream]
    except exceptions.RayTaskError as error:
        raise error.cause from None
    except _DEATHS as error:
        del running[stream]
        if batch and (unit := queue.died(batch)) is not None:
            times = queue.deaths[unit]
            cause = str(error).strip().splitlines()[0]  # Ray goes on about where its own logs are
            reason = f"its worker died {times} times, in the end: {cause}"
            yield Outcome(unit, None, reason, times - 1, 0.0, "", "", 0)
    else:
        unit = batch.popleft()
        yield Outcome(unit, retries=queue.deaths[unit], **answer)


def _serve(task: Task, shared: tuple[Any, ...], units: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """In the worker: one answer a unit, the failed ones included; goes on after the unit that fails."""
    place = {
        "node": ray.get_runtime_context().get_node_id(),
        "host": platform.node(),
        "pid": os.getpid(),
    }
    left = deque(units)
    while left:
        start = time.perf_counter()
        try:
            for result in task(*shared, list(left)):
                left.popleft()
                yield {"result": result, "reason": None, "seconds": time.perf_counter() - start, **place}
                start = time.perf_counter()
            if left:
                raise RuntimeError(f"the task ended {len(left)} results short")
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                raise
            left.popleft()
            named = isinstance(error, InputError | OSError)
            yield {
                "result": None,
                "reason": _one_line(error) if named else f"{type(error).__name__}: {_one_line(error)}",
                "seconds": time.perf_counter() - start,
                "trace": None if named else traceback.format_exc(),
                **place,
            }


class EventLog:
    """A file of JSON lines, one an event; each is whole on disk as soon as it is written.

    Parameters
    ----------
    path : Path
        Appended to; its folder is made where it is missing.

    Raises
    ------
    InputError
        When it cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"log: cannot write to {path} ({error.strerror})") from None

    def write(self, outcome: Outcome, /, **more: Any) -> None:
        """Append one unit: when, what, where, how it ended."""
        event = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **more}
        event |= {
            field: getattr(outcome, field) for field in ("node", "host", "pid", "retries", "reason", "trace")
        }
        self._file.write(json.dumps(event) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def log_path(store: Path, verb: str) -> Path:
    """Where a run of `verb` logs unless told otherwise: a file of its own under ``<store>/.log``."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return store / ".log" / f"{verb}-{now}-{platform.node()}-{os.getpid()}.jsonl"


def _total(kind: str) -> int:
    """CPUs or GPUs of the cluster as it is now: nodes come and go."""
    return max(1, int(ray.cluster_resources().get(kind, 0)))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
