"""A finding's rewrite as lines for others, which GitHub offers to commit."""

from __future__ import annotations

from io import StringIO

from attrs import frozen

from perfmod.codemods.edits import Splice
from perfmod.github.findings import lines_of_edit
from perfmod.report.rows import FindingRow
from perfmod.transforms.finding import Edit


@frozen
class Suggestion:
    """Lines `first` to `last`, from 1, become `text`, in which every line ends in a newline."""

    first: int
    last: int
    text: str


def suggestion(row: FindingRow, content: str) -> Suggestion | None:
    """The rewrite of a finding in a file of some content; None where a part of it stands elsewhere."""
    if row.cell is not None or not row.edits or row.elsewhere:
        return None
    if any(edit.path != row.path for edit in row.edits):
        return None
    touched = [lines_of_edit(edit) for edit in row.edits]
    first, last = min(lines[0] for lines in touched), max(lines[-1] for lines in touched)
    # Line ends are GitHub's business: what it is given with \n, it writes as the file has it.
    lines = list(StringIO(content.replace("\r\n", "\n").removesuffix("\n") + "\n"))
    if last > len(lines):
        return None
    old, starts = lines[first - 1 : last], [0]
    for line in old:
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return starts[line - first] + column - 1

    splice = Splice.of(
        Edit(offset(edit.line, edit.column), offset(edit.end_line, edit.end_column), edit.replacement)
        for edit in row.edits
    )
    return _trimmed(first, old, list(StringIO(splice.apply("".join(old)).replace("\r\n", "\n"))))


def _trimmed(first: int, old: list[str], new: list[str]) -> Suggestion:
    """Without lines that stay as they are at either end; of a place where lines are only put in, one remains."""
    while len(old) > 1 and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    while len(old) > 1 and new and old[0] == new[0]:
        first, old, new = first + 1, old[1:], new[1:]
    return Suggestion(first, first + len(old) - 1, "".join(new))
