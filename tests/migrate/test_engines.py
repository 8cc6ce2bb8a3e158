"""Pieces of work as processes, and the engine of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import migrate_jobs
import psutil
import pytest

from perfmod.errors import Failure
from perfmod.migrate import execution
from perfmod.migrate.engines.local import LocalEngine
from perfmod.migrate.execution import execute
from perfmod.migrate.jobs import LOG, OUT, RESULT, Done, Ending, Job
from perfmod.migrate.results import Analysis, Cause, Outcome, Refused
from perfmod.migrate.work import read_result
from perfmod.seats import divided, gpus_of_this_machine
from perfmod.verify import family


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    migrate_jobs.use_stand_ins(monkeypatch)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that ignore SIGTERM are killed sooner than users' are."""
    monkeypatch.setattr(family, "GRACE", 0.5)


def run(job: Job) -> Done:
    return execute(job, cores=(), environment=dict(os.environ), cancelled=threading.Event())


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_piece_leaves_its_result_its_files_and_its_log(tmp_path: Path) -> None:
    job = migrate_jobs.job(tmp_path, "say hello")
    (job.folder / OUT).mkdir()
    (job.folder / OUT / "of-an-earlier-run").touch()
    (job.folder / RESULT).write_text("[]")
    done = run(job)
    assert (done.ending, done.reason) == (Ending.FINISHED, "")
    assert read_result(job.folder) == Analysis(Outcome.UNCHANGED, kind="say", notes=("say hello",))
    assert (job.folder / OUT / "said" / "words").read_text() == "hello"
    assert not (job.folder / OUT / "of-an-earlier-run").exists()
    assert (job.folder / LOG).read_text() == "hello\n"
    assert 0 < done.seconds < 30
    assert done.worker


def test_what_a_piece_cannot_do_is_its_result(tmp_path: Path) -> None:
    jobs = [migrate_jobs.job(tmp_path, what) for what in ("mistake", "failure", "full")]
    assert [run(job).ending for job in jobs] == [Ending.FINISHED] * 3
    assert [read_result(job.folder) for job in jobs] == [
        Refused(Outcome.FAILED, Cause.CONFIGURATION, "pyproject.toml: no such rule"),
        Refused(Outcome.FAILED, Cause.CRASH, "the disk is strange"),
        Refused(Outcome.FAILED, Cause.DISK, "cannot be written"),
    ]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("crash", r"exit code 1: ValueError: what a\x1b[31m mess"),
        ("die SIGKILL", "killed by SIGKILL, most likely because memory ran out"),
        ("die SIGSEGV", "killed by SIGSEGV"),
    ],
)
def test_a_crash_is_told_with_its_reason(tmp_path: Path, what: str, reason: str) -> None:
    job = migrate_jobs.job(tmp_path, what)
    done = run(job)
    assert (done.ending, done.reason) == (Ending.CRASHED, reason)
    with pytest.raises(Failure, match="cannot be read"):
        read_result(job.folder)


def test_a_folder_that_is_gone_is_a_crash(tmp_path: Path) -> None:
    job = migrate_jobs.job(tmp_path, "say hello")
    (job.folder / "request.json").unlink()
    job.folder.rmdir()
    assert run(job).reason == "cannot be started: no such file or directory"


def test_nothing_is_read_from_standard_input_nor_imported_from_the_folder(tmp_path: Path) -> None:
    stdin, shadowed = migrate_jobs.job(tmp_path, "stdin", timeout=10), migrate_jobs.job(tmp_path, "shadowed")
    assert run(stdin).ending is Ending.FINISHED
    assert (stdin.folder / OUT / "stdin").read_text() == "''"
    assert run(shadowed).ending is Ending.FINISHED
    assert (shadowed.folder / OUT / "safe").exists()


def test_of_much_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    job = migrate_jobs.job(tmp_path, "chatter")
    assert run(job).ending is Ending.FINISHED
    log = (job.folder / LOG).read_bytes()
    half = execution.HALF_A_LOG
    left_out = 3_000_000 + len(b"first line\nlast line\n") - 2 * half
    assert log.startswith(b"first line\n....")
    assert log.endswith(b"....\nlast line\n")
    assert f"\n[... {left_out} bytes left out ...]\n".encode() in log
    assert 2 * half < len(log) < 2 * half + 100


