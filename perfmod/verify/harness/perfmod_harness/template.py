"""Imports torch once, and forks runs that look to their scripts like processes of their own.

A run hides torch until the script imports it. What was read when torch was really imported has to be the same by then;
where the script has set a variable that torch or its libraries read (`OMP_NUM_THREADS`), the run gives up.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import json
import os
import re
import signal
import socket
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Sequence

from . import process, start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec

_TORCH = "torch"
_READ_LATER = re.compile(
    "CUBLAS_WORKSPACE_CONFIG|CUDA_VISIBLE_DEVICES|(MASTER|HF|TRANSFORMERS|TF|TOKENIZERS|WANDB)_.*|(LOCAL_)?RANK|WORLD_SIZE"
)
"""Variables that nobody reads while torch is imported."""
_LONGEST = 4096
"""Bytes of a message: a number, or a path."""


def serve(control: int) -> None:
    """Import torch and answer what perfmod asks on a socket, until it has gone.

    The path of a run, with its standard input and output, is answered by its process number; such a number, once that
    process is dead, by its exit status. Returns only in a run that has come to its end.
    """
    if not _is_path_safe():
        del sys.path[0]
    asked = socket.socket(fileno=control)
    asked.set_inheritable(False)
    if not _is_fit():
        os._exit(1)
    asked.send(b"ready")
    runs = set()
    while True:
        message, streams, *_ = socket.recv_fds(asked, _LONGEST, 2)
        if not message:
            break
        if message.isdigit():
            number, status = os.waitpid(int(message), 0)
            runs.discard(number)
            asked.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        number = os.fork()
        if number == 0:
            asked.close()
            _run(json.loads(Path(os.fsdecode(message)).read_bytes()), streams)
            return
        runs.add(number)
        for stream in streams:
            os.close(stream)
        asked.send(str(number).encode())
    for number in runs:
        with contextlib.suppress(OSError):
            os.killpg(number, signal.SIGKILL)
    os._exit(0)


def _is_path_safe() -> bool:
    """Whether Python leaves the script's folder out of the search path."""
    return bool(getattr(sys.flags, "safe_path", False))


def _is_fit() -> bool:
    """Whether forks of this process, which imports torch here, are as good as processes of their own."""
    cuda: Any = importlib.import_module(_TORCH).cuda
    if not hasattr(socket, "recv_fds") or cuda.is_initialized() or threading.active_count() > 1:
        return False
    trial = os.fork()
    if trial == 0:
        os._exit(int(cuda._is_in_bad_fork()))
    _, status = os.waitpid(trial, 0)
    # OpenBLAS ends its threads before a fork, and starts them when it needs them.
    return status == 0 and len([*Path("/proc/self/task").iterdir()]) == 1


def _run(run: dict[str, Any], streams: Sequence[int]) -> None:
    """Be the process that the run describes, and run its script."""
    script = run["arguments"][1]
    unfit = Path(run["unfit"])
    try:
        if _is_shadowed(_settle(run, streams)):
            _give_up(unfit)
        main = _renewed_main(script)
        torch = _HiddenTorch(unfit)
        importlib.reload(process)  # its clock begins with the process
        start.start()
        torch.remember()
    except Exception:  # noqa: BLE001  # what is wrong shows better in a process of its own
        _give_up(unfit)
    try:
        exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), vars(main))
    except Exception as error:  # noqa: BLE001  # the interpreter does the same, but would show this frame, too
        trace = error.__traceback__
        sys.excepthook(type(error), error, trace and trace.tb_next)
        sys.exit(1)


def _settle(run: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    """Have a session, streams, a folder, an environment, arguments, a search path and random numbers of its own.

    Returns the folders that have come to the search path.
    """
    os.setsid()
    for number, stream in enumerate((streams[0], streams[1], streams[1])):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    os.chdir(run["cwd"])
    _mark(run["mark"], run["environment"][run["mark"]])
    os.environ.clear()
    os.environ.update(run["environment"])
    sys.orig_argv = run["arguments"]
    sys.argv = run["arguments"][1:]
    known = set(sys.path)
    search = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = dict.fromkeys([*search, *sys.path])
    if not _is_path_safe():
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
    _forget()
    return [entry for entry in sys.path if entry not in known]


def _mark(variable: str, value: str) -> None:
    """Others see the environment that a process began with: write over the variable where it is."""
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    ctypes.memmove(library.getenv(variable.encode()), value.encode(), len(value))


def _forget() -> None:
    """What modules keep of the process that imported them."""
    modules: dict[str, Any] = dict(sys.modules)
    if "tempfile" in modules:
        modules["tempfile"].tempdir = None
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()  # noqa: PTH109  # a string, like the original
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    modules[_TORCH].default_generator.seed()


def _is_shadowed(folders: Sequence[str]) -> bool:
    """Whether the user has a module that torch, or what it needs, would have found in the place of another."""
    names = {name for name in sys.modules if "." not in name} - {"__main__"}
    found = (PathFinder.find_spec(name, folders) for name in names)
    is_shadowed = any(spec is not None and spec.loader is not None for spec in found)
    for folder in folders:
        sys.path_importer_cache.pop(folder, None)
    return is_shadowed


def _renewed_main(script: str) -> ModuleType:
    """An empty `__main__` for the script; multiprocessing has another name for it, too."""
    main = ModuleType("__main__")
    sys.modules.update({name: main for name in ("__main__", "__mp_main__") if name in sys.modules})
    loader = SourceFileLoader("__main__", script)
    vars(main).update(__annotations__={}, __builtins__=builtins, __cached__=None, __file__=script, __loader__=loader)
    return main


class _HiddenTorch(MetaPathFinder):
    """Takes torch out of the modules until somebody imports it."""

    def __init__(self, unfit: Path) -> None:
        self._unfit = unfit
        self._torch = sys.modules[_TORCH]
        self._modules = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{_TORCH}.")}
        for name in self._modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def remember(self) -> None:
        """How the process is now, before the script can change it."""
        self._before = _surroundings()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TORCH:
            return None
        spec = self._torch.__spec__
        assert spec is not None
        loader: Any = spec.loader
        loader.create_module = lambda _spec: self._torch
        loader.exec_module = self._restore
        return spec

    def _restore(self, torch: ModuleType) -> None:
        if _surroundings() != self._before:
            _give_up(self._unfit)
        sys.meta_path.remove(self)
        del vars(torch.__loader__)["create_module"]
        sys.modules.update(self._modules)


def _surroundings() -> Any:
    """What torch and its libraries go by when they are imported."""
    variables = {name: value for name, value in os.environ.items() if not _READ_LATER.fullmatch(name)}
    return variables, os.sched_getaffinity(0)


def _give_up(unfit: Path) -> NoReturn:
    """Let perfmod know that this run needs a process of its own."""
    unfit.touch()
    os._exit(0)
