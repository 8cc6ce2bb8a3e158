"""A place to run small scripts in, that notices what they leave behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
from attrs import define

from perfmod.verify.calling import Call
from perfmod.verify.job import Job, Mode
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import Side
from perfmod.verify.tree import Tree

MARK = "PERFMOD_TEST_WORKSHOP"
"""Environment variable that all processes of a workshop inherit."""
RECORDER = """\
import json, os, pathlib, struct

def record(rank=0, **fields):
    job = next(value for value in os.environ.values() if value.endswith("job.json"))
    out = pathlib.Path(json.load(open(job))["out"])
    known = {"rank": rank, "seconds": 1.0, "ended": "steps", "error": None, "steps": {"0": 3}, "backwards": 3}
    (out / f"rank{rank}.f64").write_bytes(struct.pack("=2d", rank, 0.5))
    (out / f"rank{rank}.new").write_text(json.dumps({**known, **fields}))
    (out / f"rank{rank}.new").rename(out / f"rank{rank}.json")
"""
"""A module that stands in for the harness: scripts call `record()` where they would have trained."""
DRIVER = """\
import sys
from pathlib import Path
from perfmod.verify import family
from perfmod.verify.calling import Call
from perfmod.verify.interrupts import terminable
from perfmod.verify.job import Job, Mode
from perfmod.verify.running import Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import Side
from perfmod.verify.tree import Tree

family.GRACE = 0.6  # whoever is impatient presses Ctrl-C four times in it
script = Path(sys.argv[1])
side = Side("original", Tree.of(script), Path(script.name))
job = Job(Mode.EQUALITY, Path(), Path(), "cpu")
try:
    with terminable(), Scratch.temporary() as scratch:
        Runner(scratch, Call(sys.executable, cwd=script.parent)).run_all([(side, job)] * 2, 2)
except KeyboardInterrupt:
    sys.exit(130)
"""
"""A process like perfmod's, which runs a script twice at once."""
_FIRST_LINE = "import os; from recorder import record\n"


@define
class Workshop:
    """A project of the user's, and a runner for its `train.py`."""

    root: Path
    python: str
    mark: str

    def write(self, code: str, name: str = "train.py") -> None:
        """Write a file of the project; `record` can be called in it. The code begins on line 2."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_FIRST_LINE + textwrap.dedent(code).lstrip("\n"))

    def side(self, nproc: int | None = None) -> Side:
        """The project as it is now."""
        return Side("original", Tree.of(self.root / "train.py"), Path("train.py"), nproc=nproc)

    def call(self, *arguments: str, **fields: Any) -> Call:
        """How `train.py` is called from the project's root."""
        environment = {**os.environ, MARK: self.mark, **fields.pop("environment", {})}
        return Call(**{"python": self.python, "cwd": self.root, **fields}, arguments=arguments, environment=environment)

    def run(
        self, *arguments: str, timeout: float = 300.0, device: str = "cpu", nproc: int | None = None, **fields: Any
    ) -> Ran:
        """Run it, once."""
        with Scratch.temporary() as scratch:
            return Runner(scratch, self.call(*arguments, **fields), timeout).run(self.side(nproc), job(device))

    def script(self, code: str, *arguments: str, **fields: Any) -> Ran:
        """Write `train.py` and run it."""
        self.write(code)
        return self.run(*arguments, **fields)

    def processes(self) -> list[psutil.Process]:
        """Those that the scripts started and that are alive."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


def job(device: str = "cpu") -> Job:
    """Any job; runners set its folders."""
    return Job(Mode.EQUALITY, Path(), Path(), device)


def fingerprint(folder: Path) -> dict[str, str]:
    """What lies in a folder: contents, times and modes by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = f"{state.st_mtime_ns} {state.st_mode} {content}"
    return found


def wait_for(path: Path, seconds: float = 300.0) -> None:
    """Until a file is there and has something in it."""
    deadline = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.02)
