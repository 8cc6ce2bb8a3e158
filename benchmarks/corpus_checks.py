"""One tree through perfmod, as a user runs it, and what has to hold of the result."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst
from attrs import field, frozen
from corpus_index import python_of
from corpus_sources import git

OURS = ("internal error", "do not converge", "would write invalid code", "nested too deeply")
"""How a file's failure begins when it is perfmod's fault, whatever is in the file."""

CHECKS = ("no crash", "outputs parse", "second run is empty", "diff applies", "diff reverts")

# Started from here, a process would begin with the memory that this one holds as its peak; a small one stands between.
_LAUNCHER = """
import os, sys, time
started = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
unit = 1 if sys.platform == "darwin" else 1024
with open(sys.argv[1], "w") as file:
    print(time.perf_counter() - started, usage.ru_maxrss * unit, file=file)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""

# `python -m perfmod` would import the modules of the tree that it is started in.
_PERFMOD = "import sys; sys.path = [path for path in sys.path if path]; import perfmod.cli.main as main; main.run()"

_LINES = re.compile(r"\blines? \d+(?:(?:, | and | or | to |-|\u2013)\d+)*")
_CODE = re.compile(r"`[^`]*`")
_NUMBER = re.compile(r"\b\d+\b")


@frozen
class Run:
    """One run of `perfmod apply --dry-run`.

    Attributes:
        report: what it printed as JSON.
        patch: the diff, for `git apply`.
        seconds: wall-clock time.
        peak_mib: the most memory that it or one of its processes held.
        broken: the end of its standard error, where it ended without a report.
    """

    report: Mapping[str, Any]
    patch: bytes
    seconds: float
    peak_mib: float
    broken: str = ""

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """The rows of its findings."""
        return self.report.get("findings", ())

    @property
    def files(self) -> Sequence[Mapping[str, Any]]:
        """The rows of its files."""
        return self.report.get("files", ())


@frozen
class Checked:
    """A tree after both runs.

    Attributes:
        run: the first run.
        problems: what does not hold, by check; a check without an entry holds.
        tree: the tree, as it was before.
        after: the new text of the changed files, by path in the tree.
    """

    run: Run
    problems: dict[str, list[str]]
    tree: Path
    after: dict[str, str] = field(factory=dict)


def apply(tree: Path, targets: Iterable[str], scratch: Path, jobs: int) -> Run:
    """Run `perfmod apply --dry-run` in `tree`, with everything read anew."""
    patch, out, err = (scratch / name for name in ("run.diff", "run.json", "run.err"))
    patch.unlink(missing_ok=True)
    options = ["--dry-run", f"--patch={patch}", "--output-format=json", "--no-cache", f"--jobs={jobs}"]
    command = [sys.executable, "-c", _PERFMOD, "apply", *options, *targets]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        measured = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(scratch / "run.usage"), *command],
            cwd=tree,
            stdout=stdout,
            stderr=stderr,
        )
    seconds, peak = map(float, (scratch / "run.usage").read_text().split())
    diff = patch.read_bytes() if patch.exists() else b""
    try:
        report, broken = json.loads(out.read_bytes()), ""
    except ValueError:
        lines = err.read_text("utf-8", "replace").strip().splitlines()
        report, broken = {}, f"exit code {measured.returncode}: " + " | ".join(lines[-3:])
    return Run(report, diff, seconds, peak / 2**20, broken)


def check(tree: Path, targets: Sequence[str], scratch: Path, *, jobs: int, whole_second_run: bool) -> Checked:
    """Rewrite a tree, check the result, and put it back.

    The second run reads all of `targets`, or only the files that were changed.
    """
    # Contents that a repository does not have, as those of a clone without its large files.
    absent = set(_changed(tree))
    run = apply(tree, targets, scratch, jobs)
    problems: dict[str, list[str]] = {name: _crashes(run, tree) if name == CHECKS[0] else [] for name in CHECKS}
    after: dict[str, str] = {}
    if run.patch:
        diff = scratch / "applied.diff"
        diff.write_bytes(run.patch)
        if problem := _git_problem(tree, "apply", "--check", str(diff)) or _git_problem(tree, "apply", str(diff)):
            problems["diff applies"].append(problem)
        else:
            changed = [path for path in _changed(tree) if path not in absent]
            for path in changed:
                data = (tree / path).read_bytes()
                after[path] = data.decode("utf-8", "replace")
                problem = _parse_problem(path, data) or _notebook_problem(tree, path, data)
                if problem:
                    problems["outputs parse"].append(f"{path}: {problem}")
            again = apply(tree, targets if whole_second_run else changed, scratch, jobs)
            problems["second run is empty"] += _left(again)
            for options in (["--check"], []):
                if problem := _git_problem(tree, "apply", "--reverse", *options, str(diff)):
                    problems["diff reverts"].append(problem)
            if rest := set(_changed(tree)) - absent:
                problems["diff reverts"].append(f"not as before: {', '.join(sorted(rest))}")
                git(tree, "checkout", "--quiet", "--force", "HEAD", "--", ".")
    return Checked(run, {name: found for name, found in problems.items() if found}, tree, after)


