"""Where a verification runs: the user's interpreter, the GPU, the processor, the repository."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.errors import Failure
from perfmod.parallel import usable_cpus
from perfmod.roots import shown
from perfmod.verify.disguise import PLAIN
from perfmod.verify.failures import cannot_start

OLDEST_PYTHON = (3, 8)
OLDEST_TORCH = (2, 1)
_FIRST_WITH_BFLOAT16 = (8, 0)
_PROBE = PLAIN / "perfmod_harness" / "probe.py"
_PROBE_SECONDS = 180.0
"""Importing torch from a slow network disk takes its time."""
_TOOL_SECONDS = 20.0
_MIB = 2**20
_IDLE_MIB = 1000
"""What a driver may take of a card's memory by itself is less."""
_GPU_FIELDS = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "clocks.max.mem")
_THROTTLE_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The second is what older drivers call it."""
_THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
_DISTURBANCES = 0x8 | 0x20 | 0x40 | 0x80
"""Those that come and go with heat and power of the machine, and not with the work."""


@frozen
class Facts:
    """What the user's interpreter says of itself.

    Attributes:
        python: the interpreter's path, as it is to be started.
        version, torch: as `3.11.2` and `2.13.0+cpu`.
        cuda: the version torch was built for; empty for none.
        gpus: devices that torch sees.
        gpu: name of the first one, free_mib and total_mib its memory; empty and None without.
        no_gpu: why torch sees none, in its words.
        computes_bfloat16: whether the first one has units for it, as from Ampere on.
        has_bytecode: whether torch's lies where Python looks for it.
    """

    python: str
    version: str
    torch: str
    cuda: str = ""
    gpus: int = 0
    gpu: str = ""
    free_mib: float | None = None
    total_mib: float | None = None
    no_gpu: str = ""
    computes_bfloat16: bool = True
    has_bytecode: bool = False

    def require(self, device: str, nproc: int = 1) -> None:
        """Raises `Failure` where `device` (`cuda` or `cpu`) is not there for `nproc` processes."""
        if device == "cuda" and self.gpus == 0:
            raise Failure(
                f"no GPU for {shown(self.python)} (torch {self.torch}): {self.no_gpu or 'torch sees none'}; "
                "--device cpu does without one"
            )
        if device == "cuda" and nproc > self.gpus:
            raise Failure(f"--nproc {nproc}: only {self.gpus} GPUs are available")


def probe(python: str) -> Facts:
    """Ask an interpreter what it is and has. Takes as long as it takes to import torch.

    Raises:
        Failure: it cannot be started, is no Python, is too old, or has no torch, or too old a one.
    """
    path = shutil.which(python)
    if path is None:
        missing = FileNotFoundError("no such program") if not os.path.lexists(python) else PermissionError("no program")
        raise Failure(cannot_start(python, missing).reason)
    # Not resolved: the link in a virtual environment is what makes it one.
    path = str(Path(path).absolute())
    found = _asked(path)
    if tuple(found["version"][:2]) < OLDEST_PYTHON:
        raise Failure(
            f"{shown(path)}: is Python {_dotted(found['version'])}, but perfmod needs "
            f"{_dotted(OLDEST_PYTHON)} or later; "
            "name another interpreter with --python"
        )
    if found["torch"] is None:
        raise Failure(
            f"{shown(path)}: cannot import torch: {found['error']}; install it there, or give the interpreter that "
            "runs the script with --python"
        )
    if _release(found["torch"]) < OLDEST_TORCH:
        raise Failure(
            f"{shown(path)}: has torch {found['torch']}, but perfmod needs {_dotted(OLDEST_TORCH)} or "
            "later; name another "
            "interpreter with --python"
        )
    return Facts(
        python=path,
        version=_dotted(found["version"]),
        torch=found["torch"],
        cuda=found["cuda"] or "",
        gpus=found["gpus"],
        gpu=found["gpu"] or "",
        free_mib=found["free"] / _MIB if found["free"] is not None else None,
        total_mib=found["total"] / _MIB if found["total"] is not None else None,
        no_gpu=found["error"] or "",
        computes_bfloat16=found["capability"] is None or tuple(found["capability"]) >= _FIRST_WITH_BFLOAT16,
        has_bytecode=found["bytecode"],
    )


@frozen
class Gpu:
    """What nvidia-smi says of a GPU; empty where it says nothing."""

    name: str = ""
    driver: str = ""
    clocks: str = ""
    throttle: str = ""


def gpu() -> Gpu:
    """The GPU that a script sees first, now."""
    values = _asked_of_gpu(*_GPU_FIELDS)
    if not values:
        return Gpu()
    name, driver, sm, most_sm, memory, most_memory, mask = values
    clocks = f"SM {sm} of {most_sm} MHz, memory {memory} of {most_memory} MHz"
    reasons = _throttle_reasons(mask)
    return Gpu(name, driver, clocks, "" if reasons is None else ", ".join(reasons) or "none")


@frozen
class Activity:
    """What the GPU that a script sees first has been doing in the last second, by whomever.

    Attributes:
        busy: share of the time in which a kernel ran.
        throttled: what else than its work and its settings holds its clocks down now; empty for nothing.
    """

    busy: float = 0.0
    throttled: str = ""


def device_activity(card: str = "") -> Activity:
    """Of a card, or of the one that a script sees first; as nvidia-smi says, nothing where it says nothing."""
    values = _asked_of_gpu("utilization.gpu", card=card)
    if not values:
        return Activity()
    busy, mask = values
    throttled = ", ".join(_throttle_reasons(mask, _DISTURBANCES) or ())
    return Activity(int(busy) / 100.0 if busy.isdigit() else 0.0, throttled)


def is_idle(card: str) -> bool:
    """Whether nobody uses a card, as far as nvidia-smi tells."""
    busy, used, *_ = (*_asked_of_gpu("utilization.gpu", "memory.used", card=card), "", "")
    return busy == "0" and used.isdigit() and int(used) < _IDLE_MIB


def model_of(card: str) -> str:
    """The name of a card's model; empty where nvidia-smi does not tell."""
    return next(iter(_asked_of_gpu("name", card=card)), "")


