"""Batches of units: how they are cut, isolated and repeated; where their log goes."""

import errno
import json
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import ray

from ceiling import cluster
from ceiling.problem import InputError

CPUS = 2


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A Ray of our own, not the cluster that happens to run on this machine."""
    ray.init(address="local", num_cpus=CPUS, log_to_driver=False, logging_level="ERROR")
    yield
    cluster.stop()


def run(task: cluster.Task, units: Sequence[object], seconds: float = 1.0) -> dict[object, cluster.Outcome]:
    outcomes = list(cluster.run(task, ("shared",), units, seconds=seconds))
    assert len(outcomes) == len(units)
    return {outcome.unit: outcome for outcome in outcomes}


# Tasks are nested functions so that they travel by value: workers need not import the tests.


def test_every_unit_is_answered_once_by_a_worker_of_one_thread(local_ray: None):
    def task(shared: str, units: Sequence[int]) -> Iterator[tuple[str, int, str]]:
        for unit in units:
            yield shared, unit**2, os.environ["OMP_NUM_THREADS"] + os.environ["NUMBA_NUM_THREADS"]

    outcomes = run(task, range(50))
    assert {unit: outcome.result for unit, outcome in outcomes.items()} == {
        unit: ("shared", unit**2, "11") for unit in range(50)
    }
    assert {(outcome.reason, outcome.retries, outcome.trace) for outcome in outcomes.values()} == {
        (None, 0, None)
    }
    assert all(outcome.pid != os.getpid() for outcome in outcomes.values())


def test_bad_units_fail_alone_with_their_reason(local_ray: None):
    def task(shared: str, units: Sequence[int]) -> Iterator[int]:
        for unit in units:
            if unit == 3:
                raise InputError("row 3:\n is bad")
            if unit == 4:
                raise KeyError("nothing")
            if unit == 19:
                return  # an answer short
            yield unit

    outcomes = run(task, range(20), seconds=1e-3)
    failed = {unit: outcome for unit, outcome in outcomes.items() if outcome.reason}
    assert set(failed) == {3, 4, 19}
    assert failed[3].reason == "row 3: is bad"
    assert failed[3].trace is None
    assert failed[4].reason == "KeyError: 'nothing'"
    assert "Traceback" in str(failed[4].trace)
    assert failed[19].reason == "RuntimeError: the task ended 1 results short"


def test_a_unit_that_takes_workers_along_is_given_up_and_the_others_are_not(local_ray: None, tmp_path: Path):
    def task(shared: str, units: Sequence[int]) -> Iterator[int]:
        for unit in units:
            with (tmp_path / str(unit)).open("a") as file:
                file.write("tried\n")
            if unit == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            yield unit

    outcomes = run(task, range(12), seconds=1e-3)
    assert {unit for unit, outcome in outcomes.items() if outcome.reason} == {5}
    assert str(outcomes[5].reason).startswith(f"its worker died {cluster.RETRIES + 1} times, in the end: ")
    assert outcomes[5].retries == cluster.RETRIES
    assert (tmp_path / "5").read_text().count("tried") == cluster.RETRIES + 1


def test_a_unit_whose_worker_died_once_is_done_again(local_ray: None, tmp_path: Path):
    def task(shared: str, units: Sequence[int]) -> Iterator[int]:
        for unit in units:
            if unit == 2 and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield unit

    outcomes = run(task, range(6), seconds=1e-3)
    assert {outcome.reason for outcome in outcomes.values()} == {None}
    assert outcomes[2].retries == 1


def test_a_full_disk_ends_the_run(local_ray: None):
    def task(shared: str, units: Sequence[int]) -> Iterator[int]:
        for unit in units:
            if unit == 2:
                raise OSError(errno.ENOSPC, "no space left")
            yield unit

    with pytest.raises(OSError, match="no space left"):
        run(task, range(4))


def test_what_belongs_together_is_one_batch(local_ray: None):
    def task(shared: str, units: Sequence[str]) -> Iterator[int]:
        for _ in units:
            yield len(units)

    units = ["a1", "a2", "a3", "b1", "a4"]
    outcomes = list(
        cluster.run(
            task,
            ("shared",),
            units,
            seconds=99.0,
            together=lambda unit: unit[0],
            resources={"num_cpus": CPUS},
        )
    )
    assert sorted((outcome.unit, outcome.result) for outcome in outcomes) == [
        ("a1", 3),
        ("a2", 3),
        ("a3", 3),
        ("a4", 1),
        ("b1", 1),
    ]


def test_batches_hold_some_seconds_and_shrink_towards_the_end():
    queue = cluster._Queue(range(1000), seconds=0.5)
    sizes = []
    while queue:
        sizes.append(len(queue.take(cpus=4)))
    assert sum(sizes) == 1000
    assert sizes[0] == cluster.TASK_SECONDS / 0.5
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert len(cluster._Queue(range(9), seconds=60.0).take(cpus=1)) == 1


def test_a_suspect_waits_until_all_others_are_under_way():
    queue = cluster._Queue(range(3), seconds=60.0)
    first = queue.take(cpus=1)
    assert queue.died(deque(first)) is None
    assert [queue.take(cpus=1) for _ in range(3)] == [[1], [2], [0]]


def test_a_path_under_a_submitted_job_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert cluster.shared_path("dump", Path("dump")) == tmp_path / "dump"
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert cluster.shared_path("dump", tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"dump: dump is relative, .* absolute path that every node sees"):
        cluster.shared_path("dump", Path("dump"))


def test_the_log_appends_whole_lines(tmp_path: Path):
    outcome = cluster.Outcome((0, 1), None, "why", 2, 0.5, "node", "host", 7)
    for unit in range(2):
        log = cluster.EventLog(tmp_path / "logs" / "log")
        log.write(outcome, document=unit)
        assert len((tmp_path / "logs" / "log").read_text().splitlines()) == unit + 1  # before it is closed
        log.close()
    events = [json.loads(line) for line in (tmp_path / "logs" / "log").read_text().splitlines()]
    assert [event["document"] for event in events] == [0, 1]
    assert events[0].keys() == {"time", "document", "node", "host", "pid", "retries", "reason", "trace"}
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="log: cannot write"):
        cluster.EventLog(tmp_path / "file" / "log")
