"""What single findings change, as hunks of the code that people read: of a notebook the code of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perfmod.codemods.patch import grouped, signed
from perfmod.codemods.placed import Code, Overlap
from perfmod.codemods.results import Withheld
from perfmod.examined import Examined
from perfmod.memory import Memory
from perfmod.review.items import Diff, Hunk, Line
from perfmod.roots import shown
from perfmod.transforms.finding import Finding, PlacedEdit
from perfmod.withholding import place_of, without

LEFT_OUT = Withheld("left out")
"""For findings of which is asked what the files are without them."""


def diffs_of(
    each: Examined, finding: Finding, examined: Sequence[Examined], remembered: Memory | None
) -> tuple[Diff, ...]:
    """What an applied finding changes, its own file first.

    Of a finding that builds on others, what it adds to all of them.
    """
    changed = {one.result.path: one for one in examined if one.result.before != one.result.after}
    if finding.placed is not None:
        try:
            return tuple(_alone(each.result.path, finding.placed, changed))
        except Overlap:
            pass
    group = [one for one in changed.values() if one.task is each.task]
    rest = {one.result.path: one for one in without(group, {place_of(each, finding): LEFT_OUT}, remembered)}
    found: list[Diff] = []
    for path in sorted((one.result.path for one in group), key=lambda path: (path != each.result.path, path)):
        left = rest[path].result.after if path in rest else b""
        before = Code.read(left or changed[path].result.before, path)
        is_new = changed[path].result.is_new and not left
        found += _between(before, Code.read(changed[path].result.after, path), is_new=is_new)
    return tuple(found)


def together(findings: Sequence[tuple[Examined, Finding]], examined: Sequence[Examined]) -> tuple[Diff, ...]:
    """What applied findings of one file change at once, of which none builds on others.

    Raises `Overlap` where they get in each other's way.
    """
    changed = {one.result.path: one for one in examined if one.result.before != one.result.after}
    edits = [edit for _, finding in findings for edit in finding.placed or ()]
    return tuple(_alone(findings[0][0].result.path, edits, changed))


def _alone(own: str, edits: Sequence[PlacedEdit], changed: Mapping[str, Examined]) -> Iterator[Diff]:
    by_path: dict[str, list[PlacedEdit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    for path in sorted(by_path, key=lambda path: (path != own, path)):
        before = Code.read(changed[path].result.before, path)
        yield from _between(before, before.edited(by_path[path]), is_new=changed[path].result.is_new)


def _between(before: Code, after: Code, *, is_new: bool) -> Iterator[Diff]:
    for part, old in before.parts.items():
        hunks = tuple(_hunks(old, after.parts[part]))
        if hunks:
            yield Diff(shown(before.path), part, hunks, is_new)


def _hunks(before: str, after: str) -> Iterator[Hunk]:
    # Where nothing was, there is no line either.
    old, new = (_lines(before), _lines(after)) if before else ([], _lines(after.removesuffix("\n")))
    for group in grouped(old, new):
        lines = tuple(Line(sign, _text(line)) for sign, line in signed(group, old, new))
        yield Hunk(group[0][1] + 1, group[0][3] + 1, lines)


def _lines(text: str) -> list[bytes]:
    return [
        line.encode("utf-8", "surrogatepass") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    ]


def _text(line: bytes) -> str:
    """A line as it can be shown anywhere; tabs stay."""
    return "\t".join(shown(part) for part in line.decode("utf-8", "backslashreplace").split("\t"))
