"""How long a replay of a CUDA graph takes in a script that records its steps by hand.

    python benchmarks/replay_timing.py FILE SCRIPT [ARG ...]

The steps of such a script are not seen by the watch that times others: no optimizer steps in a replay. So the time is
taken on the device at the start of each replay, and FILE gets the milliseconds from one to the next, of the graph whose
replays take longest all together. What comes between two replays counts, but for intervals over three times the median:
there an epoch ends. The script is ended when that is known.
"""

from __future__ import annotations

import atexit
import collections
import json
import os
import runpy
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

WARM_UP = 3.0
"""Seconds from the first replay."""
SECONDS = 3.0
"""That are looked at."""
FEWEST = 12
"""Replays that are enough, where a script ends by itself: of those, the second half counts."""


class Timing:
    """The replays of a process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began = 0.0
        self._marks: list[tuple[int, Any]] = []
        self._warm = 0

    def mark(self, graph: torch.cuda.CUDAGraph) -> None:
        """A graph is about to be replayed."""
        event: Any = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((id(graph), event))
        now = time.monotonic()
        self._began = self._began or now
        if now - self._began < WARM_UP:
            self._warm = len(self._marks)
        elif now - self._began > WARM_UP + SECONDS:
            self.write()
            os._exit(0)

    def write(self) -> None:
        """What has been seen."""
        torch.cuda.synchronize()
        times_of = collections.defaultdict(list)
        first = self._warm if len(self._marks) - self._warm > FEWEST else len(self._marks) // 2
        for (graph, start), (later, end) in pairwise(self._marks[first:]):
            if graph == later:
                times_of[graph].append(start.elapsed_time(end))
        times = max(times_of.values(), key=sum, default=[])
        if len(times) < FEWEST // 2:
            return
        usual = [each for each in times if each < 3 * statistics.median(times)]
        self._file.write_text(json.dumps({"ms": statistics.mean(usual), "replays": len(times)}), "utf-8")


def main() -> None:
    """Run the script."""
    file, script = (Path(each).resolve() for each in sys.argv[1:3])
    timing = Timing(file)
    atexit.register(timing.write)
    replay = torch.cuda.CUDAGraph.replay

    def replay_marked(graph: torch.cuda.CUDAGraph) -> None:
        timing.mark(graph)
        replay(graph)

    torch.cuda.CUDAGraph.replay = replay_marked  # type: ignore[method-assign]
    sys.argv = [str(script), *sys.argv[3:]]
    sys.path[0] = str(script.parent)
    os.chdir(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
