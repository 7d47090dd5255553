"""Batches of units on Ray: bounded in flight, results as they come."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

IN_FLIGHT_PER_CPU = 2
"""Tasks: one running and one waiting, so that no core idles and a stop loses little."""


def start() -> int:
    """Connect to the cluster this process belongs to, or start one here; returns its CPUs."""
    if not ray.is_initialized():
        # One thread a worker: Ray owns the cores.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        ray.init(runtime_env={"env_vars": threads}, log_to_driver=False, logging_level="ERROR")
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def stop() -> None:
    """Leave the cluster; stops it if `start` started it."""
    ray.shutdown()


def run_batches(
    task: Callable[..., Any], shared: tuple[Any, ...], batches: Sequence[Any], cpus: int
) -> Iterator[tuple[Any, Any]]:
    """Run ``task(*shared, batch)`` for every batch; yields (batch, result) in order of completion.

    An exception of the task is raised here as itself; what finished before has been yielded.
    """
    remote = ray.remote(task)
    running: dict[Any, Any] = {}
    for batch in batches:
        running[remote.remote(*shared, batch)] = batch
        if len(running) >= cpus * IN_FLIGHT_PER_CPU:
            yield _next_done(running)
    while running:
        yield _next_done(running)


def _next_done(running: dict[Any, Any]) -> tuple[Any, Any]:
    (done,), _ = ray.wait(list(running), num_returns=1)
    try:
        return running.pop(done), ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
