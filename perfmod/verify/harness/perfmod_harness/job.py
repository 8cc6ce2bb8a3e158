"""What this run is to do, as perfmod wrote it down."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOB_VARIABLE = "PERFMOD_HARNESS_JOB"


@dataclass(frozen=True)
class Job:
    """The fields of `perfmod.verify.job.Job`, where they are described; paths are strings."""

    mode: str
    out: str
    root: str
    device: str
    threads: int
    seed: int
    reseed: int
    steps: int
    perturb: float
    perturb_seed: int
    double: bool
    half: bool
    dropout: bool
    deterministic: bool
    alike: int
    fills: bool
    epoch: int
    by_hand: int
    bare: bool
    clock: int
    spread: int
    states: str
    writes_states: bool
    handed: list[int]
    horizon: int
    warmup_steps: int
    warmup_seconds: float
    window_steps: int
    window_seconds: float
    longest_seconds: float
    turns: str
    place: int
    turn_count: int
    batches_at_hand: int
    batch_times: int
    own_batch: int
    other_batch: int
    plain_steps: int
    sync_steps: int
    profile_steps: int
    points: list[Any]


def read() -> Job | None:
    """The job of this process, or None where there is none. Raises `OSError`, `ValueError` or `TypeError`."""
    path = os.environ.get(JOB_VARIABLE)
    if not path:
        return None
    return Job(**json.loads(Path(path).read_text(encoding="utf-8")))
