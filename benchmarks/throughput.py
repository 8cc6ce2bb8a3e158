"""What `perfmod check` costs, side by side with other analysers, over libraries full of PyTorch code.

    python benchmarks/throughput.py [--wheels DIR] [--environments DIR] [--only PART ...]

Everything is measured in one run: perfmod as it is installed beside this Python, the other tools in virtual
environments of their own, which are made under `--environments` where they are not there. The packages are those of
`corpus/packages.toml`; pip downloads the wheels that are not in `--wheels`. Those of a part are unpacked into one
scratch folder, which each tool is given. The parts:

- help: `perfmod --help`, the best of ten;
- timm: that package alone, one process (two for TorchFix);
- three, four, five, six: so many packages, 552 to 4,993 files, two processes.

Cold is without what a tool keeps between runs (perfmod and ruff: in a folder of this run), warm is the same once more.
Processor time includes children; memory is that of the largest process. A part stops after `--longest` seconds, 15
minutes, and what had not ended by then is marked as stopped. Results go to `results/throughput.json` after every part,
beside those of parts that were measured before on the same machine; the exit code is 1 where a tool failed, or perfmod
said something else warm.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen
from corpus_sources import packages
from process_cost import PERFMOD, Cost, cost, machine
from revision import revision
from rich.console import Console

RESULTS = Path(__file__).resolve().parent / "results" / "throughput.json"
LONGEST_S = 15 * 60
"""Seconds that a part may take."""
HELP_RUNS = 10


@frozen
class Tool:
    """An analyser.

    Attributes:
        requirement: what pip is asked for; empty where it is installed beside this Python.
        command: its arguments, given the number of processes, the folder of its cache, and the folder to analyse.
        keeps: whether it keeps anything between runs.
        jobs: its processes where they are not those of the part: it cannot use more, or is too slow with fewer.
        codes: the exit codes of a run that went well.
    """

    name: str
    requirement: str
    command: Callable[[int, Path, Path], Sequence[str | Path]]
    keeps: bool
    jobs: int | None = None
    codes: Sequence[int] = (0,)

    def program(self, environments: Path) -> Sequence[str | Path]:
        """What starts it; it is installed where it is not there.

        Raises:
            SystemExit: pip failed.
        """
        if not self.requirement:
            return PERFMOD
        folder = environments / self.requirement.replace("==", "-")
        program = folder / "bin" / self.name
        if not program.exists():
            venv.create(folder, with_pip=True, clear=True)
            pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
            if (done := cost([*pip, self.requirement], folder, limit=LONGEST_S)).code:
                raise SystemExit(f"pip cannot install {self.requirement}: {done.errors}")
        return (program,)


@frozen
class Part:
    """Packages that are measured together, by some of the tools, with so many processes."""

    name: str
    packages: Sequence[str]
    tools: Sequence[Tool]
    jobs: int


OURS = Tool("perfmod", "", lambda jobs, _, code: ("check", "--exit-zero", "--jobs", str(jobs), code), keeps=True)
RUFF = Tool(
    "ruff",
    "ruff==0.17.5",
    lambda _, cache, code: ("check", "--isolated", "--exit-zero", "--quiet", "--cache-dir", cache, code),
    keeps=True,
)
HOTPATH = Tool("hotpath", "hotpath-ai==0.1.0", lambda _jobs, _, code: ("analyze", code), keeps=False, jobs=1)
TORCHFIX = Tool(
    "torchfix",
    "torchfix==0.7.0",
    lambda jobs, _, code: ("--jobs", str(jobs), code),
    keeps=False,
    jobs=2,
    codes=(0, 1),  # 1 where a file could not be read, too
)
_SUMS = ("accelerate", "timm", "torchvision", "torch-geometric", "diffusers", "transformers")
_OF_SUMS = (OURS, RUFF, HOTPATH)
PARTS = (
    Part("timm", ("timm",), (OURS, RUFF, HOTPATH, TORCHFIX), jobs=1),
    Part("three", _SUMS[:3], _OF_SUMS, jobs=2),
    Part("four", _SUMS[:4], _OF_SUMS, jobs=2),
    Part("five", _SUMS[:5], _OF_SUMS, jobs=2),
    Part("six", _SUMS, _OF_SUMS, jobs=2),
)


def measured_help(scratch: Path) -> dict[str, Any]:
    """The row of `perfmod --help`."""
    runs = [cost([*PERFMOD, "--help"], scratch, limit=LONGEST_S / HELP_RUNS) for _ in range(HELP_RUNS)]
    best = min(runs, key=lambda run: run.seconds)
    failed = any(run.code for run in runs)
    return {"name": "help", "runs": [_run("perfmod --help", 1, "", best, failed=failed) | {"best_of": HELP_RUNS}]}


def measured(part: Part, wheels: Path, environments: Path, scratch: Path, longest: float) -> dict[str, Any]:
    """The row of a part."""
    code = scratch / part.name
    for package in packages():
        if package.name in part.packages:
            package.unpack(wheels, code)
    end = time.monotonic() + longest
    runs = [run for tool in part.tools for run in _runs(tool, part.jobs, code, environments, scratch, end)]
    files = sum(1 for _ in code.rglob("*.py"))
    return {"name": part.name, "packages": part.packages, "files": files, "runs": runs}


def _runs(tool: Tool, jobs: int, code: Path, environments: Path, scratch: Path, end: float) -> Iterator[dict[str, Any]]:
    """The runs of a tool: one, or a cold and a warm one."""
    jobs = jobs if tool.jobs is None else tool.jobs
    program = tool.program(environments)
    with tempfile.TemporaryDirectory(dir=scratch) as cache:
        run = partial(_once, [*program, *tool.command(jobs, Path(cache), code)], jobs, Path(cache), end)
        cold = run()
        yield _run(tool.name, jobs, "cold" if tool.keeps else "", cold, failed=cold.code not in tool.codes)
        if tool.keeps and not cold.stopped:
            warm = run()
            yield _run(tool.name, jobs, "warm", warm, failed=warm.code != cold.code or warm.output != cold.output)


def _once(command: Sequence[str | Path], jobs: int, cache: Path, end: float) -> Cost:
    environment = {"PERFMOD_CACHE_DIR": str(cache), "RAYON_NUM_THREADS": str(jobs)}
    return cost(command, cache, limit=max(1.0, end - time.monotonic()), **environment)


def _run(tool: str, jobs: int, cache: str, done: Cost, *, failed: bool) -> dict[str, Any]:
    figures = {"seconds": done.seconds, "processor_seconds": done.processor_seconds, "peak_mib": done.peak_mib}
    state = {"stopped": True} if done.stopped else {"failed": True} if failed else {}
    if state:
        print(f"{tool} {cache}: exit code {done.code}\n{done.errors}", file=sys.stderr)
    return {"tool": tool, "jobs": jobs, "cache": cache, **figures, **state}


def warmed(environments: Path, scratch: Path) -> None:
    """Run each tool once over one line, so that no run has to compile Python's byte code or to read programs from the
    disk.
    """
    code = scratch / "line"
    code.mkdir()
    (code / "line.py").write_text("import torch\n", "utf-8")
    for tool in (OURS, RUFF, HOTPATH, TORCHFIX):
        list(_runs(tool, 1, code, environments, scratch, time.monotonic() + LONGEST_S))


def document(rows: Sequence[dict[str, Any]], before: dict[str, Any] | None) -> dict[str, Any]:
    """The results: new rows, and those of `before` that they do not replace and that this machine measured."""
    head: dict[str, Any] = {
        "machine": machine(),
        "versions": {tool.name: tool.requirement.partition("==")[2] for tool in (RUFF, HOTPATH, TORCHFIX)},
    }
    kept = before["parts"] if before is not None and {key: before[key] for key in head} == head else []
    found = {row["name"]: row for row in (*kept, *rows)}
    names = ("help", *(part.name for part in PARTS))
    return head | {"parts": [found[name] for name in names if name in found]}


def main() -> int:
    """Measure, write the results; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="where the packages' wheels are, or are put")
    parser.add_argument("--environments", type=Path, metavar="DIR", help="where the tools are, or are installed")
    names = ("help", *(part.name for part in PARTS))
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART", help=", ".join(names))
    parser.add_argument(
        "--longest", type=float, default=LONGEST_S, metavar="SECONDS", help="what a part may take (%(default)s)"
    )
    args = parser.parse_args()
    talk = Console(stderr=True, soft_wrap=True)
    failed = False
    head = {"commit": revision(), "load_at_start": round(os.getloadavg()[0], 2)}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        environments = (args.environments or scratch / "environments").resolve()
        warmed(environments, scratch)
        measures = {"help": partial(measured_help, scratch)}
        for part in PARTS:
            wheels = (args.wheels or scratch / "wheels").resolve()
            measures[part.name] = partial(measured, part, wheels, environments, scratch, args.longest)
        for name in names:
            if name not in args.only:
                continue
            row = measures[name]() | head
            talk.print(json.dumps(row), highlight=False, markup=False)
            failed |= any(run.get("failed", False) for run in row["runs"])
            before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else None
            RESULTS.write_text(json.dumps(document([row], before), indent=1) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