def test_memory_is_that_of_the_process(tmp_path: Path) -> None:
    # A process that is started from a larger one is told by the system to have been as large.
    ballast = bytearray(300 * 2**20)
    ballast[::4096] = bytes([1]) * len(ballast[::4096])
    small, large = run(migrate_jobs.job(tmp_path, "sleep 0.1")), run(migrate_jobs.job(tmp_path, "fill 150"))
    assert small.peak_mib is not None
    assert large.peak_mib is not None
    assert 5 < small.peak_mib < 120
    assert 120 < large.peak_mib - small.peak_mib < 180


@pytest.mark.parametrize("has_psutil", [True, False])
def test_at_its_time_limit_a_piece_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_psutil: bool
) -> None:
    if not has_psutil:
        monkeypatch.setattr("perfmod.migrate.relatives.HAS_FAMILIES", False)
    note = tmp_path / "pid"
    job = migrate_jobs.job(tmp_path, f"family {note} 600" if has_psutil else "sleep 600", timeout=1.5)
    done = run(job)
    assert (done.ending, done.reason) == (Ending.TIMEOUT, "took longer than 1.5 s")
    assert 1.5 <= done.seconds < 8
    if has_psutil:
        assert not is_alive(int(note.read_text()))


def test_what_a_piece_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    assert run(migrate_jobs.job(tmp_path, f"family {note} 0")).ending is Ending.FINISHED
    assert not is_alive(int(note.read_text()))


STARTER = """
import fcntl, os, sys
sys.path.insert(0, sys.argv[1])
import migrate_jobs
from pathlib import Path
from perfmod.migrate.engines.local import LocalEngine
lock = os.open(sys.argv[3], os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
engine = LocalEngine(2, ["cpu0"], pass_fds=[lock])
for number in range(2):
    engine.submit(migrate_jobs.job(Path(sys.argv[2]), f"family {sys.argv[2]}/pid{number} 600"))
engine.next(600)
"""


def test_when_whoever_runs_the_pieces_is_killed_they_end_and_the_lock_is_free(tmp_path: Path) -> None:
    lock, notes = tmp_path / "lock", [tmp_path / "pid0", tmp_path / "pid1"]
    support = str(migrate_jobs.PIECES.parent)
    starter = subprocess.Popen([sys.executable, "-c", STARTER, support, str(tmp_path), str(lock)])
    wait_until(lambda: all(note.exists() and note.read_text() for note in notes), 20)
    pieces = psutil.Process(starter.pid).children()
    assert len(pieces) == 2
    with lock.open() as file:
        # Those that are stopped hold the lock though their starter is gone.
        for piece in pieces:
            piece.suspend()
        starter.kill()
        starter.wait()
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for piece in pieces:
            piece.resume()
        wait_until(lambda: not any(is_alive(piece.pid) for piece in pieces))
        assert not any(is_alive(int(note.read_text())) for note in notes)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_cores_are_divided_among_seats_and_the_rest() -> None:
    assert divided(range(16), 1) == ([tuple(range(8))], tuple(range(8, 16)))
    assert divided(range(10), 2) == ([(0, 1, 2), (3, 4, 5)], (6, 7, 8, 9))
    assert divided(range(3), 2) == ([(0,), (1,)], (2,))
    assert divided(range(2), 2) == ([(0,), (1,)], (0, 1))
    assert divided([4, 6], 3) == ([(4,), (6,), (4,)], (4, 6))
    assert divided(range(4), 0) == ([], ())


