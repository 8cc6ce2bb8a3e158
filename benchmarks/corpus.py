"""perfmod over the code of the world: public training repositories, and libraries on PyPI.

    python benchmarks/corpus.py --sources DIR [--fetch] [--only OWNER/NAME ...] [--together N] [--json FILE]
                                [--markdown FILE]
    python benchmarks/corpus.py --pypi [--wheels DIR] [--every N] [--only NAME ...] [--json FILE]

`corpus/repositories.toml` pins the repositories by commit; they are no part of this one. DIR holds each as
`DIR/<owner>/<name>`, a git repository with that commit (a bare one will do); `--fetch` gets what is missing from
GitHub. `corpus/packages.toml` pins the releases of the packages; pip downloads those that are not in `--wheels`. All of
them are 90 MB of Python, which takes minutes; CI reads each sixteenth file.

For every repository and package perfmod runs as for a user, `perfmod apply --dry-run` without its cache, in a clean
tree in a scratch folder. Then has to hold:

- no crash: no file failed, unless this Python cannot parse it either;
- outputs parse, by `ast` and by LibCST;
- second run is empty: run over the rewritten tree, perfmod applies nothing (of packages, over the changed files);
- diff applies: `git apply --check` and `git apply` take the diff from the root of the repository;
- diff reverts: so they do with `--reverse`, and the tree is as it was.

Wall time and peak memory are those of the first run, with `--jobs` processes, beside `--together` - 1 other entries.
The results go to FILE, with the findings by rule and reason; with `--sources` also how far the rules reach, counted
independently of them (`corpus_survey.py` says what is counted, `corpus_reach.py` what became of it). The exit code is 1
if something does not hold or is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen
from corpus_checks import CHECKS, check, row_of
from corpus_reach import Fate, Reach, counted, fates_in
from corpus_sources import Package, Repository, Unavailable, packages, repositories
from corpus_tables import markdown
from revision import revision
from rich.console import Console

from perfmod import __version__

Entry = TypeVar("Entry", Repository, Package)
Result = TypeVar("Result")


@frozen
class Effort:
    """How much is done at the same time: so many entries `together`, by so many processes of perfmod each."""

    together: int
    jobs: int


@frozen
class Output:
    """Where the results go, as far as they are asked for; written anew after every entry."""

    json: Path | None
    markdown: Path | None
    misses: Path | None

    def write(self, rows: Sequence[Mapping[str, Any]], reach: Reach | None, jobs: int) -> None:
        """Write the rows, and the reach of the repositories."""
        result = {
            "schema": 1,
            "perfmod": __version__,
            "commit": revision(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "jobs": jobs,
            **({} if reach is None else {"reach": reach.figures()}),
            "rows": rows,
        }
        if self.json is not None:
            self.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if self.markdown is not None:
            self.markdown.write_text(markdown(result), encoding="utf-8")
        if self.misses is not None and reach is not None:
            self.misses.write_text(json.dumps(reach.misses(), indent=1) + "\n", encoding="utf-8")


def examine_repositories(
    chosen: Sequence[Repository], sources: Path, effort: Effort, output: Output, talk: Console
) -> list[dict[str, Any]]:
    """The rows of repositories."""
    rows: list[dict[str, Any]] = []
    reach = Reach()
    names = [entry.name for entry in chosen]
    for row, fates in _each(partial(_repository, sources=sources, jobs=effort.jobs), chosen, effort):
        rows = sorted([*rows, row], key=lambda row: names.index(row["name"]))
        reach.fates[row["name"]] = fates
        _tell(row, talk)
        output.write(rows, reach, effort.jobs)
    return rows


def _each(work: Callable[[Entry], Result], chosen: Sequence[Entry], effort: Effort) -> Iterator[Result]:
    """What `work` gives for every entry, as it comes."""
    with ProcessPoolExecutor(effort.together) as processes:
        for done in as_completed([processes.submit(work, entry) for entry in chosen]):
            yield done.result()


def _repository(entry: Repository, sources: Path, jobs: int) -> tuple[dict[str, Any], list[Fate]]:
    """The row of a repository, and what became of what the survey counts in it."""
    pinned = {"commit": entry.commit, "kind": entry.kind}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        try:
            tree = entry.tree(sources, scratch)
        except Unavailable as error:
            return _missing(entry.name, error) | pinned, []
        checked = check(tree, entry.paths, scratch, jobs=jobs, whole_second_run=True)
        fates = fates_in(checked, entry.paths)
        return row_of(entry.name, checked) | pinned | {"reach": counted(fates)}, fates


def examine_packages(
    chosen: Sequence[Package], wheels: Path, every: int, effort: Effort, output: Output, talk: Console
) -> list[dict[str, Any]]:
    """The rows of packages; of their files each `every`-th is read."""
    rows: list[dict[str, Any]] = []
    names = [entry.name for entry in chosen]
    for row in _each(partial(_package, wheels=wheels, every=every, jobs=effort.jobs), chosen, effort):
        rows = sorted([*rows, row], key=lambda row: names.index(row["name"]))
        _tell(row, talk)
        output.write(rows, None, effort.jobs)
    return rows


def _package(entry: Package, wheels: Path, every: int, jobs: int) -> dict[str, Any]:
    pinned = {"version": entry.version, "every": every}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        try:
            tree = entry.tree(wheels, scratch, every)
        except Unavailable as error:
            return _missing(entry.name, error) | pinned
        checked = check(tree, entry.paths, scratch, jobs=jobs, whole_second_run=False)
        return row_of(entry.name, checked) | pinned


def _missing(name: str, error: Unavailable) -> dict[str, Any]:
    return {"name": name, "problems": {"missing": [str(error)]}}


def _tell(row: Mapping[str, Any], talk: Console) -> None:
    talk.print(_line(row) if "findings" in row else row["name"], highlight=False, markup=False)
    for name, found in row["problems"].items():
        for problem in found[:5]:
            talk.print(f"    {name}: {problem}", style="red", highlight=False, markup=False)


def _line(row: Mapping[str, Any]) -> str:
    findings = row["findings"]
    counts = ", ".join(f"{findings[state]} {state}" for state in findings) or "no findings"
    files = sum(row["files"].values())
    return f"{row['name']}: {files} files, {counts}, {row['seconds']} s, {row['peak_mib']} MiB"


def main() -> int:
    """Run what the command line asks for; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--sources", type=Path, metavar="DIR", help="the repositories, as DIR/<owner>/<name>")
    which.add_argument("--pypi", action="store_true", help="the packages on PyPI instead")
    parser.add_argument("--fetch", action="store_true", help="get missing repositories from GitHub first")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="where the wheels of the packages are, or go")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of packages, each N-th file alone")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these repositories or packages alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes of perfmod (default: 1)")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="entries at the same time (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here")
    parser.add_argument(
        "--misses", type=Path, metavar="FILE", help="write every occurrence that was missed, with its code"
    )
    args = parser.parse_args()

    known = [entry.name for entry in (packages() if args.pypi else repositories())]
    if unknown := set(args.only or ()) - set(known):
        parser.error(f"not in the manifest: {', '.join(sorted(unknown))}")
    chosen = set(args.only or known)
    talk = Console(stderr=True, soft_wrap=True)
    effort = Effort(args.together, args.jobs)
    output = Output(args.json, args.markdown, args.misses)
    if args.pypi:
        with tempfile.TemporaryDirectory() as downloads:
            wheels = (args.wheels or Path(downloads)).resolve()
            rows = examine_packages(
                [package for package in packages() if package.name in chosen], wheels, args.every, effort, output, talk
            )
    else:
        listed = [repository for repository in repositories() if repository.name in chosen]
        for repository in listed if args.fetch else ():
            talk.print(f"fetching {repository.name}")
            repository.fetch(args.sources)
        rows = examine_repositories(listed, args.sources.resolve(), effort, output, talk)
    failing = [row["name"] for row in rows if row["problems"]]
    held = ", ".join(CHECKS)
    talk.print(
        f"{len(rows) - len(failing)} of {len(rows)}: {held}" + (f"; not so: {', '.join(failing)}" if failing else "")
    )
    return 1 if failing else 0


if __name__ == "__main__":
    raise SystemExit(main())
