"""Are the rewrites right? Draws applied `safe` edits for a reader, and checks the table of what the reader found.

    python benchmarks/precision.py --draw DIR --sources DIR [--seed N] [--count 150] [--only OWNER/NAME ...]
    python benchmarks/precision.py --check

`--draw` runs perfmod over the repositories of `corpus/repositories.toml` (under `--sources`, as for `corpus.py`) and
draws `--count` of the applied findings whose safety is `safe`: one from every repository that has any, as long as they
last, the rest from all that are left, with a seeded generator. DIR gets `001.txt` and so on, each with the finding, the
code around it and the diffs of the repository that have to do with it, and `precision.toml`, a table with an empty
verdict for each.

Somebody who did not write the rule reads each against the code, writes `right` or `wrong` for its `verdict` and, for a
wrong one, what is wrong with it as its `note`, and commits the table as `benchmarks/results/precision.toml`. When the
rule was mended, `mended` gets the commit that did it.

`results/precision_first.toml` to `precision_sixth.toml` are those of earlier draws, whose wrong ones were mended.

`--check` demands of that table: enough edits over enough repositories of the manifest, a reader, a verdict for each,
a note for each wrong one, and none wrong that is not mended. The exit code is 1 otherwise.
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
from corpus_sources import Repository, Unavailable, git, repositories
from revision import revision
from rich.console import Console

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).resolve().parent / "results" / "precision.toml"
EDITS = 150
REPOSITORIES = 40
AROUND = 25
"""Lines of code that are shown above and below a finding."""
FIELDS = ("number", "repository", "path", "cell", "line", "rule", "fingerprint", "verdict", "note", "mended")


@frozen
class Edit:
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
            f"edit {number}: {self.repository.name} at {self.repository.commit[:10]}",
            f"{self.repository.url}/blob/{self.repository.commit}/{path}#L{line}",
            f"{place}, in {finding['scope'] or 'the module'}",
            f"{finding['code']} {finding['name']}: {finding['message']}",
            f"claimed: {finding['safety']}, {finding['numerics']}: {finding['reason']}",
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
            "verdict": "",
            "note": "",
            "mended": "",
        }


def collect(chosen: Sequence[Repository], sources: Path, together: int, talk: Console) -> list[Edit]:
    """All applied safe findings."""
    found: list[Edit] = []
    with ProcessPoolExecutor(together) as processes:
        for repository, edits in zip(chosen, processes.map(partial(edits_in, sources=sources), chosen), strict=True):
            talk.print(f"{repository.name}: {edits if isinstance(edits, str) else len(edits)}", highlight=False)
            found += [] if isinstance(edits, str) else edits
    return found


def edits_in(repository: Repository, sources: Path) -> list[Edit] | str:
    """The applied safe findings of a repository, or why it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        try:
            tree = repository.tree(sources, scratch)
        except Unavailable as error:
            return str(error)
        run = apply(tree, repository.paths, scratch, jobs=1)
        rewritten = [each for each in run.findings if each["state"] == "rewritten" and each["safety"] == "safe"]
        if not rewritten:
            return []
        changed = [each["path"] for each in run.files if each["outcome"] == "changed"]
        # A finding may stand in a file whose code stays as it is, with all its edits elsewhere.
        read = {*changed, *(each["path"] for each in rewritten)}
        before = {path: _text(tree / path) for path in read}
        (scratch / "drawn.diff").write_bytes(run.patch)
        git(tree, "apply", str(scratch / "drawn.diff"))
        after = {path: _text(tree / path) for path in read}
    diffs = {path: _diff(path, _shown(path, before[path])[0], _shown(path, after[path])[0]) for path in changed}
    edits = []
    for each in rewritten:
        path = each["path"]
        near = {name: diff for name, diff in diffs.items() if name in each["elsewhere"] and name != path}
        edits.append(Edit(repository, each, before[path], after[path], near))
    return edits


