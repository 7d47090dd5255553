"""What kills a run, one test each: a rerun ends in the store of an undisturbed run, and repeats nothing."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from ray.cluster_utils import Cluster

from ceiling import open_store
from ceiling.dump import open_dump
from ceiling.problem import InputError
from ceiling.stages import enumerate as stage
from tests import toy_dump

ROOT = Path(__file__).parents[1]
BUDGETS = (8,)
DOCUMENTS = 8
WAIT = 90.0
"""Seconds for anything awaited; it takes a few."""

SMALL = 900_000
"""Bytes of a disk that is soon full: all shards take 2 MB."""

GIVE_UP = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
"""Environment of a driver: after so many seconds without its head Ray ends it, by default after 60."""

KEY = ["dump", "document", "layer", "head", "position", "s"]

# A cluster inside the test process leaves sockets and processes to its own exit hooks.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def big_toy(folder: Path, seed: int = 0) -> Path:
    """A toy dump whose units take a few tenths of a second, so that a run can be hit in its middle."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TOKENS": 256, "HEADS": 16, "ROWS": 24}.items():
            patch.setattr(toy_dump, name, value)
        return toy_dump.write_toy_dump(folder, documents=DOCUMENTS, seed=seed)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return big_toy(tmp_path_factory.mktemp("dumps") / "toy")


@pytest.fixture(scope="module")
def whole_store(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of an undisturbed run."""
    store = tmp_path_factory.mktemp("whole")
    list(stage.run(stage.plan(dump, store, BUDGETS)))
    return store


@pytest.fixture(scope="module")
def whole(whole_store: Path) -> pl.DataFrame:
    """Its instances."""
    return instances(whole_store)


@contextmanager
def head(num_cpus: int) -> Iterator[Cluster]:
    """A cluster of its head; the health checks notice a dead node within a second or two."""
    folder = tempfile.mkdtemp(prefix="ray")  # sockets lie in it, and their paths must be short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        checks = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 3,
        }
        arguments = {"num_cpus": num_cpus, "include_dashboard": False, "_system_config": checks}
        started = Cluster(initialize_head=True, head_node_args=arguments)
        try:
            yield started
        finally:
            started.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head without CPUs."""
    with head(num_cpus=0) as started:
        yield started


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[Any]]:
    """Two nodes of one CPU."""
    added = [cluster.add_node(num_cpus=1) for _ in range(2)]
    yield added
    for node in added:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)


