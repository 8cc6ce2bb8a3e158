"""Do all ways of reviewing come to the same? Half of the findings of ten public projects, accepted in five ways.

    python benchmarks/review_ways.py [--checkouts DIR] [--projects 10] [--seed 30]

The projects are drawn from `corpus/public.toml`, those with at least four findings; DIR holds each as
`DIR/<owner>+<name>`, with the pinned commit checked out, and what is missing is fetched from GitHub. A finding is what
`review --unsafe --low-impact` shows; half of them are drawn as accepted, with what they build on. They are accepted

- in a patch: what `apply --patch` wrote, edited by hand: hunks deleted, lines changed, counts left as they were;
- as a series: `apply --patch-series --by finding` of the decisions, applied by `git am`;
- in the terminal: typed into a pseudo-terminal;
- on the page: keys pressed in headless chromium, decisions exported and given to `apply`;
- on the served page: keys pressed, and applied from the page.

All trees have to be the same, byte for byte, as that of `apply --decisions` with the decisions written directly.
Results go to `results/review_ways.json`; the exit code is 1 where a tree differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pexpect
from attrs import define
from corpus_sources import public
from process_cost import machine
from revision import revision
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

from chromium import launched  # noqa: E402, lies beside the tests
from playwright.sync_api import Page  # noqa: E402

from perfmod.codemods.patch import parse_hunks, split_lines  # noqa: E402
from perfmod.config import Options  # noqa: E402
from perfmod.review.items import Item, Verdict  # noqa: E402
from perfmod.review.session import Review  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "review_ways.json"
FEWEST = 4
"""Findings that a project has to have."""
OPTIONS = ("--unsafe", "--low-impact")
DECISIONS = ".perfmod/decisions.json"
PROMPT = r"\((\d+)/(\d+)\) accept (this|these \d+) \[[^\]]+\]\? "
Tree = Mapping[str, bytes]


@define
class Project:
    """A checkout, and what is accepted in it.

    Attributes:
        folder: a repository with one commit, which nothing is written to.
        items: all findings, in the order of review.
        accepted: keys of half of them, and of what these build on.
    """

    name: str
    folder: Path
    items: Mapping[str, Item]
    accepted: frozenset[str]

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """The checkout, to be written to."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "project"
            shutil.copytree(self.folder, folder, symlinks=True)
            yield folder


