"""How long the tool itself takes: `perfmod --help`, and `apply --dry-run` on a 500-line script from a cold
start.

    python benchmarks/startup.py [--runs N]

Every run is a new process without perfmod's cache; Python's own byte code is compiled beforehand, as pip does
on installation. The exit code is 1 when a median is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINES = 500


@frozen
class Case:
    """A command of perfmod and the seconds that it may take at most."""

    title: str
    arguments: tuple[str, ...]
    limit_s: float


def long_script() -> str:
    """A training script of 500 lines, give or take a few: the segmentation example, and models of the usual
    kind above its training loop.
    """
    lines = (EXAMPLES / "segmentation" / "train.py").read_text("utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("def build_loader"))
    padding: list[str] = []
    while len(lines) + len(padding) < LINES:
        padding += [
            f"class Block{len(padding)}(nn.Module):",
            "    def __init__(self, width):",
            "        super().__init__()",
            "        self.conv = nn.Conv2d(width, width, 3, padding=1)",
            "        self.norm = nn.BatchNorm2d(width)",
            "",
            "    def forward(self, x, mask=None):",
            "        y = F.relu(self.norm(self.conv(x)))",
            "        if mask is not None:",
            "            y = y.masked_fill(mask, 0.0)",
            "        return x + y",
            "",
            "",
        ]
    lines[place:place] = padding
    return "\n".join(lines) + "\n"


def seconds(arguments: Sequence[str], folder: Path) -> float:
    """Wall-clock time of one run of perfmod in `folder`. Exits with its complaint where it fails."""
    command = [sys.executable, "-c", "from perfmod.cli.main import run; run()", *arguments]
    started = time.perf_counter()
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - started
    if ran.returncode:
        raise SystemExit(f"perfmod {' '.join(arguments)} failed:\n{ran.stderr}")
    return elapsed


def main() -> int:
    """Measure every case, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="runs of each command; the first is not counted")
    args = parser.parse_args()
    cases = (
        Case("perfmod --help", ("--help",), 0.3),
        Case(f"perfmod apply --dry-run, {LINES} lines", ("apply", "train.py", "--dry-run", "--no-cache"), 1.5),
    )
    table = Table("command", "median", "fastest", "slowest", "limit", "")
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(long_script(), "utf-8")
        for case in cases:
            times = [seconds(case.arguments, Path(folder)) for _ in range(args.runs + 1)][1:]
            median = statistics.median(times)
            kept &= median <= case.limit_s
            verdict = "pass" if median <= case.limit_s else "FAIL"
            table.add_row(case.title, *(f"{t:.3f} s" for t in (median, min(times), max(times), case.limit_s)), verdict)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
