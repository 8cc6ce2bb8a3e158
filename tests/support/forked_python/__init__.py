"""A Python that has imported torch or perfmod already: called like `python script.py`, and there at once.

The first import of torch and the first step of an optimizer take seconds, which most tests need not pay for each of
their scripts. `python()` is the path of an executable; behind it, one process for all of a test process imports torch
and forks for each script. Environment, working directory, processor cores, arguments, standard streams, exit status
and the end by a signal are those of the call. What cannot be had by forking runs in a new process all the same: other
options of Python or variables that torch reads while it is imported, and platforms without pidfds.

`perfmod()` is the same for `python -m perfmod`, whose rules take most of a second to import.

`PYTHONHASHSEED` is always 0. A script that compiles needs a process of its own: the compiler is imported already.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
THREADS = {"OMP_NUM_THREADS": "1"}
"""What has to be in the environment of a call that is to be forked."""
RANKS_BY = "PYTHON_EXEC"
"""The variable that tells `torchrun` by which executable to run its processes."""


def python() -> str:
    """The executable for scripts that train. The process behind it lives as long as this one."""
    return _executable("torch")


def perfmod() -> str:
    """The executable for `-m perfmod` and `-m cli_fakes`, without a terminal that is in charge of them.

    What they start by their own executable is forked in the same way.

    For tests of what a command says and writes; what starts or kills processes is tested by a Python of its own.
    """
    return _executable("perfmod", "perfmod", "cli_fakes", "perfmod.migrate.work")


@functools.cache
def _executable(imports: str, *modules: str) -> str:
    """What hands its calls over to a process that has imported something; without `modules`, those of scripts."""
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="forked-python-"))
    address, executable = folder / "socket", folder / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = subprocess.Popen(
        [sys.executable, str(_HERE / "server.py"), str(address), str(os.getpid()), imports],
        env={**environment, **THREADS, "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_end, server, folder)
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == "ready\n", f"the process that imports {imports} did not come up"
    client = (_HERE / "client.py").read_text(encoding="utf-8")
    executable.write_text(f"#!{sys.executable} -IS\n{client}main({sys.executable!r}, {str(address)!r}, {modules!r})\n")
    executable.chmod(0o700)
    return str(executable)


def _end(server: subprocess.Popen[str], folder: Path) -> None:
    server.kill()
    server.wait()
    shutil.rmtree(folder)
