"""Seats: a GPU each, or a stand-in for one, with processor cores of its own, for work that is timed."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

STAND_IN: Final = "cpu"
"""Begins the name of a seat without a GPU."""
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_PATIENCE: Final = 30.0


@frozen
class Seat:
    """`gpu` is what `CUDA_VISIBLE_DEVICES` takes, or a stand-in's name."""

    gpu: str
    cores: tuple[int, ...]

    @property
    def is_stand_in(self) -> bool:
        """Whether it has no GPU."""
        return self.gpu.startswith(STAND_IN)


@frozen
class Division:
    """The cores of this machine: those of the seats, and those of work that is not timed; empty where all are its."""

    seats: tuple[Seat, ...]
    rest: tuple[int, ...]


def division(gpus: Sequence[str]) -> Division:
    """The cores that this process may use, divided among seats and the rest."""
    shares, rest = divided(_cores(), len(gpus))
    return Division(tuple(Seat(gpu, share) for gpu, share in zip(gpus, shares, strict=True)), rest)


def divided(cores: Sequence[int], seats: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """The cores of each seat, which are as many for each, and the rest.

    Where there are fewer cores than seats and one, the rest are all, and seats share them as evenly as can be.
    """
    if not seats or not cores:
        return [()] * seats, ()
    if len(cores) <= seats:
        return [(cores[number % len(cores)],) for number in range(seats)], tuple(cores)
    each = len(cores) // (seats + 1)
    shares = [tuple(cores[number * each : (number + 1) * each]) for number in range(seats)]
    return shares, tuple(cores[seats * each :])


def environment_of(gpus: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of work that has these GPUs, and no others, to itself."""
    visible = ",".join(gpu for gpu in gpus if not gpu.startswith(STAND_IN))
    # Indices mean what nvidia-smi counts.
    return {**environment, VISIBLE: visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """What this thread starts meanwhile runs on these processors: set before it runs, so that it sees no others."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def lack_of(gpus: int, there: int, where: str) -> str:
    """Why a job can never run."""
    wanted = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"needs {wanted}; {where} has {there or 'none'}"


def gpus_of_this_machine() -> list[str]:
    """Those that `CUDA_VISIBLE_DEVICES` names, else those that nvidia-smi knows, by their UUIDs."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        gpus = [name.strip() for name in named.split(",")]
        # CUDA itself sees nothing from the first on that is none.
        return gpus[: next((index for index, name in enumerate(gpus) if name in ("", "-1", "NoDevFiles")), len(gpus))]
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _cores() -> list[int]:
    """Those that may be used, the threads of one core side by side; none where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0), key=lambda core: (_first_sibling(core), core))


def _first_sibling(core: int) -> int:
    """The lowest number among the threads of the physical core that a core is a thread of."""
    try:
        listed = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text("ascii")
        return int(listed.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return core
