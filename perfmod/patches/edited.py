r"""A patch that was edited by hand: its files and hunks, with the counts in hunk headers put right.

It may be a bare diff, the output of `git diff`, or mails with words around the diff. Lines end at `\n` and nowhere
else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from perfmod.codemods.patch import Hunk, PatchError, parse_hunks, split_lines, unquoted

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_TIMESTAMP = re.compile(rb"\t.*", re.DOTALL)
_NOWHERE = "/dev/null"
_NEW = b"new file mode "
_UNWANTED = {
    b"rename ": "is renamed, and perfmod takes changes only",
    b"copy ": "is copied, and perfmod takes changes only",
    _NEW: "is a new file without content, and perfmod takes changes only",
    b"deleted file mode ": "is deleted, and perfmod takes changes only",
    b"old mode ": "gets another mode, and perfmod takes changes of the content only",
    b"GIT binary patch": "is changed by a binary patch",
    b"Binary files ": "is changed by a binary patch",
}
"""What git says of a file above its hunks that is not applied, and why."""
_SIGNS = (b" ", b"+", b"-", b"\\")
_BEHIND = (b"@@", b"diff ", b"From ", b"Index: ", b"--- ", b"-- ", b"Only in ")
"""How lines begin that may follow on a hunk."""


@frozen
class EditedFile:
    """What a patch does with one file.

    Attributes:
        path: from the root of the patch.
        hunks: in the order of the patch.
        unwanted: why it is not applied, which leaves no hunks; mostly empty.
        is_new: whether there is no such file before.
    """

    path: str
    hunks: tuple[Hunk, ...] = ()
    unwanted: str = ""
    is_new: bool = False


def read_edited(patch: bytes) -> list[EditedFile]:
    """The files of a patch that has something left for them. Raises `PatchError`."""
    lines = split_lines(patch)
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    if patch.strip() and not any(line.startswith((b"diff --git ", b"--- ")) for line in lines):
        raise PatchError("holds no diff")
    files: list[EditedFile] = []
    header: list[bytes] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            files += _without_hunks(header)
            header = [lines[at]]
            at += 1
        elif _names_files(lines, at):
            names, at = lines[at : at + 2], at + 2
            bodies: list[bytes] = []
            while at < len(lines) and (found := _HUNK.match(lines[at])):
                end, body = _body(lines, at + 1, found)
                bodies += body
                at = end
            files += _file(header, names, bodies)
            header = []
        elif _HUNK.match(lines[at]):
            raise PatchError(f"line {at + 1} begins a hunk, but no file is named above it")
        elif lines[at].startswith(b"@@ "):
            raise PatchError(f"line {at + 1} begins a hunk, but does not read like `@@ -1,7 +1,8 @@`")
        else:
            if header:
                header.append(lines[at])
            at += 1
    return [*files, *_without_hunks(header)]


def _names_files(lines: Sequence[bytes], at: int) -> bool:
    return lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ ")


def _file(header: Sequence[bytes], names: Sequence[bytes], bodies: Sequence[bytes]) -> Iterator[EditedFile]:
    old, new = (unquoted(_TIMESTAMP.sub(b"", line[4:]).rstrip(b"\r\n")) for line in names)
    path, unwanted = _path(old, new)
    is_new = old == _NOWHERE
    unwanted = _unwanted([line for line in header if not (is_new and line.startswith(_NEW))]) or unwanted
    if unwanted:
        yield EditedFile(path, unwanted=unwanted)
    elif bodies:
        hunks = parse_hunks(b"".join((b"--- a\n", b"+++ b\n", *bodies)))
        yield EditedFile(path, tuple(evolve(hunk, path=path) for hunk in hunks), is_new=is_new)


def _path(old: str, new: str) -> tuple[str, str]:
    """The path of a file that two names with or without prefixes stand for; or why there is none."""
    if new == _NOWHERE:
        return _bare(old), _UNWANTED[b"deleted file mode "]
    if old == _NOWHERE:
        return _bare(new), ""
    if old == new:
        return old, ""
    return _bare(new), "" if _bare(old) == _bare(new) else _UNWANTED[b"rename "]


def _bare(name: str) -> str:
    """A name without its prefix, such as `a/`; an absolute path has none."""
    return name if name.startswith("/") else name.partition("/")[2] or name


def _unwanted(header: Sequence[bytes]) -> str:
    return next((why for line in header for start, why in _UNWANTED.items() if line.startswith(start)), "")


def _without_hunks(header: Sequence[bytes]) -> Iterator[EditedFile]:
    """A file of which git says something other than that its lines change; one whose hunks were deleted is none."""
    unwanted = _unwanted(header)
    if unwanted:
        # Where a name holds a blank, this is not all of it.
        yield EditedFile(_bare(unquoted(header[0].split()[-1])), unwanted=unwanted)


def _body(lines: Sequence[bytes], start: int, header: re.Match[bytes]) -> tuple[int, list[bytes]]:
    """Where a hunk ends whose lines begin at `start`, and the hunk with counts that fit."""
    stated = int(header[2] or 1), int(header[4] or 1)
    end = _stated_end(lines, start, stated)
    if end is None:
        end = start
        while end < len(lines) and _is_of_hunk(lines, end):
            end += 1
        # An empty line may be a blank context line whose sign an editor took away; at the end it is none.
        while end > start and lines[end - 1] in (b"\n", b"\r\n"):
            end -= 1
    behind = _behind_blanks(lines, end)
    if behind < len(lines) and not lines[behind].startswith(_BEHIND):
        raise PatchError(f"line {behind + 1} stands in a hunk and begins with neither a blank nor + nor -")
    body = [b" " + line if line in (b"\n", b"\r\n") else line for line in lines[start:end]]
    old, new = _counts(body)
    if not any(line.startswith((b"+", b"-")) for line in body):
        return end, []
    return end, [b"@@ -%s,%d +%s,%d @@\n" % (header[1], old, header[3], new), *body]


def _stated_end(lines: Sequence[bytes], start: int, stated: tuple[int, int]) -> int | None:
    """Where a hunk ends if its header is right; None where it cannot be."""
    old, new = stated
    end = start
    while old > 0 or new > 0:
        if end == len(lines) or not (lines[end].startswith(_SIGNS) or lines[end] in (b"\n", b"\r\n")):
            return None
        sign = lines[end][:1]
        old -= sign not in (b"+", b"\\")
        new -= sign not in (b"-", b"\\")
        end += 1
    if end < len(lines) and lines[end].startswith(b"\\"):
        end += 1
    behind = _behind_blanks(lines, end)
    is_right = (old, new) == (0, 0) and not (behind < len(lines) and _is_of_hunk(lines, behind))
    return end if is_right else None


def _behind_blanks(lines: Sequence[bytes], at: int) -> int:
    """The first line from `at` on that is not empty."""
    while at < len(lines) and not lines[at].strip(b"\r\n"):
        at += 1
    return at


def _is_of_hunk(lines: Sequence[bytes], at: int) -> bool:
    """Whether a line can belong to the hunk above it."""
    line = lines[at]
    if _names_files(lines, at) and at + 2 < len(lines) and _HUNK.match(lines[at + 2]):
        return False
    is_signature = line == b"-- \n" and not (at + 1 < len(lines) and lines[at + 1].startswith((*_SIGNS, b"@@")))
    return not is_signature and (line.startswith(_SIGNS) or line in (b"\n", b"\r\n"))


def _counts(body: Sequence[bytes]) -> tuple[int, int]:
    """How many lines a hunk has before and after."""
    signs = [line[:1] for line in body]
    return len(signs) - signs.count(b"+") - signs.count(b"\\"), len(signs) - signs.count(b"-") - signs.count(b"\\")