def _asked_of_gpu(*fields: str, card: str = "") -> list[str]:
    """The values of fields, and at last the mask of what holds the clocks down."""
    # The first one, if several are visible; a name like GPU-d1a2... is understood as well.
    visible = card or os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    for throttle in _THROTTLE_FIELDS:
        asked = ",".join((*fields, throttle))
        said = _said("nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader,nounits", f"--id={visible or 0}")
        values = [value.strip() for value in said.split("\n")[0].split(",")]
        if len(values) == len(fields) + 1:
            return values
    return []


def cpu() -> str:
    """The processor's model, and how many of its threads may be used."""
    model = platform.processor()
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        match = None
    model = match[1] if match else model or platform.machine()
    return f"{model}, {usable_cpus()} threads"


def commit(folder: Path) -> str:
    """The commit of the repository around `folder`, with `-dirty` where files differ from it; empty outside of one."""
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return ""
    return f"{head}-dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else head


def _asked(python: str) -> dict[str, Any]:
    try:
        ran = subprocess.run(
            [python, "-c", _PROBE.read_text("utf-8")],
            # With -c, Python imports what lies in the working directory.
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except OSError as error:
        raise Failure(cannot_start(python, error).reason) from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{shown(python)}: did not import torch within {_PROBE_SECONDS:g} s") from error
    lines = ran.stdout.splitlines() or [""]
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except ValueError:
        words = (ran.stderr.strip() or "it printed nothing").splitlines()[-1].strip()
        raise Failure(f"{shown(python)}: is not a working Python: {shown(words)}") from None
    return found


def _git(folder: Path, *arguments: str) -> str:
    # No index is refreshed and no monitor started: the repository stays as it is.
    quiet = ("-c", "core.fsmonitor=false")
    return _said("git", "--no-optional-locks", *quiet, "-C", str(folder), *arguments).strip()


def _said(*command: str) -> str:
    """What a tool prints; nothing where it is not there or fails."""
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TOOL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else ""


def _throttle_reasons(mask: str, among: int = ~0) -> list[str] | None:
    """The names of its bits; None where it is no number."""
    try:
        bits = int(mask, 16) & among
    except ValueError:
        return None
    return [words for bit, words in _THROTTLE_REASONS.items() if bits & bit]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _dotted(version: tuple[int, ...] | list[int]) -> str:
    return ".".join(str(part) for part in version)