class Run:
    """A job under way on the cluster."""

    def __init__(self, cluster: Cluster, dump: Path, store: Path, log: Path) -> None:
        self.log = log
        self.store = store
        options = ["--dump", dump, "--store", store, "--log", log, "--budgets", ",".join(map(str, BUDGETS))]
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "jobs" / "enumerate.py"), *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"RAY_ADDRESS": cluster.address, **GIVE_UP},
        )

    def events(self, outcome: str | None = None) -> list[dict[str, Any]]:
        """Whole lines of the log so far."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        events = [json.loads(line) for line in lines]
        return [event for event in events if outcome in (None, event["outcome"])]

    def until(self, done: int) -> list[dict[str, Any]]:
        """Wait for so many events, while the run is in its middle."""
        wait_for(lambda: self.process.poll() is not None or len(self.events()) >= done)
        events = self.events()
        assert done <= len(events) < 2 * DOCUMENTS, (self.end(), self.err)
        return events

    def end(self) -> int:
        """Wait for the exit code; `out` and `err` are then what was printed."""
        self.out, self.err = self.process.communicate(timeout=120)
        return self.process.returncode


def wait_for(condition: Callable[[], bool]) -> None:
    stop = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < stop, "waited in vain"
        time.sleep(0.02)


def instances(store: Path) -> pl.DataFrame:
    return open_store(store).instances.sort(KEY).drop("seconds", "host").collect()


def shards(store: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in store.glob("instances/**/*.parquet")}


def computed(*runs: Run) -> Counter[tuple[int, int]]:
    """How often each unit was computed to its end, and logged."""
    return Counter((e["document"], e["layer"]) for run in runs for e in run.events("done"))


def test_a_worker_is_killed(
    cluster: Cluster, nodes: list[Any], dump: Path, whole: pl.DataFrame, tmp_path: Path
):
    run = Run(cluster, dump, tmp_path / "store", tmp_path / "log")
    victim = run.until(3)[-1]["pid"]
    time.sleep(0.05)  # into its next unit
    os.kill(victim, signal.SIGKILL)
    before = len(run.events())
    code = run.end()
    assert code == 0, run.err
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert max(computed(run).values()) == 1
    assert len(run.events()) == 2 * DOCUMENTS
    assert {event["retries"] for event in run.events()} <= {0, 1}
    late = [event["pid"] for event in run.events()[before + 1 :]]  # one answer may have been on its way
    assert late
    assert victim not in late


def test_a_node_is_killed(
    cluster: Cluster, nodes: list[Any], dump: Path, whole: pl.DataFrame, tmp_path: Path
):
    run = Run(cluster, dump, tmp_path / "store", tmp_path / "log")
    wait_for(lambda: len({event["node"] for event in run.events()}) == 2 or run.process.poll() is not None)
    victim = next(node for node in nodes if node.node_id == run.events()[-1]["node"])
    cluster.remove_node(victim, allow_graceful=False)
    before = len(run.events())
    assert before < 2 * DOCUMENTS
    code = run.end()
    assert code == 0, run.err
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert max(computed(run).values()) == 1
    # what the victim had finished may still be read after its end; the last one is the other's
    assert run.events()[-1]["node"] == (set(nodes) - {victim}).pop().node_id


def test_the_driver_is_killed(
    cluster: Cluster, nodes: list[Any], dump: Path, whole: pl.DataFrame, tmp_path: Path
):
    run = Run(cluster, dump, tmp_path / "store", tmp_path / "log")
    run.until(3)
    run.process.kill()
    run.end()
    wait_for(lambda: not any(map(alive, {event["pid"] for event in run.events()})))
    kept = shards(tmp_path / "store")
    assert 3 <= len(kept) < 2 * DOCUMENTS
    again = Run(cluster, dump, tmp_path / "store", tmp_path / "log-2")
    code = again.end()
    assert code == 0, again.err
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert {path: time for path, time in shards(tmp_path / "store").items() if path in kept} == kept
    assert len(computed(again)) == 2 * DOCUMENTS - len(kept)
    assert max(computed(run, again).values()) == 1


def test_the_head_is_killed_and_a_new_one_started(dump: Path, whole: pl.DataFrame, tmp_path: Path):
    with head(num_cpus=2) as first:
        run = Run(first, dump, tmp_path / "store", tmp_path / "log")
        pids = {event["pid"] for event in run.until(3)}
        first.remove_node(first.head_node, allow_graceful=False)
        code = run.end()
        wait_for(lambda: not any(map(alive, pids)))
    assert code == 1
    assert "Failed to connect to GCS" in run.err  # by Ray, which ends the process
    assert len([line for line in run.err.splitlines() if " left" not in line]) == 1  # beside the progress
    kept = shards(tmp_path / "store")
    assert 3 <= len(kept) < 2 * DOCUMENTS
    with head(num_cpus=2) as second:
        again = Run(second, dump, tmp_path / "store", tmp_path / "log-2")
        code = again.end()
    assert code == 0, again.err
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert {path: time for path, time in shards(tmp_path / "store").items() if path in kept} == kept
    assert len(computed(again)) == 2 * DOCUMENTS - len(kept)
    assert max(computed(run, again).values()) == 1


def test_two_drivers_at_once(
    cluster: Cluster, nodes: list[Any], dump: Path, whole: pl.DataFrame, tmp_path: Path
):
    runs = [Run(cluster, dump, tmp_path / "store", tmp_path / f"log-{i}") for i in range(2)]
    for run in runs:
        code = run.end()
        assert code == 0, run.err
        assert len(run.events()) == 2 * DOCUMENTS or "nothing to do" in run.out
    assert_frame_equal(instances(tmp_path / "store"), whole)


def test_a_shard_is_truncated(
    cluster: Cluster, nodes: list[Any], dump: Path, whole: pl.DataFrame, whole_store: Path, tmp_path: Path
):
    shutil.copytree(whole_store, tmp_path / "store")
    shard = sorted(shards(tmp_path / "store"))[5]
    shard.write_bytes(shard.read_bytes()[:-100])
    again = Run(cluster, dump, tmp_path / "store", tmp_path / "log-2")
    assert again.end() == 0
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert computed(again) == {(2, 1): 1}


def test_a_dump_is_truncated_while_it_is_read(
    cluster: Cluster, nodes: list[Any], whole: pl.DataFrame, tmp_path: Path
):
    dump = big_toy(tmp_path / "toy")
    file = dump / f"doc-{DOCUMENTS - 1:05d}.safetensors"
    content = file.read_bytes()
    run = Run(cluster, dump, tmp_path / "store", tmp_path / "log")
    run.until(3)
    os.truncate(file, len(content) // 2)
    code = run.end()
    assert code == 1
    assert f"{file.name} has {len(content) // 2} bytes, the manifest says {len(content)}" in run.err
    with pytest.raises(InputError, match="it is truncated or foreign"):
        stage.plan(dump, tmp_path / "store", BUDGETS)
    file.write_bytes(content)
    again = Run(cluster, dump, tmp_path / "store", tmp_path / "log-3")
    assert again.end() == 0
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert max(computed(run, again).values()) == 1


def test_a_dump_is_replaced_under_the_same_name(
    cluster: Cluster, nodes: list[Any], whole: pl.DataFrame, tmp_path: Path
):
    """Same shapes, other numbers: a shard must never hold the other dump's."""
    dump, other = big_toy(tmp_path / "toy"), big_toy(tmp_path / "other", seed=1)
    ids = open_dump(dump).id, open_dump(other).id
    run = Run(cluster, dump, tmp_path / "store", tmp_path / "log")
    run.until(3)
    dump.rename(tmp_path / "old")
    other.rename(dump)
    code = run.end()
    assert code == 1
    assert f"is now {ids[1]}, it was {ids[0]} when the run was planned" in run.err
    assert not list((tmp_path / "store").glob(f"instances/dump={ids[1]}/**/*.parquet"))
    dump.rename(other)
    (tmp_path / "old").rename(dump)
    again = Run(cluster, dump, tmp_path / "store", tmp_path / "log-2")
    assert again.end() == 0
    assert_frame_equal(instances(tmp_path / "store"), whole)
    assert max(computed(run, again).values()) == 1