def row_of(name: str, checked: Checked) -> dict[str, Any]:
    """What the committed result keeps of one tree."""
    findings = checked.run.findings
    rules: dict[str, Counter[str]] = {}
    reasons: dict[str, Counter[str]] = {}
    for each in findings:
        rules.setdefault(each["code"], Counter())[each["state"]] += 1
        if each["state"] not in ("rewritten", "suppressed"):
            reasons.setdefault(each["state"], Counter())[f"{each['code']}: {reason_class(each['reason'])}"] += 1
    changed: dict[str, list[str]] = {}
    for each in findings:
        if each["state"] == "rewritten":
            changed.setdefault(each["path"], []).append(each["code"])
    outcomes = Counter(each["outcome"] for each in checked.run.files)
    return {
        "name": name,
        "files": dict(sorted(outcomes.items())),
        "findings": dict(sorted(Counter(each["state"] for each in findings).items())),
        "rules": {code: dict(sorted(states.items())) for code, states in sorted(rules.items())},
        "reasons": {state: dict(counts.most_common()) for state, counts in sorted(reasons.items())},
        "changed": changed,
        "seconds": round(checked.run.seconds, 2),
        "peak_mib": round(checked.run.peak_mib),
        "problems": checked.problems,
        "unreadable": unreadable(checked.run, checked.tree),
    }


def reason_class(reason: str) -> str:
    """A reason without the names and lines of the place."""
    return _NUMBER.sub("N", _CODE.sub("`…`", _LINES.sub("line N", reason)))


def unreadable(run: Run, tree: Path) -> dict[str, str]:
    """The files that failed or were skipped through no fault of perfmod's, with its reasons."""
    faults = set(_faults(run, tree))
    kept = (each for each in run.files if each["outcome"] in ("failed", "skipped") and each["path"] not in faults)
    return {each["path"]: each["reason"] for each in kept}


def _crashes(run: Run, tree: Path) -> list[str]:
    if run.broken:
        return [run.broken]
    faults = set(_faults(run, tree))
    return [f"{each['path']}: {each['reason']}" for each in run.files if each["path"] in faults]


def _faults(run: Run, tree: Path) -> list[str]:
    """The files that perfmod failed on though it should not have: its own errors, and what this Python can parse."""
    failed = (each for each in run.files if each["outcome"] == "failed")
    return [
        each["path"]
        for each in failed
        if any(sign in each["reason"] for sign in OURS) or not _parse_problem(each["path"], _read(tree / each["path"]))
    ]


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b"\0"


def _left(run: Run) -> list[str]:
    """What a run applied, that should have had nothing to do."""
    if run.broken:
        return [run.broken]
    again = [each for each in run.findings if each["state"] == "rewritten"]
    found = [f"{each['path']}:{each['line']}: {each['code']}" for each in again]
    return found or (["it has a diff, but no finding"] if run.patch else [])


def _parse_problem(path: str, data: bytes) -> str:
    """Why Python or LibCST cannot parse a file or the code of a notebook; empty where both can."""
    try:
        if path.endswith(".ipynb"):
            data = python_of(data.decode())[0].encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
        libcst.parse_module(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError, libcst.ParserSyntaxError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def _notebook_problem(tree: Path, path: str, data: bytes) -> str:
    """What a rewrite changed in a notebook beside the code of its cells; empty for a file."""
    if not path.endswith(".ipynb"):
        return ""
    before = git(tree, "show", f"HEAD:{path}").stdout
    return "" if _without_code(before) == _without_code(data) else "more than the code of its cells was changed"


def _without_code(data: bytes) -> object:
    notebook = json.loads(data)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            del cell["source"]
    return notebook


def _changed(tree: Path) -> list[str]:
    return [
        line for line in git(tree, "diff", "--name-only", "-z").stdout.decode("utf-8", "replace").split("\0") if line
    ]


def _git_problem(tree: Path, *arguments: str) -> str:
    done = git(tree, *arguments, check=False)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[:500]