def run(folder: Path, *command: str) -> str:
    """What a command prints on both streams. Raises `RuntimeError` where it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return (done.stdout + done.stderr).decode(errors="replace")


def perfmod(folder: Path, *arguments: str) -> str:
    """What `perfmod` prints."""
    return run(folder, sys.executable, "-m", "perfmod", *arguments)


def tree(folder: Path) -> Tree:
    """The files that git knows."""
    names = run(folder, "git", "ls-files", "-z").split("\0")
    return {name: (folder / name).read_bytes() for name in names if name and (folder / name).is_file()}


def opened(folder: Path) -> Review:
    """The review of a folder, under `OPTIONS`."""
    return Review.of((".",), Options(unsafe=True, low_impact=True), cwd=folder)


def project(name: str, source: Path, scratch: Path, draw: random.Random) -> Project | None:
    """A project with half of its findings accepted; None where it has too few, or cannot be analysed."""
    folder = scratch / name.replace("/", "+")
    shutil.copytree(source, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    run(folder, "git", "init", "--quiet")
    run(folder, "git", "add", "--all", "--force")
    run(folder, "git", "commit", "--quiet", "--message", "as it was")
    review = opened(folder)
    if len(review.items) < FEWEST:
        return None
    chosen = set(draw.sample(sorted(review.items), len(review.items) // 2))
    while more := {base for key in chosen for base in review.items[key].builds_on} - chosen:
        chosen |= more
    return Project(name, folder, review.items, frozenset(chosen))


def decided(given: Project, folder: Path) -> None:
    """Write the decisions directly."""
    review = opened(folder)
    review.decide([key for key in review.items if key not in given.accepted], Verdict.REJECTED)
    review.decide([key for key in review.items if key in given.accepted], Verdict.ACCEPTED)
    perfmod(folder, "apply", ".", "--decisions", DECISIONS)


def by_patch(_given: Project, folder: Path, wanted: Tree) -> None:
    """Edit the patch of everything until it says what is wanted."""
    perfmod(folder, "apply", ".", *OPTIONS, "--patch", "all.patch")
    patch = (folder / "all.patch").read_bytes()
    edited: list[bytes] = []
    for part in re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(rb"^(?=@@ )", part, flags=re.MULTILINE)
        path = parse_hunks(part)[0].path
        before, after = split_lines((folder / path).read_bytes()), split_lines(wanted[path])
        old = [(hunk.start - bool(hunk.old), len(hunk.old)) for hunk in parse_hunks(part)]
        kept = [
            hunk.split(b"\n", 1)[0] + b"\n" + body
            for hunk, (start, length) in zip(hunks, old, strict=True)
            if (body := _body(before, after, start, start + length))
        ]
        edited += [head, *kept] if kept else []
    (folder / "all.patch").write_bytes(b"".join(edited))
    if edited:
        perfmod(folder, "apply", "--from", "all.patch")


def _body(before: Sequence[bytes], after: Sequence[bytes], start: int, end: int) -> bytes:
    """The lines of a hunk over some lines of a file, as a person leaves them; empty where nothing is left to change."""
    new: list[bytes] = []
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, before, after, False).get_opcodes():
        if tag == "equal":
            new += before[max(old_start, start) : max(start, min(old_end, end))]
        elif start <= old_start and old_end <= end:
            new += after[new_start:new_end]
    old, lines = before[start:end], list[bytes]()
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            lines += [b" " + line for line in old[old_start:old_end]]
        else:
            lines += [b"-" + line for line in old[old_start:old_end]]
            lines += [b"+" + line for line in new[new_start:new_end]]
    ended = [line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines]
    return b"" if old == new else b"".join(ended)


def by_series(given: Project, folder: Path, _wanted: Tree) -> None:
    """One patch a finding, applied by git."""
    review = opened(folder)
    review.decide([key for key in review.items if key in given.accepted], Verdict.ACCEPTED)
    told = perfmod(folder, "apply", ".", "--decisions", DECISIONS, "--patch-series", "../series", "--by", "finding")
    patches = sorted(str(path) for path in (folder.parent / "series").iterdir())
    run(folder, "git", "am", "--quiet", *(["--keep-cr"] if "--keep-cr" in told else []), *patches)


def by_terminal(given: Project, folder: Path, _wanted: Tree) -> None:
    """Answers typed into a terminal, one finding at a time."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "perfmod", "review", ".", *OPTIONS],
        cwd=str(folder),
        encoding="utf-8",
        dimensions=(40, 100),
        timeout=300,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"},
    )
    left = {key: _heading(item) for key, item in given.items.items()}
    while child.expect([PROMPT, pexpect.EOF]) == 0:
        assert child.match is not None
        if child.match[3] != "this":
            child.sendline("s")
            continue
        shown = " ".join((child.before or "").split())
        key = next(key for key, heading in left.items() if all(part in shown for part in heading))
        del left[key]
        child.sendline("y" if key in given.accepted else "n not now")
    child.close()
    perfmod(folder, "apply", ".", "--decisions", DECISIONS)


def _heading(item: Item) -> tuple[str, str]:
    """What the terminal shows of an item and of no other that is left."""
    return f"{item.finding.code} {item.finding.name} {item.finding.numerics} ", f" {item.finding.place} "


