"""Scripts that misbehave: each ends with one clear line, no process left behind, no file of the user's changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from array import array
from pathlib import Path
from typing import Any

import psutil
import pytest
from verify_workshop import DRIVER, MARK, Workshop, fingerprint, job, wait_for

from perfmod.errors import Failure
from perfmod.verify import disguise, family, processes, running
from perfmod.verify.failures import Kind
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import Side


def assert_trouble(ran: Ran, kind: Kind, *words: str) -> None:
    """The run failed in this way, and its line says so."""
    assert ran.trouble is not None
    assert ran.trouble.kind is kind, ran.trouble
    for each in words:
        assert each in ran.trouble.reason
    assert ran.trouble.reason.isprintable()


def test_what_the_harness_saw_comes_back(workshop: Workshop) -> None:
    ran = workshop.script("record(losses=[1.5, float('nan')])\nprint('done')")
    assert ran.trouble is None
    (record,) = ran.records
    assert record["losses"][0] == 1.5
    assert ran.sketches == (array("d", [0.0, 0.5]),)
    assert ran.tail == "done\n"
    assert 0 < ran.seconds < 300


def test_replaced_bytes_are_what_runs(workshop: Workshop) -> None:
    workshop.write("print('original')")
    side = Side("rewritten", workshop.side().tree, Path("train.py"), {Path("train.py"): b"print('rewritten')"})
    with Scratch.temporary() as scratch:
        ran = Runner(scratch, workshop.call()).run(side, job())
    assert ran.tail == "rewritten\n"


def test_crash(workshop: Workshop) -> None:
    workshop.write("def load():\n    raise ValueError('no such label')\n", "data/labels.py")
    assert_trouble(
        workshop.script("from data import labels\nlabels.load()"),
        Kind.CRASHED,
        "it crashed: ValueError: no such label (data/labels.py:3)",
    )


def test_never_steps(workshop: Workshop) -> None:
    assert_trouble(workshop.script("record(steps={}, ended='exit')"), Kind.NEVER_STEPPED, "before a torch optimizer")
    stuck = workshop.script("record(steps={}, ended='stuck', backwards=501)")
    assert_trouble(stuck, Kind.NEVER_STEPPED, "after 501 backward passes")
    assert_trouble(workshop.script("print('hello')"), Kind.NO_RECORD, "never imports torch")


def test_hang_says_where(workshop: Workshop) -> None:
    ran = workshop.script(
        """
        import faulthandler, signal, time
        faulthandler.register(signal.SIGUSR1)
        def wait():
            time.sleep(600)
        print("epoch 1", flush=True)
        wait()
        """,
        timeout=1.5,
    )
    assert_trouble(ran, Kind.TIME_LIMIT, "it had not finished after 1.5 s", "was at train.py:5", "--timeout")
    assert 1.5 <= ran.seconds < 300


def test_hang_without_a_word_of_where(workshop: Workshop) -> None:
    ran = workshop.script("import time\nprint('epoch 1\\r50%', flush=True)\ntime.sleep(600)", timeout=1)
    assert_trouble(ran, Kind.TIME_LIMIT, "its last output was: 50%")


def test_hang_in_a_worker(workshop: Workshop) -> None:
    workshop.write(
        """
        import multiprocessing, time
        def work():
            while True:
                time.sleep(0.01)
        if __name__ == "__main__":
            workers = [multiprocessing.get_context("spawn").Process(target=work) for _ in range(2)]
            for worker in workers: worker.start()
            for worker in workers: worker.join()
        """
    )
    assert_trouble(workshop.run(timeout=2), Kind.TIME_LIMIT, "had printed nothing")


def test_megabytes_of_output(workshop: Workshop) -> None:
    ran = workshop.script(
        """
        import sys
        for number in range(50):
            sys.stdout.write("x" * 2**20 + "\\n")
        record()
        print("the end")
        """
    )
    assert ran.trouble is None
    assert len(ran.tail) <= processes.TAIL
    assert ran.tail.endswith("x\nthe end\n")


def test_checkpoints_are_written_to_the_copy(workshop: Workshop) -> None:
    workshop.write(
        """
        import pathlib, sys
        for path in ("train.py", "runs/last.pt", sys.argv[1], sys.argv[2].partition("=")[2], "../sibling.txt"):
            pathlib.Path(path).write_text("overwritten")
        pathlib.Path("runs/last.pt").chmod(0)
        pathlib.Path("setup.py").unlink()
        record()
        """
    )
    (workshop.root / "runs").mkdir()
    (workshop.root / "runs" / "last.pt").write_text("precious")
    (workshop.root / "best.pt").write_text("precious")
    before = fingerprint(workshop.root)
    ran = workshop.run(str(workshop.root / "best.pt"), f"--out={workshop.root / 'runs' / 'new.pt'}")
    assert ran.trouble is None, ran.tail
    assert fingerprint(workshop.root) == before
    assert not (workshop.root.parent / "sibling.txt").exists()


def test_runs_do_not_resume_from_each_other(workshop: Workshop) -> None:
    workshop.write(
        "import pathlib\nassert not pathlib.Path('last.pt').exists()\npathlib.Path('last.pt').touch()\nrecord()"
    )
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, workshop.call())
        assert [runner.run(workshop.side(), job()).trouble for _ in range(2)] == [None, None]


def test_children_that_outlive_the_script(workshop: Workshop) -> None:
    ran = workshop.script("import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '600'])\nrecord()")
    assert ran.trouble is None


def test_daemon_in_a_session_of_its_own(workshop: Workshop) -> None:
    ran = workshop.script(
        """
        import time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()
        record()
        """
    )
    assert ran.trouble is None


def test_daemon_that_wiped_its_environment(workshop: Workshop) -> None:
    """Seen while it still had a parent; its mark is gone, so it says itself who it is."""
    pid_file = workshop.root.parent / "pid"
    ran = workshop.script(
        f"""
        import time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with open({str(pid_file)!r}, "w") as file: file.write(str(os.getpid()))
                os.execve("/bin/sleep", ["sleep", "600"], {{}})
            time.sleep(1.2)
            os._exit(0)
        os.wait()
        record()
        """
    )
    assert ran.trouble is None
    pid = int(pid_file.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("ending", ["record()", "time.sleep(600)"], ids=["after its record", "hanging"])
def test_sigterm_is_ignored(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(running, "GRACE_AFTER_RESULTS", 0.5)
    monkeypatch.setattr(family, "GRACE", 0.5)
    ran = workshop.script(
        f"""
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        if os.fork():
            {ending}
        while True:
            time.sleep(1)
        """,
        timeout=1.5,
    )
    if ending == "record()":
        assert ran.trouble is None
    else:
        assert_trouble(ran, Kind.TIME_LIMIT)


def test_processes_that_fork_when_they_are_ended(workshop: Workshop) -> None:
    ran = workshop.script(
        """
        import signal, time
        def multiply(*_):
            os.fork()
        signal.signal(signal.SIGTERM, multiply)
        print("ready", flush=True)
        while True:
            time.sleep(0.1)
        """,
        timeout=1.5,
    )
    assert_trouble(ran, Kind.TIME_LIMIT, "ready")


@pytest.mark.parametrize("asking", ["input('Continue? ')", "import getpass; getpass.getpass()"])
@pytest.mark.filterwarnings("ignore")
def test_input_is_wanted(workshop: Workshop, asking: str) -> None:
    assert_trouble(workshop.script(asking), Kind.INPUT_WANTED, "it asks for input", "train.py:2")


def test_disk_is_full(workshop: Workshop) -> None:
    """Of the script's own writing; a limit on the size of files would be another error."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no device that is always full")
    ran = workshop.script("with open('/dev/full', 'wb', buffering=0) as file: file.write(b'x')")
    assert_trouble(ran, Kind.NO_SPACE, "the disk is full", "train.py:2")


