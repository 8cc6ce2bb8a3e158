"""Writes the record of a run where perfmod will look for it."""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import torch

from . import process

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from .job import Job

SCHEMA = 1

# Python forgets it once the script has been run.
_MAIN = str(Path(getattr(sys.modules["__main__"], "__file__", None) or "").absolute())

_PACKAGES = (
    "accelerate",
    "lightning",
    "numpy",
    "pytorch_lightning",
    "timm",
    "torch_geometric",
    "torchvision",
    "transformers",
)


def write(
    job: Job,
    rank: int,
    ended: str,
    error: BaseException | None,
    part: Mapping[str, Any],
    numbers: array[float] | None,
) -> None:
    """Write the record of this process, unless its rank has one.

    The record comes last and at once, so that whoever sees it sees all. Where it cannot be written, stderr says why.
    """
    path = Path(job.out, f"rank{rank}.json")
    if path.exists():
        return
    record = {
        "schema": SCHEMA,
        "mode": job.mode,
        "rank": rank,
        "pid": os.getpid(),
        "seconds": process.seconds(),
        "ended": ended,
        "error": None if error is None else _error(error, job.root),
        "environment": _environment(),
        "modules": _modules(job.root),
        **part,
    }
    try:
        if numbers is not None:
            _write(path.with_suffix(".f64"), numbers.tobytes())
        _write(path, json.dumps(record).encode())
    except OSError as failure:
        print(f"perfmod: the record of this run could not be written: {failure}", file=sys.stderr)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _error(error: BaseException, root: str) -> dict[str, Any]:
    """The exception, and the innermost line of the user's tree that it came through (any line where there is none)."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _below(frame.filename, root) is not None]
    frame = own[-1] if own else frames[-1] if frames else None
    return {
        "type": type(error).__name__,
        "message": str(error),
        "file": None if frame is None else _below(frame.filename, root) or frame.filename,
        "line": None if frame is None else frame.lineno,
    }


def _below(path: str, root: str) -> str | None:
    """The path from `root`, with slashes; None where the file is elsewhere."""
    path, root = os.path.realpath(path), os.path.realpath(root)
    return os.path.relpath(path, root).replace(os.sep, "/") if path.startswith(root + os.sep) else None


def _modules(root: str) -> list[str]:
    """The files of the user's tree that were imported; torch has modules whose files are but names."""
    files = {_MAIN, *(getattr(module, "__file__", None) for module in list(sys.modules.values()))}
    below = _may_be_below(root)
    found = {_below(file, root) for file in files if isinstance(file, str) and below(file) and Path(file).is_file()}
    return sorted(file for file in found if file is not None)


def _may_be_below(root: str) -> Callable[[str], bool]:
    """Tells of most files at once that they are elsewhere: there are thousands of modules in few folders."""
    top = os.path.realpath(root) + os.sep
    real = functools.cache(os.path.realpath)

    def may_be_below(file: str) -> bool:
        folder, name = os.path.split(file)
        path = f"{real(folder)}{os.sep}{name}"
        return path.startswith(top) or Path(path).is_symlink()

    return may_be_below


def _environment() -> dict[str, Any]:
    # Asking for the device's name would start CUDA in a process that has done without.
    gpu = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "capability": list(torch.cuda.get_device_capability()) if gpu else None,
        "cudnn": torch.backends.cudnn.version() if gpu else None,  # type: ignore[no-untyped-call]
        "packages": _packages(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
    }


def _packages() -> dict[str, str]:
    return {name: str(getattr(sys.modules[name], "__version__", "")) for name in _PACKAGES if name in sys.modules}
