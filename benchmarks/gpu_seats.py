"""Runs `perfmod verify` for the benchmarks: one after the other, or one at a time on each of several GPUs."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

Task = TypeVar("Task")


@frozen
class Verified:
    """What `perfmod verify` said: its exit code, the lines it printed, and its `evidence.json` if there is one."""

    exit_code: int
    output: list[str]
    evidence: dict[str, Any] | None


def run_verify(
    script: Path,
    options: Sequence[str],
    arguments: Sequence[str],
    reports: Path,
    gpu: str | None,
    *,
    applies: bool = False,
) -> Verified:
    """Verify one script, on one GPU if that is named. The record is kept in `reports`. `applies` writes what holds."""
    command = ["apply", "--verify"] if applies else ["verify"]
    options = ["--report", str(reports), *options]
    done = subprocess.run(
        [sys.executable, "-m", "perfmod", *command, str(script), *options, "--", *arguments],
        # Not the script's folder, whose modules perfmod would meet; the script itself is started there.
        cwd=script.anchor,
        env=os.environ | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    record = reports / "evidence.json"
    evidence = json.loads(record.read_text("utf-8")) if record.exists() else None
    return Verified(done.returncode, done.stdout.strip().splitlines(), evidence)


def spread(tasks: Sequence[Task], gpus: Sequence[str], work: Callable[[Task, str | None], None]) -> None:
    """Call `work` for every task, here or with one task at a time on each GPU and an equal share of the processors."""
    seats: queue.SimpleQueue[tuple[str | None, Sequence[int]]] = queue.SimpleQueue()
    processors = sorted(os.sched_getaffinity(0)) if gpus else []
    for number, gpu in enumerate(gpus):
        seats.put((gpu, processors[number :: len(gpus)]))
    if not gpus:
        seats.put((None, ()))

    def seated(task: Task) -> None:
        gpu, share = seats.get()
        try:
            if share:
                # Counts for this thread and for the processes that it starts.
                os.sched_setaffinity(0, share)
            work(task, gpu)
        finally:
            seats.put((gpu, share))

    with ThreadPoolExecutor(max_workers=max(1, len(gpus))) as pool:
        for done in [pool.submit(seated, task) for task in tasks]:
            done.result()
