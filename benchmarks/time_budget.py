"""Does any file hold up a run? perfmod over repositories that nobody tuned to, with the time of each.

    python benchmarks/time_budget.py --sources DIR [--only OWNER/NAME ...] [--together N]

Runs `check`'s engine, without its cache, over the repositories of `corpus/unseen.toml` (under `--sources`, as for
`corpus.py`), each in one process of its own, and writes `results/time_budget.json` and `results/time_budget.md`: wall
time, processor time and memory, the slowest group of files that are read together, and the groups that took more than
their time limit. The exit code is 1 where one did, or where a file failed by perfmod's fault.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from corpus_checks import OURS
from corpus_sources import Repository, Unavailable, unseen
from revision import revision
from rich.console import Console

from perfmod import task
from perfmod.codemods.results import FileResult, Outcome
from perfmod.config import Options, Settings
from perfmod.errors import UsageMistake
from perfmod.examine import examine

RESULTS = Path(__file__).resolve().parent / "results"
_SHOWN = 25
"""Rows of the table in Markdown: the slowest ones."""


def measured(folder: Path) -> dict[str, Any]:
    """What examining a folder takes, in this process."""
    groups: list[tuple[float, int, str]] = []
    run = task.Task.run

    def timed(self: task.Task) -> tuple[FileResult, ...]:
        begin = time.process_time()
        results = run(self)
        groups.append((time.process_time() - begin, len(self.files), self.files[0].path))
        return results

    task.Task.run = timed  # type: ignore[method-assign]
    begin, processor = time.perf_counter(), time.process_time()
    found = examine([str(folder)], Options(), cwd=folder, jobs=1, use_cache=False)
    seconds, files, first = max(groups, default=(0.0, 0, str(folder)))
    return {
        "files": len(found),
        "seconds": round(time.perf_counter() - begin, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform == "darwin" else 1024),
        "slowest": {
            "seconds": round(seconds, 2),
            "files": files,
            "first": Path(first).resolve().relative_to(folder).as_posix() if files else "",
        },
        "over": sum(seconds > Settings().time_limit for seconds, _, _ in groups),
        "rewrites": sum(len(each.result.applied) for each in found),
        "faults": [
            f"{each.result.path}: {each.result.reason}"
            for each in found
            if each.result.outcome is Outcome.FAILED and each.result.reason.startswith(OURS)
        ],
    }


def row(repository: Repository, sources: Path) -> dict[str, Any]:
    """The row of a repository."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            tree = repository.tree(sources, Path(scratch).resolve())
        except Unavailable as error:
            return {"repository": repository.name, "unavailable": str(error)}
        command = [sys.executable, __file__, "--folder", str(tree)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"faults": [done.stderr.strip()[-500:] or f"exit code {done.returncode}"]}
    return {"repository": repository.name, "commit": repository.commit, **found}


def markdown(document: dict[str, Any]) -> str:
    """The document for people: sums, and the slowest repositories."""
    rows = [row for row in document["repositories"] if "slowest" in row]
    rows.sort(key=lambda row: -row["slowest"]["seconds"])
    files = sum(row["files"] for row in rows)
    over, faults = sum(row["over"] for row in rows), sum(len(row["faults"]) for row in rows)
    processor, limit = sum(row["processor_seconds"] for row in rows), document["time_limit"]
    lines = [
        "# Time over repositories that nobody tuned to",
        "",
        f"{len(rows)} repositories, {files:,} files, one process each ({document['machine']}),",
        f"{processor:,.0f} s of processor time; groups of files above the limit of {limit:g} s: {over};",
        f"faults: {faults}.",
        "",
        f"The {min(_SHOWN, len(rows))} with the slowest groups of files that are read together:",
        "",
        "| repository | files | wall time | processor | peak memory | slowest group | its files | its first file |",
        "| --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    for each in rows[:_SHOWN]:
        slowest = each["slowest"]
        lines.append(
            f"| {each['repository']} | {each['files']} | {each['seconds']:.1f} s | {each['processor_seconds']:.1f} s | "
            f"{each['peak_mib']} MiB | {slowest['seconds']:.1f} s | {slowest['files']} | `{slowest['first']}` |"
        )
    return "\n".join(lines) + "\n"


def report(rows: Sequence[dict[str, Any]]) -> int:
    """Write the results; the exit code."""
    document = {
        "commit": revision(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "time_limit": Settings().time_limit,
        "repositories": rows,
    }
    (RESULTS / "time_budget.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "time_budget.md").write_text(markdown(document), encoding="utf-8")
    return int(any(row.get("faults") or row.get("over") or "unavailable" in row for row in rows))


def main() -> int:
    """Measure one folder, or all repositories; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    which.add_argument("--sources", type=Path, metavar="DIR", help="the repositories, as DIR/<owner>/<name>")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these repositories alone; nothing is written then")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="repositories at the same time")
    args = parser.parse_args()
    if args.folder is not None:
        try:
            found = measured(args.folder.resolve())
        except UsageMistake as mistake:  # what a user is told as well, such as of a broken pyproject.toml
            found = {"told": str(mistake).replace(f"{args.folder.resolve()}/", "")}
        print(json.dumps(found))
        return 0
    chosen = [each for each in unseen() if args.only is None or each.name in args.only]
    talk = Console(stderr=True, soft_wrap=True)
    rows = []
    with ThreadPoolExecutor(args.together) as threads:
        for each in threads.map(partial(row, sources=args.sources.resolve()), chosen):
            talk.print(json.dumps(each), highlight=False, markup=False)
            rows.append(each)
    return report(rows) if args.only is None else 0


if __name__ == "__main__":
    raise SystemExit(main())
