"""The process behind `forked_python`: imports torch or perfmod, and forks for each call.

`server.py SOCKET PARENT WHAT`, where WHAT is one of `IMPORTS`.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import json
import multiprocessing.process
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from contextlib import suppress
from typing import Any, NoReturn


def import_torch() -> None:
    """All that a training imports, up to the first step of an optimizer."""
    import torch
    import torch._dynamo  # the first optimizer imports it
    import torch.utils.data

    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1).zero_grad()


def import_perfmod() -> None:
    """The command line with all rules."""
    for name in ("applying", "asking", "cli.main", "migrate.analysis", "migrate.branching", "review.session"):
        importlib.import_module(f"perfmod.{name}")
    importlib.import_module("perfmod.codemods.catalog").rules()


IMPORTS = {"torch": import_torch, "perfmod": import_perfmod}


def serve(address: str, parent: int) -> tuple[dict[str, Any], list[int]]:
    """Fork for each call, until the process `parent` has ended; returns in the children, with call and streams."""
    waiting = selectors.DefaultSelector()
    waiting.register(os.pidfd_open(parent), selectors.EVENT_READ, (parent, None))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    waiting.register(listener, selectors.EVENT_READ)
    gc.freeze()
    print("ready", flush=True)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                caller, _ = listener.accept()
                with suppress(ConnectionError, ValueError):
                    call, streams = _received(caller)
                    pid = os.fork()
                    if not pid:
                        os.setsid()
                        return call, streams
                    for stream in streams:
                        os.close(stream)
                    waiting.register(caller, selectors.EVENT_READ, (pid, None))
                    waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, caller))
                    caller.sendall(f"{pid}\n".encode())
                continue
            waiting.unregister(key.fileobj)
            pid, caller = key.data
            if caller is None and pid == parent:
                os._exit(0)
            elif caller is None:  # nobody waits any more
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            else:
                os.close(key.fd)
                _, status = os.waitpid(pid, 0)
                with suppress(KeyError):
                    waiting.unregister(caller)
                with suppress(OSError):
                    caller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                caller.close()


def _received(caller: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, streams, _, _ = socket.recv_fds(caller, 2**20, 3)
    while not data.endswith(b"\n"):
        more = caller.recv(2**20)
        if not more:
            raise ConnectionError("gone before it had said what it wants")
        data += more
    return json.loads(data), streams


def become(call: dict[str, Any], streams: list[int], library: list[str]) -> types.ModuleType:
    """Make this process the one of the call; returns the module in which its script is to run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    environment, (script, *_) = call["environment"], call["arguments"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(call["cwd"])
    os.sched_setaffinity(0, call["cores"])
    sys.executable, sys.argv = call["executable"], call["arguments"]
    search = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    first = call["cwd"] if script == "-m" else os.path.dirname(os.path.realpath(script))  # noqa: PTH120
    sys.path[:] = [first, *search, *library]
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX")
    tempfile.tempdir = None
    multiprocessing.process.ORIGINAL_DIR = call["cwd"]  # type: ignore[attr-defined]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if environment.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    if environment.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    if environment.get("PYTHONWARNINGS"):
        warnings.simplefilter("ignore")
    main = types.ModuleType("__main__")
    vars(main).update(__file__=os.path.abspath(script), __builtins__=__builtins__, __annotations__={})  # noqa: PTH100, links stay
    sys.modules["__main__"] = main
    if search:
        sys.modules.pop("sitecustomize", None)
        with suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")
    return main


def run(main: types.ModuleType) -> NoReturn:
    """Run the script and end, as Python does but without taking all modules down, which takes a second."""
    code: object = 0
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]  # as Python itself does
        script = str(main.__file__)
        with open(script, "rb") as file:  # noqa: PTH123
            text = file.read()
        exec(compile(text, script, "exec"), vars(main))
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:  # noqa: BLE001, it is the script's
        frames = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code) & 0xFF)


if __name__ == "__main__":
    sys.path.pop(0)
    IMPORTS[sys.argv[3]]()
    order, descriptors = serve(sys.argv[1], int(sys.argv[2]))
    run(become(order, descriptors, list(sys.path)))
