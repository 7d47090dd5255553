"""``ray job submit --working-dir .`` as a user types it, to a job server; git's ignored files stay behind."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core.caching import _CacheLocator
from polars.testing import assert_frame_equal

from ceiling import open_store
from ceiling.kernels import subsets
from ceiling.stages import enumerate as stage
from tests.toy_dump import write_toy_dump

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
RAY = str(BIN / "ray")
BUDGETS = (4, 8)
WAIT = 60.0
"""Seconds for anything awaited; it takes a few."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For the head and the caches; sockets lie in it, and their paths must be short."""
    path = Path(tempfile.mkdtemp(prefix="ray"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """Nobody else's cluster, and no token: the job server listens on this machine only."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            patch.delenv(name)
        return os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",  # a job's `python` is this one
            "RAY_TMPDIR": str(folder),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
        }


@pytest.fixture(scope="module")
def server(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Address of the job server of a head on free ports; what it started ends with it, however it ends."""
    output = folder / "head.out"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]  # of all ports only this one cannot be left to Ray
    ports = ["--port=0", "--dashboard-port=0", "--dashboard-agent-listen-port=0"]
    start = [RAY, "start", "--head", "--block", "--num-cpus=2", f"--ray-client-server-port={free}", *ports]
    with output.open("w") as file:
        head = subprocess.Popen(start, env=environment, stdout=file, stderr=file)
    try:
        stop = time.monotonic() + WAIT
        while not (found := re.search(r"RAY_API_SERVER_ADDRESS='(http://\S+)'", output.read_text())):
            assert head.poll() is None, output.read_text()
            assert time.monotonic() < stop, output.read_text()
            time.sleep(0.1)
        yield found[1]
    finally:
        head.kill()  # the kernel then kills what it started
        head.wait()


@pytest.fixture(scope="module")
def checkout(folder: Path) -> Path:
    """A copy of what git does not ignore, and a dump where dumps are ignored."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if (ROOT / name).is_file():
            (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "checkout" / name)
    write_toy_dump(folder / "checkout" / "dumps" / "toy")
    return folder / "checkout"


class Submit:
    """``ray job submit``, as far as the job's end."""

    def __init__(self, server: str, checkout: Path, environment: dict[str, str]) -> None:
        self.options = ["--address", server, "--working-dir", "."]
        self.checkout = checkout
        self.environment = environment

    def __call__(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Exit code and what was printed, the job's log included."""
        return subprocess.run(
            [RAY, "job", "submit", *self.options, "--", *map(str, command)],
            cwd=self.checkout,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * WAIT,
        )


@pytest.fixture(scope="module")
def submit(server: str, checkout: Path, environment: dict[str, str], folder: Path) -> Submit:
    """A head answers before it takes jobs: at first it has no agent, or one that hangs up."""
    submit = Submit(server, checkout, environment)
    stop = time.monotonic() + WAIT
    while (first := submit("true")).returncode:
        logs = [path.read_text() for path in (folder / "session_latest" / "logs").glob("dashboard_agent.*")]
        assert time.monotonic() < stop, "\n".join([first.stdout, (folder / "head.out").read_text(), *logs])
    return submit


@pytest.fixture(scope="module")
def uploaded(submit: Submit) -> Path:
    """The folder a job runs in, once its kernels count as compiled.

    numba keeps what it compiled by the folder of the source, so every new upload compiles anew, for tens of
    seconds; here the kernels of the upload are, byte for byte, those this process has compiled.
    """
    job = submit("python", "-c", "import ceiling; print('runs', ceiling.__file__)")
    assert job.returncode == 0, job.stdout
    found = re.search(r"^runs (\S+)/ceiling/__init__.py$", job.stdout, re.MULTILINE)
    assert found, job.stdout
    compiled, upload = Path(subsets.minima.stats.cache_path), Path(found[1])
    name = _CacheLocator.get_suitable_cache_subpath(str(upload / "ceiling" / "kernels" / "x.py"))
    caches = Path(submit.environment["RAY_TMPDIR"]) / "numba"
    (caches / compiled.parent.name).mkdir(parents=True)
    (caches / compiled.parent.name / name).symlink_to(compiled)
    variables = {"env_vars": {"NUMBA_CACHE_DIR": str(caches)}}
    submit.options += ["--runtime-env-json", json.dumps(variables)]
    return upload


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_dump(tmp_path_factory.mktemp("dumps") / "toy", documents=3)


def job(dump: object, store: object) -> list[object]:
    return ["python", "jobs/enumerate.py", "--dump", dump, "--store", store, "--budgets", "4,8"]


def test_jobs_import_the_upload_and_dumps_stay_behind(uploaded: Path, checkout: Path, folder: Path):
    assert uploaded.is_relative_to(folder / "ray")  # not the installed package
    assert (uploaded / "jobs" / "enumerate.py").read_bytes() == (ROOT / "jobs" / "enumerate.py").read_bytes()
    assert (checkout / "dumps" / "toy").is_dir()
    assert not (uploaded / "dumps" / "toy").exists()


def test_a_submitted_job_writes_what_the_command_line_writes(
    submit: Submit, uploaded: Path, dump: Path, tmp_path: Path
):
    list(stage.run(stage.plan(dump, tmp_path / "serial", BUDGETS)))
    first = submit(*job(dump, tmp_path / "ray"))
    assert first.returncode == 0, first.stdout
    assert f"6 shards -> {tmp_path / 'ray'}" in first.stdout
    key = ["document", "layer", "head", "position", "s"]
    ray, serial = (
        open_store(tmp_path / name).instances.sort(key).drop("seconds", "host").collect()
        for name in ("ray", "serial")
    )
    assert_frame_equal(ray, serial)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "ray").rglob("*") if path.is_file()}
    again = submit(*job(dump, tmp_path / "ray"))
    assert again.returncode == 0, again.stdout
    assert "nothing to do: all 6 shards exist" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert {path for path in (tmp_path / "ray").rglob("*") if path.is_file()} == set(written)


def test_a_relative_dump_is_refused(submit: Submit, uploaded: Path, tmp_path: Path):
    refused = submit(*job("dumps/toy", tmp_path / "store"))
    assert refused.returncode == 1  # of `ray job submit`, for any job that fails
    assert "enumerate: dump: dumps/toy is relative, and a submitted job runs in an" in refused.stdout
    assert "exit code 2" in refused.stdout
    assert not (tmp_path / "store").exists()