def test_out_of_memory(workshop: Workshop) -> None:
    assert_trouble(workshop.script("x = bytearray(2**60)"), Kind.HOST_MEMORY, "this machine is out of memory")
    killed = workshop.script("import signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert_trouble(killed, Kind.HOST_MEMORY, "it was killed", "out of memory")


def test_segmentation_fault(workshop: Workshop) -> None:
    ran = workshop.script("import ctypes\ndef touch():\n    ctypes.string_at(0)\ntouch()")
    assert_trouble(ran, Kind.SIGNALLED, "SIGSEGV at train.py:4")


def test_wrong_arguments(workshop: Workshop) -> None:
    workshop.write(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        parser.parse_args()
        """
    )
    assert_trouble(workshop.run(), Kind.USAGE, "train.py: error: the following arguments are required: --data", "--")


def test_exit_status(workshop: Workshop) -> None:
    assert_trouble(
        workshop.script("raise SystemExit('no data in ./data')"), Kind.EXITED, "status 1", "no data in ./data"
    )
    assert_trouble(workshop.script("os._exit(7)"), Kind.EXITED, "status 7", "printed nothing")


@pytest.mark.parametrize(("code", "told"), [("3", "status 3"), ("0", "is this the training script?")])
def test_status_of_a_script_that_takes_its_time_to_end(workshop: Workshop, code: str, told: str) -> None:
    """The harness has delivered, and torch has yet to be taken down."""
    ran = workshop.script(
        f"import sys, time\nprint('nothing to do', flush=True)\nrecord(steps={{}}, ended='exit')\n"
        f"time.sleep(0.6)\nsys.exit({code})"
    )
    assert ran.trouble is not None
    assert told in ran.trouble.reason
    assert "nothing to do" in ran.trouble.reason


def test_a_script_without_a_training_that_does_not_end(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_AFTER_NOTHING", 0.5)
    ran = workshop.script("import time\nrecord(steps={}, ended='exit')\ntime.sleep(600)")
    assert_trouble(ran, Kind.NEVER_STEPPED, "before a torch optimizer had stepped", "it printed nothing")
    assert ran.seconds < 300


def test_trains_on_the_cpu(workshop: Workshop) -> None:
    workshop.write(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("-a", "--accel", action="store_true")
        record(on_cpu=True, modules=["train.py"])
        """
    )
    assert_trouble(workshop.run(device="cuda"), Kind.ON_CPU, "it trains on the CPU; does --accel choose the device?")
    assert workshop.run(device="cpu").trouble is None


def test_interpreter_that_cannot_be_started(workshop: Workshop) -> None:
    workshop.write("record()")
    missing = workshop.run(python=str(workshop.root / "bin" / "python"))
    assert_trouble(missing, Kind.INTERPRETER, "bin/python: cannot be started: no such file or directory", "--python")
    assert_trouble(workshop.run(python=str(workshop.root)), Kind.INTERPRETER, "permission denied")


def test_run_ends_when_every_rank_has_delivered(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_AFTER_RESULTS", 0.5)
    ran = workshop.script("import time\nrecord()\ntime.sleep(600)")
    assert ran.trouble is None
    assert ran.seconds < 300


def test_torchrun(workshop: Workshop) -> None:
    shutil.rmtree(disguise.PLAIN / "torch")
    ran = workshop.script("record(int(os.environ['RANK']), world=os.environ['WORLD_SIZE'])", nproc=2, timeout=600)
    assert ran.trouble is None, ran.tail
    assert [(record["rank"], record["world"]) for record in ran.records] == [(0, "2"), (1, "2")]
    assert [sketch[0] for sketch in ran.sketches] == [0.0, 1.0]


def test_torchrun_with_a_rank_that_crashes(workshop: Workshop) -> None:
    shutil.rmtree(disguise.PLAIN / "torch")
    ran = workshop.script(
        "import time\nif os.environ['RANK'] == '1':\n    raise ValueError('odd rank')\ntime.sleep(600)",
        nproc=2,
        timeout=600,
    )
    assert_trouble(ran, Kind.CRASHED, "ValueError: odd rank (train.py:4)")


def test_memory_of_all_processes(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.shared_memory_mib() == pytest.approx(shutil.disk_usage("/dev/shm").used / 2**20, abs=64)
    # Others use it, too, and may free theirs meanwhile: only what this run writes there is counted.
    file = Path("/dev/shm") / uuid.uuid4().hex
    monkeypatch.setattr(processes, "shared_memory_mib", lambda: file.stat().st_size / 2**20 if file.exists() else 0.0)
    ran = workshop.script(
        f"""
        import multiprocessing, time
        def hold():
            held = bytearray(os.urandom(1)) * (150 * 2**20)
            time.sleep(1)
        if __name__ == "__main__":
            worker = multiprocessing.Process(target=hold)
            worker.start()
            with open("{file}", "wb") as file:
                file.write(bytes(40 * 2**20))
            worker.join()
            os.unlink(file.name)
            record()
        """
    )
    assert ran.trouble is None, ran.tail
    assert ran.peak_resident_mib is not None
    assert 150 < ran.peak_resident_mib < 600
    assert ran.peak_shm_mib is not None
    assert ran.peak_shm_mib == 40


def test_memory_is_not_sampled(workshop: Workshop) -> None:
    workshop.write("record()")
    with Scratch.temporary() as scratch:
        ran = Runner(scratch, workshop.call(), sample_memory=False).run(workshop.side(), job())
    assert ran.trouble is None
    assert ran.peak_resident_mib is None
    assert ran.peak_shm_mib is None


def test_runs_side_by_side_keep_their_order(workshop: Workshop) -> None:
    code = "import time\nnumber = int(open('number').read())\ntime.sleep(1 - number / 2)\nrecord(number=number)"
    workshop.write(code)
    tree = workshop.side().tree
    sides = [Side(str(n), tree, Path("train.py"), {Path("number"): str(n).encode()}) for n in range(2)]
    with Scratch.temporary() as scratch:
        start = time.monotonic()
        ran = Runner(scratch, workshop.call()).run_all([(side, job()) for side in sides], 2)
        seconds = time.monotonic() - start
    assert [each.records[0]["number"] for each in ran] == [0, 1]
    assert seconds < sum(each.seconds for each in ran)


def test_run_that_fails_beside_another_is_repeated_alone(workshop: Workshop, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    workshop.write(
        f"""
        import pathlib, socket, time
        begun = pathlib.Path({str(begun)!r})
        (begun / str(os.getpid())).touch()
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", {port}))
        server.listen()
        while len(os.listdir(begun)) < 2:
            time.sleep(0.02)
        time.sleep(0.4)  # by then the other has asked for the port, too
        record()
        """
    )
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, workshop.call())
        assert [ran.trouble for ran in runner.run_all([(workshop.side(), job())] * 2, 2)] == [None, None]
        assert len(list(begun.iterdir())) == 3
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
            assert_trouble(runner.run(workshop.side(), job()), Kind.PORT_TAKEN, "Address already in use")


def test_copy_that_fails_ends_the_other_runs(workshop: Workshop) -> None:
    workshop.write("import time\ntime.sleep(600)")
    good = workshop.side()
    (workshop.root / "module.py").touch()
    bad = workshop.side()
    (workshop.root / "module.py").write_text("edited = 1\n")
    start = time.monotonic()
    with Scratch.temporary() as scratch, pytest.raises(Failure, match="was edited"):
        Runner(scratch, workshop.call()).run_all([(good, job()), (bad, job())], 2)
    assert time.monotonic() - start < 300


STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleeper = [sys.executable, "-c", "import time, os; os.setsid(); time.sleep(600)"]
subprocess.Popen(sleeper)
subprocess.Popen(["sleep", "600"])
pathlib.Path(os.environ["READY"] + "-" + os.environ["RUN_OF_PROCESSES"]).write_text("ready")
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize(("numbers", "status"), [
    ([signal.SIGINT], 130),
    ([signal.SIGINT] * 4, 130),
    ([signal.SIGTERM], 143),
    ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], 143),
    ([signal.SIGHUP], 129),
], ids=["Ctrl-C", "impatient Ctrl-C", "SIGTERM", "several", "SIGHUP"])  # fmt: skip
def test_interrupted(workshop: Workshop, tmp_path: Path, numbers: list[int], status: int) -> None:
    """A process like perfmod's, with two runs and their children alive, is ended by somebody."""
    workshop.write(STUBBORN)
    before = fingerprint(workshop.root)
    ready = tmp_path / "ready"
    settings = {"READY": str(ready), "TMPDIR": tempfile.gettempdir(), "PYTHONPATH": str(disguise.PLAIN)}
    environment = {**os.environ, MARK: workshop.mark, **settings}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workshop.root / "train.py")],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while len(list(tmp_path.glob("ready-*"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for path in tmp_path.glob("ready-*"):
        wait_for(path)
    for number in numbers:
        driver.send_signal(number)
        time.sleep(0.1)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == status, said
    assert said == ""
    assert fingerprint(workshop.root) == before


def test_called_like_the_user_calls_it(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # torch sets it where something was compiled
    workshop.write(
        """
        import sys
        here = os.path.dirname(__file__)
        record(cwd=os.getcwd(), argv=sys.argv, path=sys.path, environment=dict(os.environ), root=here)
        """,
        "tools/train.py",
    )
    (workshop.root / "train.py").symlink_to("tools/train.py")
    (workshop.root / "library").mkdir()
    (tmp_path / "elsewhere").mkdir()
    record = run_from(workshop, workshop.root, "a", "--data", "library/", PYTHONPATH=f"library{os.pathsep}{tmp_path}")
    assert record["cwd"] == str(Path(record["root"]).parent)
    assert record["argv"][1:] == ["a", "--data", "library/"]
    root, harness, *library = record["path"][:4]
    assert (root, library) == (record["root"], [f"{record['cwd']}/library", str(tmp_path)])
    assert Path(harness).parent.parent == Path(tempfile.gettempdir())
    environment = record["environment"]
    assert environment["PWD"] == record["cwd"]
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["WANDB_MODE"] == "disabled"
    assert environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    temporary, compiled = (Path(environment[name]) for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR"))
    assert not temporary.is_relative_to(record["cwd"])
    assert temporary.parent.parent == compiled.parent, "runs compile into the same folder"
    assert Path(environment["PYTHONPYCACHEPREFIX"]).parent == compiled.parent
    elsewhere = run_from(workshop, tmp_path / "elsewhere")
    assert elsewhere["cwd"] == elsewhere["root"]


def test_bytecode_of_libraries_is_read_where_it_lies(workshop: Workshop) -> None:
    environment = workshop.script("record(**os.environ)", has_bytecode=True).records[0]
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "PYTHONPYCACHEPREFIX" not in environment


def run_from(workshop: Workshop, cwd: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """The record of a run that the user starts in `cwd`."""
    with Scratch.temporary() as scratch:
        call = workshop.call(*arguments, cwd=cwd, environment=environment)
        side = workshop.side()
        ran = Runner(scratch, call).run(Side("original", side.tree, Path("tools/train.py")), job())
    assert ran.trouble is None, ran.tail
    found: dict[str, Any] = json.loads(json.dumps(ran.records[0]))
    return found
