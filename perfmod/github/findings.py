"""What `perfmod check` finds, and which of it a pull request has to do with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.errors import ExitCode, Failure, UsageMistake
from perfmod.github.inputs import Inputs
from perfmod.github.pull import FileChange
from perfmod.report.rows import EditRow, FindingRow, State
from perfmod.report.view import occurrences


@frozen
class Found:
    """A finding that `apply` would rewrite.

    Attributes:
        key: names it over several pushes: it holds on to rule, scope and code, not to lines.
    """

    row: FindingRow
    key: str


@frozen
class Checked:
    """What a run of `perfmod check` said.

    Attributes:
        failed: whether a file could not be analysed; the reasons are in the log.
    """

    found: tuple[Found, ...]
    failed: bool


def check(inputs: Inputs, folder: Path) -> Checked:
    """Run `perfmod check` in a folder.

    Raises:
        UsageMistake: of the inputs `paths` and `args`; the reason is in the log.
        Failure: there is no result.
    """
    done = run_check(inputs, ("--output-format", "json"), folder)
    try:
        rows = [_row(raw) for raw in json.loads(done.stdout)["findings"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"perfmod check ended with {done.returncode} and without a result; see the log") from error
    rewritten = (found for found in _keyed(rows) if found.row.state is State.REWRITTEN)
    return Checked(tuple(rewritten), failed=done.returncode == ExitCode.FAILED)


def run_check(inputs: Inputs, output: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run `perfmod check` with options for its output; what it complains about goes to the log.

    Raises:
        UsageMistake: of the inputs `paths` and `args`; the reason is in the log.
    """
    command = [sys.executable, "-I", "-m", "perfmod", "check", *inputs.args, *output, "--", *inputs.paths]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
    if done.returncode == ExitCode.USAGE:
        raise UsageMistake("perfmod check refused the inputs paths or args; see the log")
    return done


def lines_of_edit(edit: EditRow) -> range:
    """The lines that an edit replaces; where it ends before a line, without that, if the line stays as it is."""
    writes_whole_lines = edit.replacement.endswith("\n") or (edit.column == 1 and not edit.replacement)
    ends_before = edit.end_column == 1 and edit.end_line > edit.line and writes_whole_lines
    return range(edit.line, edit.end_line + (not ends_before))


def places(row: FindingRow) -> Iterator[tuple[str, range]]:
    """Path and lines of the finding itself, then those of its edits."""
    yield row.path, range(row.line, row.end_line + 1)
    for edit in row.edits or ():
        yield edit.path, lines_of_edit(edit)


def is_met(row: FindingRow, changed: Mapping[str, FileChange]) -> bool:
    """Whether changed lines are part of the pattern or of its rewrite. A notebook counts as a whole."""
    if row.cell is not None:
        return row.path in changed
    return any(path in changed and not changed[path].added.isdisjoint(lines) for path, lines in places(row))


def _keyed(rows: Sequence[FindingRow]) -> Iterator[Found]:
    """The same code may stand several times in a scope, so that its number is part of the key."""
    for row, occurrence in occurrences(rows):
        text = "\0".join((row.path, row.fingerprint, str(occurrence)))
        yield Found(row, sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16])


def _row(raw: dict[str, Any]) -> FindingRow:
    edits = None if raw["edits"] is None else tuple(EditRow(**edit) for edit in raw["edits"])
    lists = {"elsewhere": tuple(raw["elsewhere"]), "makes": tuple(raw.get("makes", ()))}
    return FindingRow(**raw | {"state": State(raw["state"]), "edits": edits} | lists)