@contextmanager
def tmpfs(store: Path, scratch: Path) -> Iterator[Callable[[], object]]:
    """A file system of its own for the store, too small for it; yields what makes it larger."""

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(store)], check=True)

    store.mkdir()
    mount(f"size={SMALL}")
    try:
        yield lambda: mount("remount,size=64m")
    finally:
        subprocess.run(["umount", str(store)], check=True)


FULL_AT_FSYNC = """
import errno, os
from pathlib import Path
limit, fsync = Path(__file__).with_name("limit"), os.fsync

def fsync_or_fail(descriptor):
    if limit.exists():
        store, most = limit.read_text().split("\\n")
        if sum(path.stat().st_size for path in Path(store).glob("instances/**/*.parquet")) > int(most):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    fsync(descriptor)

os.fsync = fsync_or_fail
"""
"""What every Python process runs at its start; network file systems report a full disk no earlier either."""


@contextmanager
def quota(store: Path, scratch: Path) -> Iterator[Callable[[], object]]:
    """No rights needed: processes started meanwhile find the disk full; yields what lifts that."""
    (scratch / "sitecustomize.py").write_text(FULL_AT_FSYNC)
    limit = scratch / "limit"
    limit.write_text(f"{store}\n{SMALL}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(scratch))
        yield limit.unlink


def may_mount() -> bool:
    """Tried where no one else sees it."""
    mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", tempfile.gettempdir()]
    return bool(shutil.which("unshare")) and not subprocess.run(mount, capture_output=True).returncode


@pytest.mark.parametrize("disk", [quota, tmpfs] if may_mount() else [quota])
def test_the_disk_is_full(disk: Any, dump: Path, whole: pl.DataFrame, tmp_path: Path):
    store = tmp_path / "small"
    with disk(store, tmp_path) as grow, head(num_cpus=2) as started:
        run = Run(started, dump, store, tmp_path / "log")
        code = run.end()
        assert code == 1
        assert os.strerror(errno.ENOSPC) in run.err
        assert "finished shards are kept" in run.err
        kept = shards(store)
        assert 0 < len(kept) < 2 * DOCUMENTS
        grow()
        again = Run(started, dump, store, tmp_path / "log-2")
        code = again.end()
        assert code == 0, again.err
        assert {path: time for path, time in shards(store).items() if path in kept} == kept
        assert max(computed(run, again).values()) == 1
        assert_frame_equal(instances(store), whole)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie that no one waits for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
