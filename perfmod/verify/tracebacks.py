"""Reads what Python prints when it fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from attrs import frozen

_RANK = re.compile(r"^\[rank\d+\]:\s?", re.MULTILINE)
_HEADER = "Traceback (most recent call last):"
_IGNORED = "Exception ignored "
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_LAUNCHER = "ChildFailedError"
"""What torchrun raises about a process that failed; the reason was printed before."""


@frozen
class Raised:
    """An exception that nobody caught.

    Attributes:
        type: its class, without the module.
        message: as raised, perhaps several lines.
        file: relative to the tree's root where it lies in it; empty if unknown.
        line: from 1; 0 if unknown.
    """

    type: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        """As `train.py:12`; empty if unknown."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


def last_raised(text: str, root: Path) -> Raised | None:
    """The last exception in the output of a script whose tree lies in `root`, or None where there is none."""
    lines = _RANK.sub("", text).splitlines()
    found = None
    for number, line in enumerate(lines):
        # A prompt, or a progress bar, may stand before it.
        if line.endswith(_HEADER) and not (number and lines[number - 1].startswith(_IGNORED)):
            found = _raised(lines[number + 1 :], root) or found
    return found or _syntax_error(lines, root)


def innermost(raised: Raised, root: Path) -> Raised:
    """The exception of a loader's worker in place of the one that brings it to the training process."""
    _, found, original = raised.message.partition(f"Original {_HEADER}")
    return (found and _raised(original.splitlines(), root)) or raised


def current_place(text: str, root: Path) -> str:
    """Where a script was that was asked by a signal, as `train.py:12`; empty if it did not say."""
    # faulthandler prints the innermost call first.
    own = [place for line in text.splitlines() if " in " in line and (place := _own_place(line, root))]
    return own[0] if own else ""


def _raised(lines: list[str], root: Path) -> Raised | None:
    frames: list[str] = []
    for number, line in enumerate(lines):
        if _FRAME.match(line):
            frames.append(line)
        elif line and not line[0].isspace():
            raised = _RAISED.match(line)
            if raised is None or raised["type"].endswith(_LAUNCHER):
                return None
            message = [raised["message"] or "", *_message(lines[number + 1 :])]
            return _located(raised["type"].rpartition(".")[2], "\n".join(message), frames, root)
    return None


def _message(lines: Iterable[str]) -> Iterator[str]:
    """The further lines of a message, as far as they can be told from what others print: those that are indented."""
    return takewhile(lambda line: line[:1].isspace(), lines)


def _syntax_error(lines: list[str], root: Path) -> Raised | None:
    """Errors in the script itself come without a header."""
    frames: list[str] = []
    for line in lines:
        if _FRAME.match(line):
            frames.append(line)
        elif frames and re.match(r"(Syntax|Indentation|Tab)Error: ", line):
            kind, _, message = line.partition(": ")
            return _located(kind, message, frames, root)
    return None


def _located(kind: str, message: str, frames: list[str], root: Path) -> Raised:
    own = [frame for frame in frames if _own_place(frame, root)]
    frame = _FRAME.match((own or frames or [""])[-1])
    if frame is None:
        return Raised(kind, message)
    return Raised(kind, message, _relative(frame["file"], root), int(frame["line"]))


def _own_place(line: str, root: Path) -> str:
    frame = _FRAME.match(line)
    if frame is None or _relative(frame["file"], root) == frame["file"]:
        return ""
    return f"{_relative(frame['file'], root)}:{frame['line']}"


def _relative(file: str, root: Path) -> str:
    return str(Path(file).relative_to(root)) if Path(file).is_relative_to(root) else file
