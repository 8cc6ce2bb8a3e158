"""Which training steps of public repositories `launch-bound-step` (PM314) records, and what prevents the others.

    python benchmarks/recorded_steps.py DIR [--json FILE]

DIR holds repositories of `corpus/zoo.toml` as `<owner>+<name>`, at the pinned commits; others are left out, and so are
repositories that are not there. A copy of each gets the rewrites of all rules, as `perfmod tune` tries them, but for
PM311, which is for several GPUs: the others take out of steps what cannot be recorded. Nothing is run and no GPU is
needed: this is what the code shows. A row for each training step: repository, commit, file, line, and the reason in
words where it stays as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus_sources import zoo
from rich.console import Console
from rich.table import Table

from perfmod.codemods import catalog

CODE = "PM314"
ON_SEVERAL_GPUS = "PM311"


def repositories(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Name, commit and place of those that are there."""
    for each in zoo():
        place = folder / each.name.replace("/", "+")
        if place.is_dir():
            yield each.name, each.commit, place


def steps(place: Path) -> list[dict[str, Any]]:
    """The rule's findings in a repository, as the JSON of `apply` has them."""
    codes = ",".join(rule.code for rule in catalog.rules() if rule.code != ON_SEVERAL_GPUS)
    command = [sys.executable, "-m", "perfmod", "apply", ".", "--select", codes, "--unsafe", "--output-format", "json"]
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(place, Path(folder) / place.name, symlinks=True)
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if not done.stdout:  # a file that cannot be read is left out
        raise SystemExit(f"{place}: {done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return [each for each in found if each["code"] == CODE]


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each training step."""
    for name, commit, place in repositories(folder):
        for step in steps(place):
            is_recorded = step["state"] == "rewritten"
            yield {
                "repository": name,
                "commit": commit,
                "path": step["path"],
                "line": step["line"],
                "recorded": is_recorded,
                "numerics": step["numerics"] if is_recorded else "",
                "reason": "" if is_recorded else step["reason"],
            }


def kind(reason: str) -> str:
    """A reason without places and names, to count by."""
    return re.sub(r"^line \d+( of \S+)?: ", "", re.sub(r"`.*`", "...", reason))


def main() -> None:
    """Count, show, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    found = list(rows(arguments.folder))
    table = Table("steps", "what becomes of them")
    kinds = Counter("recorded" if row["recorded"] else kind(row["reason"]) for row in found)
    for reason, count in kinds.most_common():
        table.add_row(str(count), reason)
    console = Console()
    console.print(table)
    searched = [{"repository": name, "commit": commit} for name, commit, _ in repositories(arguments.folder)]
    console.print(f"{len(found)} training steps in {len(searched)} repositories")
    if arguments.json is not None:
        document = {"searched": searched, "steps": found}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
