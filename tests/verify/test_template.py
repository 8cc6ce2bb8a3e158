"""Forked runs look to their scripts like processes of their own; what would make a difference is not forked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from verify_workshop import DRIVER, MARK, Workshop, job, wait_for

from perfmod.verify import disguise
from perfmod.verify.failures import Kind
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux")

SEES = """
import sys
main, hidden = sorted(globals()), [name for name in sys.modules if name.partition(".")[0] == "torch"]
import torch.nn
import faulthandler, multiprocessing, resource, signal, tempfile, threading
record(
    main=main,
    torch=[hidden, torch.nn.__name__, torch.__spec__.origin, type(torch.__loader__).__name__],
    names=[__name__, __file__, repr(__spec__), type(__loader__).__name__],
    call=[sys.argv, sys.orig_argv, os.getcwd(), sys.path, repr(sys.flags), multiprocessing.process.ORIGINAL_DIR],
    environment=dict(os.environ),
    others_see=open("/proc/self/environ").read().count(os.environ["RUN_OF_PROCESSES"]),
    leads=[os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    signals=[repr(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    masked=[*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    limits=[resource.getrlimit(number) for name, number in vars(resource).items() if name.startswith("RLIMIT")],
    streams=[
        [each.isatty(), each.seekable(), each.line_buffering, each.encoding, each.errors, each.name, each.mode]
        for each in (sys.stdin, sys.stdout, sys.stderr)
    ],
    files=sorted(os.listdir("/proc/self/fd")),
    processes=[repr(multiprocessing.parent_process()), threading.active_count(), faulthandler.is_enabled()],
    aliases=sys.modules["__mp_main__"] is sys.modules["__main__"],
    temporary=tempfile.gettempdir(),
)
"""
FORKED = "record(forked='serve' in open('/proc/self/cmdline').read())"


def test_what_a_script_sees(workshop: Workshop) -> None:
    workshop.write(SEES)
    forked, alone = (seen(workshop, forks) for forks in (True, False))
    assert forked.keys() == alone.keys()
    for what in alone:
        assert forked[what] == alone[what], what


def seen(workshop: Workshop, forks: bool) -> dict[str, Any]:
    """What the script sees in a run, without the names that are new in each."""
    with Scratch.temporary() as scratch:
        ran = Runner(scratch, workshop.call("a", "--b=c"), forks=forks).run(workshop.side(), job())
    assert ran.trouble is None, ran.tail
    environment = ran.records[0]["environment"]
    text = json.dumps(ran.records[0]).replace(environment["RUN_OF_PROCESSES"], "the run")
    (harness,) = {Path(entry) for entry in environment["PYTHONPATH"].split(os.pathsep)}
    (variable,) = (name for name in environment if name.endswith("_JOB"))
    for own, name in ((str(harness), "the harness"), (str(harness.parent), "the scratch"), (variable, "the job")):
        text = text.replace(own, name)
    record: dict[str, Any] = json.loads(text)
    return record


@pytest.mark.parametrize(("before", "forked"), [
    ("", True),
    ("os.environ['WANDB_MODE'] = 'dryrun'", True),
    ("os.environ['OMP_NUM_THREADS'] = '3'", False),
    ("os.environ.pop('HOME')", False),
    ("os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])", False),
    ("import multiprocessing; os.environ['MKL_DYNAMIC'] = 'no'; in_child(lambda: __import__('torch'))", False),
])  # fmt: skip
def test_what_torch_reads_when_it_is_imported(workshop: Workshop, before: str, forked: bool) -> None:
    if "affinity" in before and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is but one processor")
    assert runs(workshop, f"{IN_CHILD}{before}\nimport torch\n{FORKED}") == [forked, forked]


IN_CHILD = """
def in_child(work):
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()

"""


def test_a_module_of_the_users_that_torch_would_import(workshop: Workshop) -> None:
    workshop.write("", "colorsys.py")
    assert runs(workshop, f"import torch\n{FORKED}") == [False, False]


def test_a_torch_that_has_started_threads(workshop: Workshop) -> None:
    with (disguise.PLAIN / "torch" / "__init__.py").open("a") as file:
        file.write("import threading, time\nthreading.Thread(target=time.sleep, args=[9], daemon=True).start()")
    assert runs(workshop, f"import torch\n{FORKED}") == [False, False]


def test_the_process_that_forks_is_killed(workshop: Workshop) -> None:
    assert runs(workshop, f"os.kill(os.getppid(), 9)\nimport time\ntime.sleep(0.3)\n{FORKED}", 1) == [True]
    lost = workshop.script("os.kill(os.getppid(), 9)\nraise ValueError('lost')")
    assert lost.trouble is not None
    assert lost.trouble.kind is Kind.CRASHED


def runs(workshop: Workshop, code: str, count: int = 2) -> list[bool]:
    """Whether the runs of a script, one after the other, were forked."""
    workshop.write(code)
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, workshop.call())
        ran: list[Ran] = [runner.run(workshop.side(), job()) for _ in range(count)]
    assert [each.trouble for each in ran] == [None] * count, ran[0].tail
    return [each.records[0]["forked"] for each in ran]


def test_nothing_is_left_where_perfmod_is_killed(workshop: Workshop, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    workshop.write(f"import time\nopen({str(ready)!r}, 'w').write('ready')\ntime.sleep(600)")
    settings = {"TMPDIR": tempfile.gettempdir(), "PYTHONPATH": str(disguise.PLAIN), MARK: workshop.mark}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(workshop.root / "train.py")], env={**os.environ, **settings}
    )
    wait_for(ready)
    driver.kill()
    driver.wait()
    psutil.wait_procs(workshop.processes(), timeout=10)
    assert workshop.processes() == []
    for folder in Path(tempfile.gettempdir()).iterdir():
        shutil.rmtree(folder)