@pytest.mark.parametrize(
    ("visible", "gpus"), [("0, 2", ["0", "2"]), ("", []), ("GPU-a,-1,1", ["GPU-a"]), ("-1", []), ("NoDevFiles", [])]
)
def test_gpus_are_those_that_are_visible(monkeypatch: pytest.MonkeyPatch, visible: str, gpus: list[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus_of_this_machine() == gpus


def test_gpus_are_those_that_nvidia_smi_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus_of_this_machine() == []
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU-one\necho GPU-two\n")
    program.chmod(0o755)
    assert gpus_of_this_machine() == ["GPU-one", "GPU-two"]
    program.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    assert gpus_of_this_machine() == []


@contextlib.contextmanager
def engine(jobs: int, gpus: list[str]) -> Iterator[LocalEngine]:
    made = LocalEngine(jobs, gpus)
    try:
        yield made
    finally:
        made.close()


def all_of(made: LocalEngine, number: int) -> list[Done]:
    found = [made.next(30) for _ in range(number)]
    assert made.next(0) is None
    return [each for each in found if each is not None]


def seat_of(job: Job) -> tuple[float, float, list[int], str]:
    began, ended, cores, visible = json.loads((job.folder / OUT / "seat").read_text())
    return began, ended, cores, visible


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
def test_two_seats_run_two_at_a_time_each_on_its_own_cores(tmp_path: Path) -> None:
    jobs = [migrate_jobs.job(tmp_path, "seat 0.4", gpus=1) for _ in range(5)]
    double = migrate_jobs.job(tmp_path, "seat 0.4", gpus=2)
    late = migrate_jobs.job(tmp_path, "seat 0.4", gpus=1)
    static = migrate_jobs.job(tmp_path, "seat 0.4")
    with engine(1, ["cpu0", "cpu1"]) as made:
        for job in [*jobs, double, late, static]:
            made.submit(job)
        assert {done.ending for done in all_of(made, 8)} == {Ending.FINISHED}
    spans = [seat_of(job) for job in [*jobs, double, late]]
    together = 0
    for index, (began, ended, cores, visible) in enumerate(spans):
        assert visible == ""
        for other_began, other_ended, other_cores, _ in spans[index + 1 :]:
            if began < other_ended and other_began < ended:
                together += 1
                assert len(os.sched_getaffinity(0)) == 1 or not set(cores) & set(other_cores)
    assert together >= 2
    assert len(spans[5][2]) == min(2, len(os.sched_getaffinity(0)))
    # The one that needs both got its turn before a later one that would have found a free seat.
    assert spans[6][0] > spans[5][1]
    # Work without GPUs went on beside.
    assert seat_of(static)[1] < spans[5][0]


def test_more_gpus_than_there_are_is_over_at_once(tmp_path: Path) -> None:
    job = migrate_jobs.job(tmp_path, "say hello", gpus=4)
    with engine(1, ["0", "1"]) as made:
        made.submit(job)
        assert made.next(0) == Done(job, Ending.CRASHED, "needs 4 GPUs; this machine has 2")


def test_gpus_are_handed_out(tmp_path: Path) -> None:
    jobs = [migrate_jobs.job(tmp_path, "seat 0.2", gpus=gpus) for gpus in (1, 1, 2)]
    with engine(1, ["GPU-a", "GPU-b"]) as made:
        for job in jobs:
            made.submit(job)
        all_of(made, 3)
    seen = [seat_of(job)[3] for job in jobs]
    assert sorted(seen[:2]) == ["GPU-a", "GPU-b"]
    assert sorted(seen[2].split(",")) == ["GPU-a", "GPU-b"]


def running_pieces() -> list[psutil.Process]:
    """Other tests of this process may have left children of theirs."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            found += [child] if "perfmod.migrate.work" in child.cmdline() else []
    return found


def test_room_is_what_can_start_at_once_and_closing_ends_all(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with engine(2, []) as made:
        assert made.room == 2
        made.submit(migrate_jobs.job(tmp_path, f"family {note} 600"))
        assert made.room == 1
        made.submit(migrate_jobs.job(tmp_path, "sleep 600"))
        made.submit(migrate_jobs.job(tmp_path, "sleep 600"))
        assert made.room == 0
        assert made.next(0.1) is None
        wait_until(lambda: note.exists() and note.read_text())
        pieces = running_pieces()
        assert len(pieces) == 2
    assert not any(is_alive(piece.pid) for piece in pieces)
    assert not is_alive(int(note.read_text()))
    assert not list(tmp_path.glob("job-2/log.txt"))


def test_a_signal_to_the_group_of_the_terminal_leaves_pieces_to_their_engine(tmp_path: Path) -> None:
    with engine(1, []) as made:
        made.submit(migrate_jobs.job(tmp_path, "sleep 0.5"))
        wait_until(running_pieces)
        assert os.getpgid(running_pieces()[0].pid) != os.getpgid(0)
        assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        assert [done.ending for done in all_of(made, 1)] == [Ending.FINISHED]
