"""Torch's profiler around some steps of somebody else's script."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from torch import profiler
from torch.autograd.profiler import profile, record_function

from .chrome_trace import Trace


class Profiler:
    """Only one profiler can run at a time: ours does not start, or stops for good, when the script makes its own.

    Attributes:
        displaced: whether the script has made one.
    """

    def __init__(self) -> None:
        self.displaced = False
        self._running: Any = None
        self._starting = False
        self._wrap_profile(profile)

    def start(self) -> None:
        """Profile host and device from now."""
        if not self.displaced:
            self._starting = True
            self._running = profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA])
            self._running.start()
            self._starting = False

    def stop(self) -> Trace | None:
        """What was seen since the start; None where it was nothing, or stderr says why it cannot be read."""
        running, self._running = self._running, None
        if running is None:
            return None
        try:
            running.stop()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "trace.json")
                running.export_chrome_trace(str(path))
                return Trace(json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"])
        except (OSError, RuntimeError, ValueError) as failure:
            print(f"perfmod: the profiler's trace cannot be read: {failure}", file=sys.stderr)
            return None

    def _wrap_profile(self, profile_class: Any) -> None:
        # Whoever profiles makes one of these, torch.profiler included, when it is about to begin.
        original = profile_class.__init__

        @functools.wraps(original)
        def init(own: Any, enabled: bool = True, **options: Any) -> None:
            if enabled and not self._starting:
                self._give_way()
            original(own, enabled, **options)

        profile_class.__init__ = init

    def _give_way(self) -> None:
        self.displaced = True
        running, self._running = self._running, None
        if running is not None:
            running.stop()


def mark(name: str) -> None:
    """Leave a mark in the trace, if one is being made."""
    with record_function(name):
        pass
