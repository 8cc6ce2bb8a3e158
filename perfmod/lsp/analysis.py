"""What the server asks the engine, in plain data: it runs in another process (see `perfmod.lsp.worker`)."""

from __future__ import annotations

import inspect
import io
import os
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from perfmod import disk
from perfmod.codemods.placed import Code
from perfmod.codemods.results import FileResult, Outcome
from perfmod.commenting import with_ignore
from perfmod.config import Options, settings_for
from perfmod.errors import Failure
from perfmod.examine import examine
from perfmod.examined import Examined
from perfmod.files import is_left_out
from perfmod.memory import cards
from perfmod.report.rows import UNLISTED, FindingRow, State, finding_rows
from perfmod.report.wording import in_question, of_others
from perfmod.review.settling import Settling
from perfmod.roots import project_root
from perfmod.transforms.card import Card
from perfmod.transforms.decoding import decode
from perfmod.transforms.finding import Finding, PlacedEdit

if TYPE_CHECKING:
    from perfmod.transforms.rule import Rule


@frozen
class Snapshot:
    """A file and its project as they are in the editor.

    Attributes:
        path: the file, links followed; it is open.
        open_files: the texts of all open files that lie on the disk, by real path.
        creates: whether the editor makes files that a rewrite needs.
    """

    path: Path
    open_files: Mapping[Path, str]
    creates: bool = False

    @property
    def folder(self) -> Path:
        """Where its project is; paths in messages are relative to it."""
        return project_root(self.path.parent)


@frozen
class Related:
    """Another place that a finding speaks of, as lines and columns from 1; the end lies behind the last character."""

    path: Path
    line: int
    column: int
    end_line: int
    end_column: int
    words: str


@frozen
class Told:
    """What is said about one place of a file.

    Attributes:
        row: the finding; its lines and columns are those of the open text.
        title: what its rewrite does, with the condition under which it is right; empty where there is no rewrite that
            can be made by itself.
        explanation: all that is known about it, in Markdown.
        related: what its questions ask about, and what its rewrite changes in other files.
    """

    row: FindingRow
    title: str
    explanation: str
    related: tuple[Related, ...]


@frozen
class Replaced:
    """A file that a rewrite changes or makes.

    Attributes:
        before, after: its texts, without a byte order mark; there is none before where there is no file yet.
    """

    path: Path
    before: str | None
    after: str


def told(snapshot: Snapshot) -> tuple[Told, ...] | None:
    """What there is to say about a file; None where it cannot be read as Python just now.

    Raises:
        UsageMistake: the configuration is wrong.
    """
    with _as_open(snapshot):
        if is_left_out(snapshot.path, settings_for(snapshot.path.parent, Options()), snapshot.folder):
            return ()
        known = {card.code: card for card in cards(use_cache=True)}
        examined = _examined(snapshot)
        if examined.result.outcome is Outcome.FAILED:
            return None
        rows = finding_rows([examined], tuple(known.values()))
        return tuple(_told(row, known[row.code], snapshot) for row in rows if row.state not in UNLISTED)


def rewritten(snapshot: Snapshot) -> tuple[Replaced, ...]:
    """What `apply` makes of a file, and of others where findings in this one need it."""
    with _as_open(snapshot):
        examined = _examined(snapshot)
        task = examined.task
        if task is None:
            return ()
        others = [file.path for file in task.files if file.path != examined.result.path]
        changed = [each for each in task.sparing(others).run() if each.outcome is Outcome.CHANGED]
        return tuple(
            Replaced(
                _real(each.path, snapshot, is_new=each.is_new),
                None if each.is_new else decode(each.before)[0],
                decode(each.after)[0],
            )
            for each in changed
        )


def rewritten_at(snapshot: Snapshot, code: str, start: int) -> tuple[Replaced, ...]:
    """What the rewrite of one finding makes of the files: that of a rule, at a character of the text.

    Nothing where the rule has no rewrite there that can be made on its own.
    """
    with _as_open(snapshot):
        edits: dict[str, list[PlacedEdit]] = defaultdict(list)
        new: set[str] = set()
        for finding in _found_at(_examined(snapshot).result, code, start):
            new |= {change.path for change in finding.elsewhere if change.is_new}
            for edit in finding.placed or ():
                edits[edit.path].append(edit)
        replaced = []
        for path, own in edits.items():
            real = _real(path, snapshot, is_new=path in new)
            before = Code.read(b"" if path in new else disk.read(real), path)
            replaced.append(Replaced(real, None if path in new else before.script, before.edited(own).script))
        return tuple(replaced)


