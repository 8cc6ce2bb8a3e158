"""The executable of `forked_python`: hands its call over to the server, and ends as the script does."""

import json
import os
import signal
import socket
import sys

READ_AT_IMPORT = ("OMP_", "MKL_", "KMP_", "PYTORCH_", "TORCH_", "LD_", "PYTHON")
FOLLOWED = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": None,  # one thread waits for no other
    "PYTHONHASHSEED": "0",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONWARNINGS": "ignore",
    "PYTHONDONTWRITEBYTECODE": None,
    "PYTHON_EXEC": None,
    "PYTHONPATH": None,
    "PYTHONPYCACHEPREFIX": None,
    "PYTHONUNBUFFERED": None,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": None,
}
"""Variables that the server follows, and the only value for which it does."""


def main(real: str, address: str, modules: tuple[str, ...]) -> None:
    """Run the script or one of the modules behind `address`, or else by the `real` Python."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["-u"]:  # so `torchrun` starts its processes
        del arguments[0]
        os.environ["PYTHONUNBUFFERED"] = "1"
    # A piece of work of `migrate` is called so; it takes itself off the path.
    called = arguments[1:] if modules and arguments[:1] == ["-P"] else arguments
    if not _can_be_forked(called, modules):
        os.execv(real, [real, *arguments])
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        call = {
            "executable": sys.argv[0] if modules else real,
            "arguments": called,
            "cwd": os.getcwd(),  # noqa: PTH109, starts faster without pathlib
            "environment": dict(os.environ),
            "cores": sorted(os.sched_getaffinity(0)),
        }
        socket.send_fds(server, [json.dumps(call).encode() + b"\n"], [0, 1, 2])
        answers = server.makefile()
        pid = int(answers.readline())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        status = int(answers.readline())
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _can_be_forked(arguments: list[str], modules: tuple[str, ...]) -> bool:
    """Whether it is a script, or one of the `modules` where there are some, and the server follows its environment."""
    if modules:
        if arguments[:1] != ["-m"] or arguments[1] not in modules:
            return False
    elif not arguments or arguments[0].startswith("-") or os.environ.get("OMP_NUM_THREADS") != "1":
        return False
    read = {name: value for name, value in os.environ.items() if name.startswith(READ_AT_IMPORT)}
    return all(name in FOLLOWED and FOLLOWED[name] in (None, value) for name, value in read.items())
