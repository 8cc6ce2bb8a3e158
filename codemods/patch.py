r"""Unified diffs as `git apply` reads them: written from two versions of a file, and read back hunk by hunk.

Lines end at `\n` and nowhere else, as for git; what else a line holds (`\r`, form feeds, U+2028) is text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

CONTEXT = 3
_SMALL = 4000
"""Below so many lines the best diff is looked for; above, difflib may pass over lines that occur often."""

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_ESCAPED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_NO_NEWLINE = b"\\ No newline at end of file\n"


class PatchError(Exception):
    """A patch that cannot be read, or a hunk that does not fit; the message is one line."""


@frozen
class Hunk:
    """One hunk of a patch.

    Attributes:
        path: the file, from the repository root.
        start: the first line of the old file that it covers, from 1; for a mere insertion the line above it.
        old, new: the lines that it covers, with their line endings, before and after.
    """

    path: str
    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


def unified_diff(path: str, before: bytes | None, after: bytes) -> bytes:
    """The change of one file, empty where there is none; `path` is from the repository root, with slashes.

    A file that there was not before has None.
    """
    old, new = split_lines(before or b""), split_lines(after)
    out = []
    for group in grouped(old, new):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n".encode())
        out += [_line(sign.encode(), line) for sign, line in signed(group, old, new)]
    return _header(path, is_new=before is None) + b"".join(out) if out else b""


def parse_hunks(patch: bytes) -> tuple[Hunk, ...]:
    """The hunks of a patch, in its order. Raises `PatchError`."""
    try:
        # Latin-1 gives every byte a character and back.
        files = PatchSet(patch.decode("latin-1"))
    except UnidiffParseError as error:
        raise PatchError(f"cannot be read as a unified diff: {error}".strip()) from error
    hunks = []
    for file in files:
        path = unquoted(file.source_file.encode("latin-1")).removeprefix("a/")
        for hunk in file:
            old: list[bytes] = []
            new: list[bytes] = []
            touched: list[list[bytes]] = []
            for line in hunk:
                if line.line_type == "\\":
                    for lines in touched:
                        lines[-1] = lines[-1].removesuffix(b"\n")
                    continue
                touched = [old] if line.is_removed else [new] if line.is_added else [old, new]
                for lines in touched:
                    lines.append(line.value.encode("latin-1"))
            hunks.append(Hunk(path, hunk.source_start, tuple(old), tuple(new)))
    return tuple(hunks)


def apply_hunks(before: bytes, hunks: Iterable[Hunk]) -> bytes:
    """A file with some of the hunks of one patch applied. Raises `PatchError` where one does not fit."""
    lines = split_lines(before)
    for hunk in sorted(hunks, key=lambda each: each.start, reverse=True):
        start = hunk.start - 1 if hunk.old else hunk.start
        end = start + len(hunk.old)
        if tuple(lines[start:end]) != hunk.old:
            raise PatchError(f"the hunk at line {hunk.start} of {hunk.path} does not fit")
        lines[start:end] = hunk.new
    return b"".join(lines)


def split_lines(data: bytes) -> list[bytes]:
    r"""Lines with their endings, split at `\n` only."""
    lines = data.split(b"\n")
    rest = lines.pop()
    return [line + b"\n" for line in lines] + ([rest] if rest else [])


Opcode = tuple[str, int, int, int, int]


def grouped(old: Sequence[bytes], new: Sequence[bytes]) -> Iterable[Sequence[Opcode]]:
    """What differs between two files, as difflib groups it into hunks with context."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > _SMALL)
    return matcher.get_grouped_opcodes(CONTEXT)


def signed(hunk: Sequence[Opcode], old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """The lines of a hunk, each with its sign: a space for context, `-` for one that goes, `+` for one that comes."""
    for tag, old_start, old_end, new_start, new_end in hunk:
        if tag == "equal":
            yield from ((" ", line) for line in old[old_start:old_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])


def _range(start: int, end: int) -> str:
    length = end - start
    # An empty range is named by the line above it.
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n" + _NO_NEWLINE


def _header(path: str, *, is_new: bool) -> bytes:
    old, new = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    # Behind a name with spaces git wants a tab, or it would take them for the space before a date.
    tab = b"\t" if b" " in old and not old.startswith(b'"') else b""
    if is_new:
        made = b"diff --git %s %s\nnew file mode 100644\n" % (old, new)
        return b"%s--- /dev/null\n+++ %s%s\n" % (made, new, tab)
    return b"diff --git %s %s\n--- %s%s\n+++ %s%s\n" % (old, new, old, tab, new, tab)


def _quoted(path: str) -> bytes:
    """A path as git writes it: in C quotes where it holds quotes, backslashes, control or non-ASCII bytes."""
    data = path.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in data):
        return data
    return b'"' + b"".join(map(_escaped, data)) + b'"'


def _escaped(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\" + _ESCAPES[byte].encode()
    return bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte


def unquoted(data: bytes) -> str:
    """The path that a header line names, with its prefix."""
    if data.startswith(b'"') and data.endswith(b'"'):
        data = _ESCAPED.sub(_unescaped, data[1:-1])
    return data.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.isdigit():
        return bytes([int(code, 8)])
    return bytes(byte for byte, letter in _ESCAPES.items() if letter.encode() == code)
