"""Runs perfmod with the arguments that follow FILE, and writes into it how many runs of scripts it made of each kind.

    python benchmarks/counted_runs.py FILE verify train.py --quick

perfmod is the one that Python finds first: with PYTHONPATH it may be that of another checkout.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfmod.cli.main import run
from perfmod.verify.job import Job
from perfmod.verify.running import Ran, Runner
from perfmod.verify.sides import Side


def counting(run_all: Callable[..., list[Ran]], runs: Counter[str], seconds: Counter[str]) -> Callable[..., list[Ran]]:
    """`Runner.run_all` that notes how many runs of each mode there were, and for how long they were waited for."""

    def counted(self: Runner, jobs: Sequence[tuple[Side, Job]], *args: Any, **kwargs: Any) -> list[Ran]:
        modes = [job.mode.value for _, job in jobs]
        runs.update(modes)
        began = time.monotonic()
        try:
            return run_all(self, jobs, *args, **kwargs)
        finally:
            # Of those that go along with others nobody waits for them alone.
            if modes:
                seconds[min(modes)] += time.monotonic() - began

    return counted


def main() -> int:
    """Run perfmod; its exit code."""
    path = Path(sys.argv.pop(1))
    runs: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    Runner.run_all = counting(Runner.run_all, runs, seconds)  # type: ignore[method-assign]
    try:
        return run()
    finally:
        path.write_text(json.dumps({"runs": runs, "seconds": seconds}), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
