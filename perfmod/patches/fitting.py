"""Where the hunks of a patch go in a file that may have moved on since."""

from __future__ import annotations

from collections.abc import Sequence

from perfmod.codemods.patch import Hunk, PatchError, split_lines


def fitted(before: bytes, hunks: Sequence[Hunk]) -> bytes:
    """A file with hunks applied, each where its old lines stand: at the stated line, or at the place nearest to it.

    Raises `PatchError` with line and reason where one does not fit.
    """
    lines = split_lines(before)
    result: list[bytes] = []
    done = shift = 0
    for hunk in sorted(hunks, key=lambda each: each.start):
        stated = hunk.start - 1 if hunk.old else hunk.start
        at = _place(lines, hunk, stated + shift, done)
        result += [*lines[done:at], *hunk.new]
        done, shift = at + len(hunk.old), at - stated
    return b"".join([*result, *lines[done:]])


def _place(lines: Sequence[bytes], hunk: Hunk, expected: int, first: int) -> int:
    """The index of a hunk's first line, at or behind `first`."""
    if not hunk.old:
        if lines:
            raise PatchError(f"line {hunk.start}: the hunk has no lines around it by which its place could be found")
        return 0
    found = sorted(_places(lines, hunk.old, first), key=lambda at: abs(at - expected))
    if not found:
        raise PatchError(f"line {hunk.start}: {_why(lines, hunk)}")
    if len(found) > 1 and abs(found[0] - expected) == abs(found[1] - expected):
        places = " and ".join(str(at + 1) for at in sorted(found[:2]))
        raise PatchError(f"line {hunk.start}: the hunk fits at lines {places} alike")
    return found[0]


def _places(lines: Sequence[bytes], wanted: Sequence[bytes], first: int = 0) -> list[int]:
    """Where lines stand in a file."""
    size = len(wanted)
    starts = range(first, len(lines) - size + 1)
    return [at for at in starts if lines[at] == wanted[0] and tuple(lines[at : at + size]) == tuple(wanted)]


def _why(lines: Sequence[bytes], hunk: Hunk) -> str:
    """Why a hunk fits nowhere."""
    if hunk.new and _places(lines, hunk.new):
        return "what the hunk makes is there already"
    plain = [line.rstrip(b"\r\n") for line in lines]
    if _places(plain, [line.rstrip(b"\r\n") for line in hunk.old]):
        return "the hunk fits but for its line endings; an editor changed those of the patch, or of the file"
    return "the lines that the hunk takes away or keeps are not in the file"
