"""Does perfmod say the same on a busy machine? `check` over sixty public repositories, four times each.

    python benchmarks/steadiness.py [--checkouts DIR] [--sample N] [--only OWNER/NAME ...]

The repositories are those of `corpus/public.toml`; DIR holds each as `DIR/<owner>+<name>`, with the pinned commit
checked out, and what is missing is fetched from GitHub. Each is examined without the cache, with one process and with
two, alone and beside two processes that do nothing but compute. All four have to write the same, byte for byte, and to
have analysed every file: none may be left out because it took too long. Results go to `results/steadiness.json`, and
the exit code is 1 where something differs, is left out, or is not there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corpus_sources import Repository, git, public
from process_cost import PERFMOD, Cost, cost, machine
from revision import revision
from rich.console import Console

RESULTS = Path(__file__).resolve().parent / "results" / "steadiness.json"
LONGEST_S = 10 * 60
"""Seconds that one run may take."""
BUSY = 2
"""Processes that compute beside a run under load."""
JOBS = (1, 2)
_LOST = ("not analysed", "--time-limit")
"""What the reason of a file says that was left out because it took too long."""


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep so many processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def compared(runs: Mapping[str, Cost]) -> dict[str, Any]:
    """What runs of one input, by how they were made, have in common: how many files were read, which were left out by
    any of them, which runs said something else than the first, and which did not end.
    """
    first = next(iter(runs.values()))
    files: set[str] = set()
    lost: set[str] = set()
    broken = []
    for name, run in runs.items():
        try:
            rows = json.loads(run.output)["files"]
        except (ValueError, KeyError):
            broken.append(f"{name}: exit code {run.code}: {run.errors}")
            continue
        files |= {row["path"] for row in rows}
        lost |= {row["path"] for row in rows if any(words in row["reason"] for words in _LOST)}
    return {
        "files": len(files),
        "seconds": {name: run.seconds for name, run in runs.items()},
        "differs": [name for name, run in runs.items() if (run.output, run.code) != (first.output, first.code)],
        "lost": sorted(lost),
        "broken": broken,
    }


def row(repository: Repository, checkouts: Path) -> dict[str, Any]:
    """The row of a repository."""
    head = {"repository": repository.name, "commit": repository.commit}
    folder = checkouts / repository.name.replace("/", "+")
    try:
        repository.fetch_to(folder)
        at = git(folder, "rev-parse", "HEAD").stdout.decode().strip()
    except subprocess.CalledProcessError as error:
        return head | {"unavailable": error.stderr.decode(errors="replace").strip()}
    if at != repository.commit:
        return head | {"unavailable": f"{folder} is at commit {at}"}
    command = [*PERFMOD, "check", "--no-cache", "--output-format", "json", "--explain-all", "."]
    runs: dict[str, Cost] = {}
    for state, processes in (("idle", 0), ("loaded", BUSY)):
        with load(processes):
            for jobs in JOBS:
                runs[f"{jobs} {state}"] = cost([*command, "--jobs", str(jobs)], folder, LONGEST_S)
    return head | compared(runs)


def sample(listed: Sequence[Repository], number: int | None) -> Sequence[Repository]:
    """So many of a list, evenly spread."""
    if number is None:
        return listed
    number = min(number, len(listed))
    return [listed[place * len(listed) // number] for place in range(number)]


def main() -> int:
    """Run over the repositories, write the results; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, metavar="DIR", help="where the repositories are, or are put")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many of them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these repositories alone; nothing is written then")
    args = parser.parse_args()
    chosen = sample([each for each in public() if args.only is None or each.name in args.only], args.sample)
    talk = Console(stderr=True, soft_wrap=True)
    head = {"commit": revision(), "machine": machine(), "jobs": JOBS, "busy": BUSY, "listed": len(public())}
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for each in chosen:
            rows.append(row(each, (args.checkouts or Path(scratch)).resolve()))
            talk.print(json.dumps(rows[-1]), highlight=False, markup=False)
            if args.only is None:
                RESULTS.write_text(json.dumps(head | {"repositories": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(any(row.get(key) for key in ("unavailable", "differs", "lost", "broken")) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