def by_page(given: Project, folder: Path, _wanted: Tree) -> None:
    """Keys pressed on the page, and decisions exported from it."""
    perfmod(folder, "review", ".", *OPTIONS, "--html", "../page.html")
    with launched() as browser:
        page = browser.new_page()
        page.goto((folder.parent / "page.html").as_uri())
        _press(page, given)
        with page.expect_download() as download:
            page.get_by_role("button", name="Export decisions").click()
        download.value.save_as(folder.parent / "exported.json")
    perfmod(folder, "apply", ".", "--decisions", "../exported.json")


def by_server(given: Project, folder: Path, _wanted: Tree) -> None:
    """Keys pressed on the served page, and what was accepted applied from it."""
    command = [sys.executable, "-u", "-m", "perfmod", "review", ".", *OPTIONS, "--serve"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server, launched() as browser:
        assert server.stdout is not None
        page = browser.new_page()
        page.goto(server.stdout.readline().split()[0])
        _press(page, given)
        page.get_by_role("button", name="Apply accepted").click()
        page.get_by_role("dialog").get_by_role("button", name="Apply", exact=True).click()
        page.get_by_role("heading", name=re.compile("changed$")).wait_for(timeout=300_000)
        server.terminate()


def _press(page: Page, given: Project) -> None:
    """Decide about every finding by keys."""
    keys = [row["key"] for row in json.loads(page.locator("script[type='application/json']").inner_text())["items"]]
    page.keyboard.press("j")
    for _ in keys:
        index = page.evaluate("document.activeElement.closest('article').id.slice(1)")
        page.keyboard.press("a" if keys[int(index)] in given.accepted else "r")


WAYS: Mapping[str, Callable[[Project, Path, Tree], None]] = {
    "patch edited by hand": by_patch,
    "patch series": by_series,
    "terminal": by_terminal,
    "page": by_page,
    "served page": by_server,
}


def compared(given: Project) -> dict[str, Any]:
    """What the ways come to, as a row of the results."""
    with given.copied() as folder:
        decided(given, folder)
        wanted = tree(folder)
    before = tree(given.folder)
    row: dict[str, Any] = {
        "name": given.name,
        "findings": len(given.items),
        "accepted": len(given.accepted),
        "files_changed": sum(wanted[path] != before[path] for path in before),
        "notebooks_changed": sum(wanted[path] != before[path] for path in before if path.endswith(".ipynb")),
        "ways": {},
    }
    for name, way in WAYS.items():
        with given.copied() as folder:
            try:
                way(given, folder, wanted)
                different = [path for path, data in tree(folder).items() if data != wanted.get(path)]
                row["ways"][name] = "identical" if not different else f"differs: {', '.join(different)}"
            except Exception as error:  # noqa: BLE001, told in the results
                row["ways"][name] = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return row


def main() -> int:
    """Compare, tell, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, default=Path("public"))
    parser.add_argument("--projects", type=int, default=10)
    parser.add_argument("--seed", type=int, default=30)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    repositories = list(public())
    draw.shuffle(repositories)
    console, rows = Console(), []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"PERFMOD_STATE_DIR": f"{scratch}/state", "PERFMOD_CACHE_DIR": f"{scratch}/cache"}
        for name in ("AUTHOR", "COMMITTER"):
            os.environ |= {f"GIT_{name}_NAME": "A. Reviewer", f"GIT_{name}_EMAIL": "reviewer@example.com"}
        for repository in repositories:
            if len(rows) == arguments.projects:
                break
            source = arguments.checkouts.resolve() / repository.name.replace("/", "+")
            repository.fetch_to(source)
            given = project(repository.name, source, Path(scratch), draw)
            if given is None:
                continue
            rows.append(compared(given))
            console.print_json(data=rows[-1])
            results = {"revision": revision(), "machine": machine(), "seed": arguments.seed, "options": OPTIONS}
            RESULTS.write_text(json.dumps(results | {"projects": rows}, indent=2) + "\n")
    return int(any(way != "identical" for row in rows for way in row["ways"].values()))


if __name__ == "__main__":
    sys.exit(main())
