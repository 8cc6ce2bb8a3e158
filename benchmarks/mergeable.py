"""Would a maintainer merge the diffs? Draws hunks from repositories that nobody tuned to; checks the readers' table.

    python benchmarks/mergeable.py --draw DIR --sources DIR [--group sealed] [--seed N] [--count 60]
    python benchmarks/mergeable.py --check

`--draw` runs perfmod, as it is by default, over repositories of `corpus/unseen.toml` (under `--sources`, as for
`corpus.py`) that are of a group, and draws `--count` of the rewrites: one from every repository that has any, as long
as they last, the rest from all that are left, with a seeded generator; ten at most from one repository, whose rewrites
are often the same line again and again. DIR gets `001.txt` and so on, each with what perfmod says, the code around and
the diffs that have to do with it, and `mergeable.toml`, a table with an empty grade for each.

Somebody who did not write the rules reads each as the maintainer of that code would read a pull request, and writes a
`grade`: `merge` (as it is), `nit` (after a small remark), `differently` (right, but not the line that an expert would
write), `reject` (no gain, or not wanted); `wrong = true` where a value, a gradient, a mutated argument or an exception
of the training, or a shown figure by more than a rounding of float32, would change; and a `note` for all but the first
grade. The table is committed as `benchmarks/results/mergeable.toml`; what was changed because of a row stands in its
`mended`.

`--check` demands of that table: enough hunks over enough repositories, a reader, a grade for each, notes, nothing
wrong, and 85 % merged as they are or after a nit. The exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen
from corpus_checks import apply
from corpus_index import cells_of
from corpus_sources import Repository, Unavailable, git, unseen
from revision import revision
from rich.console import Console

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).resolve().parent / "results" / "mergeable.toml"
HUNKS = 60
REPOSITORIES = 25
_OF_ONE = 10
"""So many rewrites of one repository are read at most."""
MERGED = 0.85
"""The share that has to be merged as it is or after a nit."""
GRADES = ("merge", "nit", "differently", "reject")
AROUND = 25
"""Lines of code that are shown above and below a finding."""
FIELDS = ("number", "repository", "path", "cell", "line", "rule", "fingerprint", "grade", "wrong", "note", "mended")


@frozen
class Hunk:
    """One applied finding.

    Attributes:
        repository: where it is.
        finding: its row in perfmod's report.
        before, after: the file's code.
        others: the diffs of the other files that the finding changes, by path.
    """

    repository: Repository
    finding: Mapping[str, Any]
    before: str
    after: str
    others: Mapping[str, str]

    def page(self, number: int) -> str:
        """What a reader is shown."""
        finding = self.finding
        path, line, cell = finding["path"], finding["line"], finding.get("cell") or 0
        place = f"{path}, cell {cell}, line {line}" if cell else f"{path}:{line}"
        head = [
            f"hunk {number}: {self.repository.name} at {self.repository.commit[:10]}",
            f"{self.repository.url}/blob/{self.repository.commit}/{path}#L{line}",
            f"{place}, in {finding['scope'] or 'the module'}",
            f"{finding['code']} {finding['name']}: {finding['message']}",
            f"claimed: {finding['numerics']}: {finding['reason']}",
        ]
        lines, places = _shown(path, self.before)
        at = places.index((cell, line)) if (cell, line) in places else 0
        context = [
            f"{places[i][1]:5d}{'>' if i == at else ' '} {lines[i]}"
            for i in range(max(0, at - AROUND), min(len(lines), at + AROUND))
        ]
        own = _diff(path, lines, _shown(path, self.after)[0])
        parts = ["\n".join(head), "--- before ---", "\n".join(context), "--- diff of the file ---", own]
        for other, diff in self.others.items():
            parts += [f"--- diff of {other} ---", diff]
        return "\n\n".join(parts) + "\n"

    def entry(self, number: int) -> dict[str, Any]:
        """Its row of the table, without a verdict."""
        finding = self.finding
        return {
            "number": number,
            "repository": self.repository.name,
            "path": finding["path"],
            "cell": finding.get("cell") or 0,
            "line": finding["line"],
            "rule": finding["code"],
            "fingerprint": finding["fingerprint"],
            "grade": "",
            "wrong": False,
            "note": "",
            "mended": "",
        }


def collect(chosen: Sequence[Repository], sources: Path, together: int, talk: Console) -> list[Hunk]:
    """All rewrites."""
    found: list[Hunk] = []
    with ProcessPoolExecutor(together) as processes:
        for repository, hunks in zip(chosen, processes.map(partial(hunks_in, sources=sources), chosen), strict=True):
            talk.print(f"{repository.name}: {hunks if isinstance(hunks, str) else len(hunks)}", highlight=False)
            found += [] if isinstance(hunks, str) else hunks
    return found


def hunks_in(repository: Repository, sources: Path) -> list[Hunk] | str:
    """The rewrites of a repository, or why it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        try:
            tree = repository.tree(sources, scratch)
        except Unavailable as error:
            return str(error)
        run = apply(tree, repository.paths, scratch, jobs=1)
        rewritten = [each for each in run.findings if each["state"] == "rewritten"]
        if not rewritten:
            return []
        changed = [each["path"] for each in run.files if each["outcome"] == "changed"]
        # A finding may stand in a file whose code stays as it is, with all its hunks elsewhere.
        read = {*changed, *(each["path"] for each in rewritten)}
        before = {path: _text(tree / path) for path in read}
        (scratch / "drawn.diff").write_bytes(run.patch)
        git(tree, "apply", str(scratch / "drawn.diff"))
        after = {path: _text(tree / path) for path in read}
    diffs = {path: _diff(path, _shown(path, before[path])[0], _shown(path, after[path])[0]) for path in changed}
    hunks = []
    for each in rewritten:
        path = each["path"]
        near = {name: diff for name, diff in diffs.items() if name in each["elsewhere"] and name != path}
        hunks.append(Hunk(repository, each, before[path], after[path], near))
    return hunks


