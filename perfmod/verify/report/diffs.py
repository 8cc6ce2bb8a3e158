"""A unified diff, file by file and line by line."""

from __future__ import annotations

from attrs import define, field, frozen

_MOST_CHARACTERS = 200_000
"""Of a diff on the page; a longer one is cut at the end of a line."""


@frozen
class DiffLine:
    """One line; `kind` is `add`, `del`, `hunk` or empty for context."""

    kind: str
    text: str


@define
class DiffFile:
    """What changed in one file; `name` is that of the new side."""

    name: str
    lines: list[DiffLine] = field(factory=list)

    def count(self, kind: str) -> int:
        """How many of its lines are of that kind."""
        return sum(line.kind == kind for line in self.lines)


@frozen
class Diff:
    """The files, and how many lines were left out at the end."""

    files: tuple[DiffFile, ...]
    left_out: int


def parse(text: str) -> Diff:
    """Read a unified diff; what is none is taken for one file without a name."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    files: list[DiffFile] = []
    size, number = 0, 0
    while number < len(lines):
        line = lines[number]
        size += len(line)
        if size > _MOST_CHARACTERS:
            break
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("--- ") and following.startswith("+++ "):
            files.append(DiffFile(following[len("+++ ") :].removeprefix("b/")))
            number += 2
            continue
        if not files:
            files.append(DiffFile(""))
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")
        files[-1].lines.append(DiffLine(kind, line))
        number += 1
    return Diff(tuple(files), len(lines) - number)
