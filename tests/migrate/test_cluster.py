"""Pieces of work on the workers of Dask, each of them a real process."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import migrate_jobs
import psutil
import pytest

from perfmod.errors import Failure, UsageMistake
from perfmod.migrate.engines import packing
from perfmod.migrate.engines.cluster import ClusterEngine
from perfmod.migrate.engines.local import LocalEngine
from perfmod.migrate.jobs import LOG, OUT, RESULT, Done, Ending, Job
from perfmod.migrate.results import Cause, Outcome, Refused
from perfmod.migrate.work import read_result


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    migrate_jobs.use_stand_ins(monkeypatch)


@contextlib.contextmanager
def cluster(
    address: str | None = None, *, jobs: int = 2, gpus: tuple[str, ...] = (), **more: Any
) -> Iterator[ClusterEngine]:
    made = ClusterEngine(address, jobs=jobs, gpus=gpus, **more)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def dask(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or a worker of somebody else, which `python -m distributed.cli` starts."""
    process = subprocess.Popen([sys.executable, "-m", *arguments], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def all_of(made: ClusterEngine | LocalEngine, jobs: list[Job], seconds: float = 60.0) -> list[Done]:
    deadline = time.monotonic() + seconds
    found: dict[str, Done] = {}
    while len(found) < len(jobs):
        assert time.monotonic() < deadline, found
        if done := made.next(1.0):
            assert done.job.name not in found
            found[done.job.name] = done
    return [found[job.name] for job in jobs]


def files_of(job: Job) -> dict[str, bytes]:
    parts = [job.folder / LOG, job.folder / RESULT, *(job.folder / OUT).rglob("*")]
    return {str(path.relative_to(job.folder)): path.read_bytes() for path in parts if path.is_file()}


WHAT = ("say hello you", "mistake", "crash", "sleep 60", "die SIGSEGV")


@pytest.mark.exhaustive
def test_a_cluster_comes_to_what_this_machine_comes_to(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    local, remote = ([migrate_jobs.job(folder, what, timeout=2) for what in WHAT] for folder in (here, there))
    engine = LocalEngine(2, ())
    for job in local:
        engine.submit(job)
    expected = all_of(engine, local)
    engine.close()
    marker = tmp_path / "marker"
    with cluster(gpus=("cpu0",)) as made:
        assert made.room == 2
        extra = [
            migrate_jobs.job(tmp_path, "say here", is_local=True),
            migrate_jobs.job(tmp_path, "seat 0.1", gpus=1),
            migrate_jobs.job(tmp_path, f"fell {marker} once"),
            migrate_jobs.job(tmp_path, "fell /dev/null"),
            migrate_jobs.job(tmp_path, "say hello", gpus=2),
        ]
        for job in [*remote, *extra]:
            made.submit(job)
        assert made.room == 0
        found = all_of(made, [*remote, *extra])
        assert [(each.ending, each.reason) for each in found[: len(WHAT)]] == [
            (each.ending, each.reason) for each in expected
        ]
        for one, other in zip(local, remote, strict=True):
            if "log" not in one.name:
                assert files_of(one).keys() == files_of(other).keys()
                assert files_of(one).get(RESULT) == files_of(other).get(RESULT)
        assert files_of(remote[0]) == files_of(local[0])
        assert files_of(remote[0])["out/said/words"] == b"hello you"
        assert all(each.seconds > 0 and each.peak_mib for each in found[: len(WHAT)])
        assert {each.worker for each in found[: len(WHAT)]} <= {"static-0", "static-1"}
        at_home, seated, once, always, greedy = found[len(WHAT) :]
        assert at_home.ending is Ending.FINISHED
        assert (seated.ending, seated.worker) == (Ending.FINISHED, "gpu-0")
        assert once.ending is Ending.FINISHED
        assert read_result(once.job.folder).kind == "fell"
        assert (always.ending, always.reason) == (Ending.LOST, "each of the 2 workers that ran it died")
        assert greedy.reason == "needs 2 GPUs; each worker of the cluster on this machine has 1"

        # Somebody kills a worker in the middle, then the program ends with work under way.
        jobs = [migrate_jobs.job(tmp_path, f"sleep {seconds}") for seconds in (2, 1, 0, 0)]
        for job in jobs:
            made.submit(job)
        pieces = pieces_of("perfmod.migrate.work")
        os.kill(pieces[0].ppid(), signal.SIGKILL)
        assert [each.ending for each in all_of(made, jobs)] == [Ending.FINISHED] * 4
        made.submit(migrate_jobs.job(tmp_path, "sleep 600"))
        pieces = pieces_of("perfmod.migrate.work")
        began = time.monotonic()
    assert time.monotonic() - began < 8
    assert not any(piece.is_running() for piece in pieces)


def pieces_of(module: str) -> list[psutil.Process]:
    """The processes below this one that run a module, once there are some."""
    deadline = time.monotonic() + 20
    while True:
        found = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found += [process] if module in process.cmdline() else []
        if found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def somebodys_scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler in another process, and its address."""
    file = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    with dask("distributed.cli.dask_scheduler", *where, "--scheduler-file", str(file)) as process:
        deadline = time.monotonic() + 30
        while not file.exists() or '"address"' not in file.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process, json.loads(file.read_text())["address"]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one for several tests."""
    with somebodys_scheduler(tmp_path_factory.mktemp("scheduler")) as (_, address):
        yield address


def worker(address: str, folder: Path, *options: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker of somebody else."""
    usual = (address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder))
    return dask("distributed.cli.dask_worker", *usual, *options)


def test_without_workers_it_does_not_wait_for_ever(scheduler: str, tmp_path: Path) -> None:
    with cluster(scheduler, patience=1) as made:
        assert made.room == 1
        made.submit(migrate_jobs.job(tmp_path, "say hello"))
        began = time.monotonic()
        with pytest.raises(Failure, match="no worker has come for 1 s") as caught:
            made.next(60)
        assert 0.75 < time.monotonic() - began < 6
        assert str(caught.value).endswith(f"start one with: dask worker {scheduler} --nthreads 1")


def test_it_joins_a_scheduler_with_workers_of_others(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-nobody")
    shared = tmp_path / "shared"
    shared.mkdir()
    with (
        worker(scheduler, tmp_path, "--nworkers", "2", "--resources", "GPU=1", "--name", "their"),
        cluster(scheduler, patience=20) as made,
    ):
        jobs = [migrate_jobs.job(tmp_path, what) for what in ("say hello", "say you")]
        # Both workers see the same card, on which nothing is timed beside another.
        timed = [migrate_jobs.job(tmp_path, "seat 0.3", gpus=1) for _ in range(4)]
        for job in [*jobs, *timed]:
            made.submit(job)
        done = all_of(made, [*jobs, *timed])
        assert {each.ending for each in done} == {Ending.FINISHED}
        assert {each.worker for each in done} == {"their-0", "their-1"}
        assert (jobs[1].folder / OUT / "said" / "words").read_text() == "you"
        seats = sorted(json.loads((job.folder / OUT / "seat").read_text()) for job in timed)
        assert all(ended <= began for (_, ended, *_), (began, *_) in itertools.pairwise(seats))
        assert {visible for *_, visible in seats} == {"GPU-of-nobody"}

        with cluster(scheduler, shared_folder=True) as in_place:
            job = migrate_jobs.job(shared, "say here")
            in_place.submit(job)
            assert all_of(in_place, [job])[0].ending is Ending.FINISHED
            assert (job.folder / OUT / "said" / "words").read_text() == "here"

        with monkeypatch.context() as patch:
            patch.setattr("perfmod.migrate.engines.cluster.__version__", "99.0")
            job = migrate_jobs.job(tmp_path, "say hello")
            made.submit(job)
            assert all_of(made, [job])[0].ending is Ending.FINISHED
            refused = read_result(job.folder)
            assert isinstance(refused, Refused)
            assert (refused.outcome, refused.cause) == (Outcome.FAILED, Cause.WORKER_VERSION)
            assert "99.0" in refused.reason
            assert "0.1.0" in refused.reason

        with monkeypatch.context() as patch:
            patch.setattr(packing, "LIMIT", 100_000)
            job = migrate_jobs.job(tmp_path, "say hello")
            (job.folder / "snapshot.tar").write_bytes(os.urandom(200_000))
            made.submit(job)
            assert all_of(made, [job])[0].reason.startswith("cannot be sent: 0 MB are more than the 0 MB that travel")


@pytest.mark.exhaustive
def test_whoever_is_killed_leaves_no_work_on_the_workers_of_others(scheduler: str, tmp_path: Path) -> None:
    starter = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import migrate_jobs, pathlib\n"
        "from perfmod.migrate.engines.cluster import ClusterEngine\n"
        "engine = ClusterEngine(sys.argv[2], jobs=1, gpus=())\n"
        "engine.submit(migrate_jobs.job(pathlib.Path(sys.argv[3]), 'sleep 600'))\n"
        "engine.next(600)\n"
    )
    with worker(scheduler, tmp_path):
        support = str(migrate_jobs.PIECES.parent)
        process = subprocess.Popen([sys.executable, "-c", starter, support, scheduler, str(tmp_path)])
        pieces = pieces_of("perfmod.migrate.work")
        process.kill()
        process.wait()
        psutil.wait_procs(pieces, timeout=10)
        assert not any(piece.is_running() for piece in pieces)
        with cluster(scheduler, patience=1) as made:
            made.submit(migrate_jobs.job(tmp_path, "say hello", gpus=1))
            with pytest.raises(Failure, match=r'no worker with a GPU has come for 1 s.*--resources "GPU=1"$'):
                made.next(20)


@pytest.mark.exhaustive  # the client tries for half a minute to come back
def test_a_scheduler_that_goes_is_no_fault_of_the_jobs(tmp_path: Path) -> None:
    with somebodys_scheduler(tmp_path) as (process, address), worker(address, tmp_path), cluster(address) as made:
        made.submit(migrate_jobs.job(tmp_path, "sleep 600"))
        # The worker may come later than the job.
        assert made.next(4) is None
        pieces = pieces_of("perfmod.migrate.work")
        process.kill()
        with pytest.raises(Failure, match="the scheduler is gone; resume when it is there again"):
            made.next(20)
        psutil.wait_procs(pieces, timeout=10)
        assert not any(piece.is_running() for piece in pieces)
        began = time.monotonic()
    assert time.monotonic() - began < 10


def test_where_nobody_answers_it_says_so() -> None:
    with pytest.raises(Failure, match="no scheduler answers there; start one with: dask scheduler"):
        ClusterEngine("tcp://127.0.0.1:9", jobs=1, gpus=(), patience=1)
    with pytest.raises(UsageMistake, match="is no address of a scheduler"):
        ClusterEngine("nonsense://x", jobs=1, gpus=(), patience=1)


def test_what_travels_stays_in_its_folder(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "out" / "empty").mkdir(parents=True)
    here.mkdir()
    (there / "out" / "script").write_text("x")
    (there / "out" / "script").chmod(0o755)
    (there / "out" / "link").symlink_to("/etc/passwd")
    (here / "out").mkdir()
    (here / "out" / "old").touch()
    packing.unpack_results(packing.packed(there, ("out", "missing")), here)
    assert sorted(path.name for path in (here / "out").iterdir()) == ["empty", "script"]
    assert (here / "out" / "script").stat().st_mode & 0o777 == 0o755
    assert list(here.iterdir()) == [here / "out"]
    with pytest.raises(Failure, match="cannot be unpacked"):
        packing.unpack_results(packing.packed(there, ("out",))[20:], here)
