"""This process among those of the run."""

from __future__ import annotations

import os
import time

_STARTED = time.perf_counter()
_TOP_VARIABLE = "PERFMOD_HARNESS_TOP"


def seconds() -> float:
    """Since this process began, as good as it can be known: the harness is imported before the script."""
    return time.perf_counter() - _STARTED


def claim_top() -> None:
    """The first process of the run says so in its environment, which all others inherit."""
    os.environ.setdefault(_TOP_VARIABLE, str(os.getpid()))


def is_top() -> bool:
    """Whether this is the process that perfmod started, and no child of it."""
    return os.environ.get(_TOP_VARIABLE) == str(os.getpid())


def rank() -> int:
    """Of this process in the training, as far as it is known by now; 0 where there is but one."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ.get("RANK", "0"))
