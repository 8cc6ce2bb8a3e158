"""A piece of work that does what the name of the project says: `sleep 2`, `crash`, `fill 200`, ..."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfmod.migrate.results import Analysis, AnalysisRequest

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


def run(request: AnalysisRequest, folder: Path) -> Analysis:
    from perfmod.errors import Failure, UsageMistake
    from perfmod.migrate.results import Analysis, Outcome

    what, *arguments = request.project.split()
    if what == "say":
        (folder / "out" / "said").mkdir()
        (folder / "out" / "said" / "words").write_text(" ".join(arguments))
        print(*arguments)
    elif what == "sleep":
        time.sleep(float(arguments[0]))
    elif what == "seat":
        began = time.time()
        time.sleep(float(arguments[0]))
        seen = [began, time.time(), sorted(os.sched_getaffinity(0)), os.environ.get("CUDA_VISIBLE_DEVICES")]
        (folder / "out" / "seat").write_text(json.dumps(seen))
    elif what == "fill":
        filled = bytearray(int(arguments[0]) * 2**20)
        filled[::4096] = bytes([1]) * len(filled[::4096])
    elif what == "crash":
        raise ValueError("what a\x1b[31m mess")
    elif what == "mistake":
        raise UsageMistake("pyproject.toml: no such rule")
    elif what == "failure":
        raise Failure("the disk is strange")
    elif what == "full":
        raise Failure("cannot be written") from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    elif what == "die":
        os.kill(os.getpid(), getattr(signal, arguments[0]))
    elif what == "chatter":
        sys.stdout.write("first line\n")
        for _ in range(300):
            sys.stdout.write("." * 9999 + "\n")
        sys.stdout.write("last line\n")
    elif what == "family":
        # A grandchild that ignores SIGTERM, in a session of its own, whose parent is gone.
        middle = (
            "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)"
        )
        subprocess.run([sys.executable, "-c", middle, STUBBORN, arguments[0]], check=True)
        while not Path(arguments[0]).exists() or not Path(arguments[0]).read_text():
            time.sleep(0.02)
        time.sleep(float(arguments[1]))
    elif what == "stdin":
        (folder / "out" / "stdin").write_text(repr(sys.stdin.read()))
    elif what == "shadowed":
        # A module of the place in which it stands is nobody's.
        Path("shadow_of_nothing.py").write_text("")
        os.environ["PYTHONPATH"] = ""
        try:
            import shadow_of_nothing  # noqa: F401
        except ModuleNotFoundError:
            (folder / "out" / "safe").write_text("")
    elif what == "fell":
        # Kills whoever runs it, the first time or always.
        marker = Path(arguments[0])
        if len(arguments) == 1 or not marker.exists():
            marker.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
    return Analysis(Outcome.UNCHANGED, kind=what, notes=(request.project,))