def silenced_at(snapshot: Snapshot, code: str, start: int) -> tuple[Replaced, ...]:
    """The file with a comment that silences one finding. Raises `Failure` where there is no place for one."""
    with _as_open(snapshot):
        examined = _examined(snapshot)
        result = with_ignore(examined, _found_at(examined.result, code, start), "").result
        if result.outcome is Outcome.FAILED:
            raise Failure(f"{result.path}: {result.reason}")
        return (Replaced(snapshot.path, decode(result.before)[0], decode(result.after)[0]),)


def _as_open(snapshot: Snapshot) -> AbstractContextManager[None]:
    return disk.overlaid({path: _encoded(text) for path, text in snapshot.open_files.items()})


def _examined(snapshot: Snapshot) -> Examined:
    """The file without what the project has rejected. Raises `UsageMistake`."""
    target = os.path.relpath(snapshot.path, snapshot.folder)
    found = examine((target,), Options(), cwd=snapshot.folder, jobs=1, creates=snapshot.creates)
    settled = Settling.of(None, use_cache=True, cwd=snapshot.folder)(found)
    return next(each for each in settled if each.file.real == snapshot.path)


def _found_at(result: FileResult, code: str, start: int) -> list[Finding]:
    """The finding of a rule at a character of the text, if it is there."""
    found = (*result.applied, *result.held_back, *result.refused)
    return [finding for finding in found if (finding.code, finding.start) == (code, start)][:1]


def _real(path: str, snapshot: Snapshot, *, is_new: bool) -> Path:
    """Where a file lies, or will. Raises `Failure` where that cannot be told from how it is printed."""
    real = Path(os.path.realpath(snapshot.folder / path))
    if not (real.parent if is_new else real).exists():
        raise Failure(f"{path}: has a name that cannot be printed, so it is not rewritten from here")
    return real


def _encoded(text: str) -> bytes:
    """The bytes of an open file as its own first lines say that they are encoded."""
    data = text.encode("utf-8", "replace")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return text.encode(encoding) if encoding not in ("utf-8", "utf-8-sig") else data
    except (SyntaxError, LookupError, UnicodeEncodeError):
        return data  # where it is analysed, that will be said to be no Python


def _told(row: FindingRow, card: Card, snapshot: Snapshot) -> Told:
    rule = card.load()
    asked = [in_question(each) for each in row.questions]
    title = _title(row, rule, asked) if row.fixable and row.edits is not None else ""
    return Told(row, title, _explanation(row, rule, asked), tuple(_related(row, snapshot.folder)))


def _related(row: FindingRow, folder: Path) -> Iterator[Related]:
    for asked in row.questions:
        path, end = Path(os.path.realpath(folder / asked.path)), asked.column + len(asked.expression)
        yield Related(path, asked.line, asked.column, asked.line, end, f"is right if {in_question(asked)}")
    for edit in row.edits or ():
        if edit.path != row.path and edit.path not in row.makes:
            path = Path(os.path.realpath(folder / edit.path))
            yield Related(path, edit.line, edit.column, edit.end_line, edit.end_column, "is changed along with it")


def _title(row: FindingRow, rule: Rule, asked: Sequence[str]) -> str:
    condition = f", if {' and '.join(asked)}" if asked and row.state is State.QUESTION else ""
    notes = [row.state.words] if row.state is not State.REWRITTEN and not condition else []
    notes += filter(None, [of_others(row)])
    return f"{rule.fix_title}{condition}" + (f" ({'; '.join(notes)})" if notes else "")


def _explanation(row: FindingRow, rule: Rule, asked: Sequence[str]) -> str:
    parts = [
        f"**{row.code}** {row.name} ({row.state.words}; numerics {row.numerics})",
        row.message,
        f"**Why**: {row.reason}" if row.reason else "",
        f"**Right if** {' and '.join(asked)}" if asked else "",
        f"**What it writes**: {rule.fix_title}" if row.fixable else "",
        f"**When this changes results**: {rule.changes_results}",
        "Printed values may differ in the last digits." if row.figures_may_differ else "",
        "---",
        inspect.getdoc(sys.modules[type(rule).__module__]) or rule.summary,
        "\n".join(f"- <{reference}>" for reference in rule.references),
    ]
    return "\n\n".join(part for part in parts if part)