def draw(edits: Sequence[Edit], count: int, seed: int) -> list[Edit]:
    """`count` of them: one of every repository first, then any; ordered by repository and place."""
    generator = random.Random(seed)
    pool = list(edits)
    generator.shuffle(pool)
    first: dict[str, Edit] = {}
    for edit in pool:
        first.setdefault(edit.repository.name, edit)
    chosen = list(first.values())[:count]
    taken = {id(edit) for edit in chosen}
    chosen += [edit for edit in pool if id(edit) not in taken][: count - len(chosen)]
    order = {id(edit): number for number, edit in enumerate(edits)}
    return sorted(chosen, key=lambda edit: order[id(edit)])


def write(chosen: Sequence[Edit], folder: Path, seed: int) -> None:
    """The pages, and the table to be filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, edit in enumerate(chosen, start=1):
        (folder / f"{number:03d}.txt").write_text(edit.page(number), encoding="utf-8")
    head = [
        "# Applied `safe` edits, drawn by `benchmarks/precision.py`, and what a reader found. verdict: right or wrong;",
        "# note: what is wrong; mended: the commit that mended the rule.",
        f"seed = {seed}",
        f"commit = {json.dumps(revision() or '')}",
        'reader = ""',
    ]
    rows = [edit.entry(number) for number, edit in enumerate(chosen, start=1)]
    # JSON's strings and integers are TOML's.
    tables = ["\n".join(["[[edit]]", *(f"{key} = {json.dumps(row[key])}" for key in FIELDS)]) for row in rows]
    (folder / "precision.toml").write_text("\n".join(head) + "\n\n" + "\n\n".join(tables) + "\n", encoding="utf-8")


def problems(table: Mapping[str, Any], *, edits: int = EDITS, least: int = REPOSITORIES) -> list[str]:
    """What a table lacks to be complete; none where every edit is judged and right."""
    rows = table.get("edit", [])
    found = []
    if not table.get("reader"):
        found.append("nobody signed as its reader")
    if len(rows) < edits:
        found.append(f"{len(rows)} edits instead of {edits}")
    names = {row["repository"] for row in rows}
    if len(names) < least:
        found.append(f"{len(names)} repositories instead of {least}")
    unknown = names - {repository.name for repository in repositories()}
    found += [f"{name} is not in the manifest" for name in sorted(unknown)]
    places = [
        (row["repository"], row["path"], row["cell"], row["line"], row["rule"], row["fingerprint"]) for row in rows
    ]
    found += [f"{place} is there twice" for place in sorted(set(places)) if places.count(place) > 1]
    for row in rows:
        name = f"edit {row['number']} ({row['repository']}, {row['path']}:{row['line']}, {row['rule']})"
        if missing := [key for key in FIELDS if key not in row]:
            found.append(f"{name} has no {', '.join(missing)}")
        elif row["verdict"] not in ("right", "wrong"):
            found.append(f"{name} has no verdict")
        elif row["verdict"] == "wrong" and not row["note"]:
            found.append(f"{name} is wrong without a note")
        elif row["verdict"] == "wrong" and not row["mended"]:
            found.append(f"{name} is wrong: {row['note']}")
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
    which.add_argument("--draw", type=Path, metavar="DIR", help="draw edits, and write pages and table to DIR")
    which.add_argument("--check", action="store_true", help="check the committed table")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="the repositories, as DIR/<owner>/<name>")
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--count", type=int, default=EDITS)
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
    entries = [each for each in repositories() if args.only is None or each.name in args.only]
    edits = collect(entries, args.sources.resolve(), args.together, talk)
    chosen = draw(edits, args.count, args.seed)
    write(chosen, args.draw, args.seed)
    names = {edit.repository.name for edit in chosen}
    talk.print(f"{len(chosen)} of {len(edits)} safe edits, from {len(names)} repositories, are in {args.draw}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
