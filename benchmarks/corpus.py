"""perfmod over the code of the world: public training repositories, and libraries on PyPI.

    python benchmarks/corpus.py --sources DIR [--fetch] [--only OWNER/NAME ...] [--json FILE] [--markdown FILE]
    python benchmarks/corpus.py --pypi [--wheels DIR] [--only NAME ...] [--json FILE]

`corpus/repositories.toml` pins the repositories by commit; they are no part of this one. DIR holds each as
`DIR/<owner>/<name>`, a git repository with that commit (a bare one will do); `--fetch` gets what is missing from
GitHub. `corpus/packages.toml` pins the releases of the packages; pip downloads those that are not in `--wheels`.

For every repository and package perfmod runs as for a user, `perfmod apply --dry-run` without its cache, in a clean
tree in a scratch folder. Then has to hold:

- no crash: no file failed, unless this Python cannot parse it either;
- outputs parse, by `ast` and by LibCST;
- second run is empty: run over the rewritten tree, perfmod applies nothing (of packages, over the changed files);
- diff applies: `git apply --check` and `git apply` take the diff from the root of the repository;
- diff reverts: so they do with `--reverse`, and the tree is as it was.

Wall time and peak memory are those of the first run, with `--jobs` processes. The results go to FILE, with the
findings by rule and reason; with `--sources` also how far the rules reach, counted independently of them
(`corpus_survey.py` says what is counted, `corpus_reach.py` what became of it). The exit code is 1 if something does
not hold or is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus_checks import CHECKS, check, row
from corpus_reach import Reach
from corpus_sources import Package, Repository, Unavailable, packages, repositories
from corpus_tables import markdown
from revision import revision
from rich.console import Console

from perfmod import __version__


def examine(
    entries: Iterable[Repository | Package], sources: Path, jobs: int, misses: Path | None, talk: Console
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of all entries, and the reach over them."""
    rows: list[dict[str, Any]] = []
    reach = Reach()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        for entry in entries:
            try:
                tree = entry.tree(sources, scratch)
            except Unavailable as error:
                rows.append({"name": entry.name, "problems": {"missing": [str(error)]}})
                talk.print(f"{entry.name}: {error}", style="red", highlight=False)
                continue
            is_repository = isinstance(entry, Repository)
            checked = check(tree, entry.paths, scratch, jobs=jobs, whole_second_run=is_repository)
            pinned = {"commit": entry.commit, "kind": entry.kind} if is_repository else {"version": entry.version}
            new = row(entry.name, checked) | pinned
            if is_repository:
                new["reach"] = reach.add(entry.name, checked, entry.paths)
            rows.append(new)
            talk.print(_line(new), highlight=False, markup=False)
            for name, found in checked.problems.items():
                for problem in found[:5]:
                    talk.print(f"    {name}: {problem}", style="red", highlight=False, markup=False)
            shutil.rmtree(tree)
    if misses is not None:
        misses.write_text(json.dumps(reach.misses(), indent=1) + "\n", encoding="utf-8")
    return rows, reach.figures()


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
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these repositories or packages alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes of perfmod (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here")
    parser.add_argument(
        "--misses", type=Path, metavar="FILE", help="write every occurrence that was missed, with its code"
    )
    args = parser.parse_args()

    entries: Sequence[Repository | Package] = packages() if args.pypi else repositories()
    if args.only:
        unknown = set(args.only) - {entry.name for entry in entries}
        if unknown:
            parser.error(f"not in the manifest: {', '.join(sorted(unknown))}")
        entries = [entry for entry in entries if entry.name in args.only]
    talk = Console(stderr=True, soft_wrap=True)
    if args.fetch and args.sources:
        for entry in entries:
            if isinstance(entry, Repository):
                talk.print(f"fetching {entry.name}")
                entry.fetch(args.sources)
    with tempfile.TemporaryDirectory() as downloads:
        sources = (args.wheels or Path(downloads)) if args.pypi else args.sources
        rows, reach = examine(entries, sources.resolve(), args.jobs, args.misses, talk)
    result = {
        "schema": 1,
        "perfmod": __version__,
        "commit": revision(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "jobs": args.jobs,
        **({} if args.pypi else {"reach": reach}),
        "rows": rows,
    }
    if args.json:
        args.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(markdown(result), encoding="utf-8")
    failing = [row["name"] for row in rows if row["problems"]]
    held = ", ".join(CHECKS)
    talk.print(
        f"{len(rows) - len(failing)} of {len(rows)}: {held}" + (f"; not so: {', '.join(failing)}" if failing else "")
    )
    return 1 if failing else 0


if __name__ == "__main__":
    raise SystemExit(main())
