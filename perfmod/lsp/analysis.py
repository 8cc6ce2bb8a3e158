"""What the server asks the engine, in plain data: it runs in another process (see `perfmod.lsp.worker`)."""

from __future__ import annotations

import inspect
import io
import os
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from perfmod import disk
from perfmod.codemods.results import FileResult, Outcome, Withheld
from perfmod.config import Options, settings_for
from perfmod.errors import Failure
from perfmod.examine import examine
from perfmod.examined import Examined
from perfmod.files import is_left_out
from perfmod.memory import cards
from perfmod.report.rows import FindingRow, QuestionRow, State, finding_rows
from perfmod.roots import project_root
from perfmod.task import Task
from perfmod.transforms.card import Card
from perfmod.transforms.decoding import decode
from perfmod.transforms.finding import Place

if TYPE_CHECKING:
    from perfmod.transforms.rule import Rule

_UNTOLD = (State.LEFT, State.SUPPRESSED)
"""What is no news for somebody who writes code."""
_LONGEST = 50
"""Characters of an expression that is asked about."""
_ASKED = {
    "has-cpus-of-its-own": "has CPUs of its own",
    "is-scalar": "is a scalar",
    "is-tensor": "is a tensor",
    "same-shape": "have the same shape",
    "same-dtype": "have the same dtype",
}
"""Questions in words, where they are others than those of the predicate."""


@frozen
class Snapshot:
    """A file and its project as they are in the editor.

    Attributes:
        path: the file, links followed; it is open.
        open_files: the texts of all open files that lie on the disk, by real path.
    """

    path: Path
    open_files: Mapping[Path, str]

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
    """A file that a rewrite changes: its texts before and after, without a byte order mark."""

    path: Path
    before: str
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
        examined = _examined(snapshot, Options())
        if examined.result.outcome is Outcome.FAILED:
            return None
        rows = finding_rows([examined], tuple(known.values()))
        return tuple(_told(row, known[row.code], snapshot) for row in rows if row.state not in _UNTOLD)


def rewritten(snapshot: Snapshot) -> tuple[Replaced, ...]:
    """What `apply` makes of a file, and of others where findings in this one need it."""
    with _as_open(snapshot):
        examined = _examined(snapshot, Options())
        task = examined.task
        if task is None:
            return ()
        return _replaced(_sparing_others(task, examined.result.path).run(), snapshot)


def rewritten_at(snapshot: Snapshot, code: str, start: int, beside: Sequence[str]) -> tuple[Replaced, ...]:
    """What the rewrite of one finding makes of the files: that of a rule, at a character of the text.

    `beside` are the paths of other files that it changes. Nothing where the rule finds nothing there on its own.
    """
    with _as_open(snapshot):
        examined = _examined(snapshot, Options(select=(code,), unsafe=True, low_impact=True), beside)
        task = examined.task
        if task is None:
            return ()
        place = Place(examined.result.path, code, start)
        return _replaced(_only(_sparing_others(task, place.path), place), snapshot)


def _as_open(snapshot: Snapshot) -> AbstractContextManager[None]:
    return disk.overlaid({path: _encoded(text) for path, text in snapshot.open_files.items()})


def _examined(snapshot: Snapshot, options: Options, beside: Sequence[str] = ()) -> Examined:
    targets = (os.path.relpath(snapshot.path, snapshot.folder), *beside)
    found = examine(targets, options, cwd=snapshot.folder, jobs=1)
    return next(each for each in found if each.file.real == snapshot.path)


def _sparing_others(task: Task, path: str) -> Task:
    return task.sparing([file.path for file in task.files if file.path != path])


def _only(task: Task, wanted: Place) -> tuple[FileResult, ...]:
    """The results of a task in which one finding is applied: also without those that its rewrite brings about."""
    withheld: dict[Place, Withheld] = {}
    while True:
        results = evolve(task, choice=evolve(task.choice, withheld=dict(withheld))).run()
        applied = {Place(each.path, finding.code, finding.start) for each in results for finding in each.applied}
        others = applied - {wanted} - withheld.keys()
        if not others:
            return results
        withheld |= dict.fromkeys(others, Withheld("was not asked for"))


def _replaced(results: Sequence[FileResult], snapshot: Snapshot) -> tuple[Replaced, ...]:
    """The files that some results change. Raises `Failure` where the path of one cannot be told from its name."""
    changed = [each for each in results if each.outcome is Outcome.CHANGED]
    paths = [Path(os.path.realpath(snapshot.folder / each.path)) for each in changed]
    for each, path in zip(changed, paths, strict=True):
        if not path.exists():
            raise Failure(f"{each.path}: has a name that cannot be printed, so it is not rewritten from here")
    return tuple(
        Replaced(path, decode(each.before)[0], decode(each.after)[0]) for each, path in zip(changed, paths, strict=True)
    )


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
    asked = [_words(each) for each in row.questions]
    title = _title(row, rule, asked) if row.fixable and row.edits is not None else ""
    return Told(row, title, _explanation(row, rule, asked), tuple(_related(row, snapshot.folder)))


def _related(row: FindingRow, folder: Path) -> Iterator[Related]:
    for asked in row.questions:
        path, end = Path(os.path.realpath(folder / asked.path)), asked.column + len(asked.expression)
        yield Related(path, asked.line, asked.column, asked.line, end, f"is right if {_words(asked)}")
    for edit in row.edits or ():
        if edit.path != row.path:
            path = Path(os.path.realpath(folder / edit.path))
            yield Related(path, edit.line, edit.column, edit.end_line, edit.end_column, "is changed along with it")


def _words(question: QuestionRow) -> str:
    expression = shorten(question.expression, _LONGEST, placeholder=" …")
    return f"`{expression}` {_ASKED.get(question.predicate, question.predicate.replace('-', ' '))}"


def _title(row: FindingRow, rule: Rule, asked: Sequence[str]) -> str:
    condition = f", if {' and '.join(asked)}" if asked and row.state is State.QUESTION else ""
    notes = [row.state.words] if row.state is not State.REWRITTEN and not condition else []
    notes += [f"also changes {' and '.join(row.elsewhere)}"] if row.elsewhere else []
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