def draw(hunks: Sequence[Hunk], count: int, seed: int) -> list[Hunk]:
    """`count` of them: one of every repository first, then any; ordered by repository and place."""
    pool = list(enumerate(hunks))
    random.Random(seed).shuffle(pool)
    turns: dict[str, int] = {}
    first: list[tuple[int, Hunk]] = []
    further: list[tuple[int, Hunk]] = []
    for number, hunk in pool:
        turn = turns[hunk.repository.name] = turns.get(hunk.repository.name, 0) + 1
        if turn <= _OF_ONE:
            (first if turn == 1 else further).append((number, hunk))
    return [hunk for _, hunk in sorted((first + further)[:count], key=lambda chosen: chosen[0])]


def write(chosen: Sequence[Hunk], folder: Path, seed: int) -> None:
    """The pages, and the table to be filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, hunk in enumerate(chosen, start=1):
        (folder / f"{number:03d}.txt").write_text(hunk.page(number), encoding="utf-8")
    head = [
        "# Rewrites drawn by `benchmarks/mergeable.py`, and the grades of readers who did not write the rules.",
        f"seed = {seed}",
        f"commit = {json.dumps(revision() or '')}",
        'reader = ""',
    ]
    rows = [hunk.entry(number) for number, hunk in enumerate(chosen, start=1)]
    # JSON's strings, integers and truths are TOML's.
    tables = ["\n".join(["[[hunk]]", *(f"{key} = {json.dumps(row[key])}" for key in FIELDS)]) for row in rows]
    (folder / TABLE.name).write_text("\n".join(head) + "\n\n" + "\n\n".join(tables) + "\n", encoding="utf-8")


def problems(table: Mapping[str, Any], *, hunks: int = HUNKS, least: int = REPOSITORIES) -> list[str]:
    """What a table lacks to be complete and good enough; none where nothing does."""
    rows = table.get("hunk", [])
    found = []
    if not table.get("reader"):
        found.append("nobody signed as its reader")
    if len(rows) < hunks:
        found.append(f"{len(rows)} hunks instead of {hunks}")
    names = {row["repository"] for row in rows}
    if len(names) < least:
        found.append(f"{len(names)} repositories instead of {least}")
    unknown = names - {repository.name for repository in unseen()}
    found += [f"{name} is not in the manifest" for name in sorted(unknown)]
    places = [
        (row["repository"], row["path"], row["cell"], row["line"], row["rule"], row["fingerprint"]) for row in rows
    ]
    found += [f"{place} is there twice" for place in sorted(set(places)) if places.count(place) > 1]
    for row in rows:
        name = f"hunk {row['number']} ({row['repository']}, {row['path']}:{row['line']}, {row['rule']})"
        if missing := [key for key in FIELDS if key not in row]:
            found.append(f"{name} has no {', '.join(missing)}")
        elif row["grade"] not in GRADES:
            found.append(f"{name} has no grade")
        elif row["grade"] != GRADES[0] and not row["note"]:
            found.append(f"{name} has no note")
        elif row["wrong"]:
            found.append(f"{name} is wrong: {row['note']}")
    merged = sum(row.get("grade") in GRADES[:2] for row in rows)
    if merged < MERGED * len(rows):
        found.append(f"{merged} of {len(rows)} would be merged")
    return found


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _shown(path: str, text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The lines of a file or of the code cells of a notebook, and the cell and line of each."""
    if path.endswith(".ipynb"):
        return cells_of(text)
    lines = text.splitlines()
    return lines, [(0, number) for number, _ in enumerate(lines, start=1)]


def _diff(path: str, before: Sequence[str], after: Sequence[str]) -> str:
    return "\n".join(difflib.unified_diff(before, after, path, path, n=10, lineterm=""))


def main() -> int:
    """Draw or check; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--draw", type=Path, metavar="DIR", help="draw hunks, and write pages and table to DIR")
    which.add_argument("--check", action="store_true", help="check the committed table")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="the repositories, as DIR/<owner>/<name>")
    parser.add_argument("--group", default="sealed", help="the repositories of the manifest that are drawn from")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--count", type=int, default=HUNKS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these repositories alone")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="repositories at the same time")
    args = parser.parse_args()
    talk = Console(stderr=True, soft_wrap=True)
    if args.check:
        table = tomllib.loads(TABLE.read_text("utf-8")) if TABLE.is_file() else {}
        found = problems(table)
        for problem in found:
            talk.print(problem, highlight=False, markup=False)
        return 1 if found else 0
    if args.sources is None:
        parser.error("--draw needs --sources")
    entries = [each for each in unseen() if (each.name in args.only if args.only else each.kind == args.group)]
    found = collect(entries, args.sources.resolve(), args.together, talk)
    chosen = draw(found, args.count, args.seed)
    write(chosen, args.draw, args.seed)
    names = {hunk.repository.name for hunk in chosen}
    talk.print(f"{len(chosen)} of {len(found)} rewrites, from {len(names)} repositories, are in {args.draw}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
