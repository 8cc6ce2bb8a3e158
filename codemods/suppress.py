"""Comments that silence rules: on a line, around a block, for a file.

    x[index] = 0  # perfmod: ignore[PM101]      one statement (of a compound one: its header)
    # perfmod: ignore[nonzero-index-assignment]  the statement directly below, with its body
    # perfmod: off[PM1] ... # perfmod: on[PM1]   the lines between
    # perfmod: ignore-file                       the file; stands above its first statement

Codes, their starts and names may be listed in the brackets; without brackets every rule is meant.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import libcst as cst
from attrs import evolve, frozen

from perfmod.codemods import catalog
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Finding
from perfmod.transforms.rule import Rule
from perfmod.transforms.source import Source
from perfmod.transforms.writing import header_end_of, statement_start

_MARK = "perfmod:"
_DIRECTIVE = re.compile(r"#\s*perfmod:\s*(?P<kind>[\w-]*)\s*(?P<codes>\[[^\]#]*\]?)?")


class Kind(str, enum.Enum):
    """What a comment asks for."""

    IGNORE = "ignore"
    IGNORE_FILE = "ignore-file"
    OFF = "off"
    ON = "on"


@frozen
class Directive:
    """One comment.

    Attributes:
        offset: where the comment starts.
        line: its line, from 1.
        kind: what it asks for.
        selectors: the rules it names; `ALL` where it names none.
        first, last: the lines it covers; none of them where `last < first`.
    """

    offset: int
    line: int
    kind: Kind
    selectors: tuple[str, ...]
    first: int = 0
    last: int = -1

    def names(self, rule: Rule) -> bool:
        """Whether one of the selectors means `rule`."""
        return any(catalog.matches(rule, selector) for selector in self.selectors)


@frozen
class Suppressions:
    """The directives of a file, in order, and complaints about comments that could not be read as one."""

    directives: tuple[Directive, ...] = ()
    complaints: tuple[str, ...] = ()

    @classmethod
    def read(cls, source: Source) -> Suppressions:
        """Reads the comments of a file. Strings that hold such text are no comments."""
        if not mentioned(source.text):
            return cls()
        reader = _Reader(source)
        return cls(tuple(reader.directives()), tuple(reader.complaints))

    def silencing(self, finding: Finding, source: Source, rule: Rule) -> list[tuple[Directive, str]]:
        """The directives that silence a finding, each with the selector that names its rule."""
        if not self.directives:
            return []
        touched = list(_touched_lines(finding, source))
        found: list[tuple[Directive, str]] = []
        for directive in self.directives:
            if directive.kind is Kind.ON:
                continue
            for selector in directive.selectors:
                if catalog.matches(rule, selector):
                    last = self._last_line(directive, rule)
                    if any(directive.first <= end and start <= last for start, end in touched):
                        found.append((directive, selector))
        return found

    def warnings(self, rules: Sequence[Rule], used: AbstractSet[tuple[int, str]]) -> tuple[str, ...]:
        """Complaints, unknown rules, and selectors that silenced nothing although all their rules were run.

        `used` holds those that did, as offset of the directive and selector.
        """
        if not self.directives:
            return self.complaints
        ran = {rule.code for rule in rules}
        known = [*rules, *(rule for rule in catalog.rules() if rule.code not in ran)]
        found = [(int(text.split(":")[0].split()[1]), text) for text in self.complaints]
        for directive in self.directives:
            for selector in directive.selectors:
                try:
                    catalog.require(selector, known)
                except catalog.SelectionError as error:
                    found.append((directive.line, f"line {directive.line}: {error}"))
                    continue
                all_ran = all(rule.code in ran for rule in known if catalog.matches(rule, selector))
                if directive.kind is not Kind.ON and all_ran and (directive.offset, selector) not in used:
                    named = "" if selector == catalog.ALL else f"[{selector}]"
                    text = f"line {directive.line}: unused `# perfmod: {directive.kind.value}{named}`"
                    found.append((directive.line, text))
        return tuple(text for _, text in sorted(found))

    def _last_line(self, directive: Directive, rule: Rule) -> int:
        """The last line that a directive covers for a rule; for `off` that of the next `on` that names it."""
        if directive.kind is not Kind.OFF:
            return directive.last
        switches = (
            on.line for on in self.directives if on.kind is Kind.ON and on.offset > directive.offset and on.names(rule)
        )
        return next(switches, directive.last)


def mentioned(text: str) -> bool:
    """Whether a text can hold such a comment at all."""
    return _MARK in text


@frozen
class _Lines:
    """The lines of a statement: its first, the last of its logical line or header, the last of its body."""

    first: int
    header: int
    last: int


class _Reader:
    """Finds the comments of a file and the statements that they stand on or above."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.complaints: list[str] = []
        self._statements = [self._lines(statement) for statement in _statements(source.module)]

    def directives(self) -> Iterator[Directive]:
        for start, comment in self.source.comments:
            for match in _DIRECTIVE.finditer(comment):
                directive = self._directive(start + match.start(), match)
                if directive is not None:
                    yield self._with_lines(directive)

    def _directive(self, offset: int, match: re.Match[str]) -> Directive | None:
        line = self.source.position(offset)[0]
        if match["kind"] not in {kind.value for kind in Kind}:
            kinds = ", ".join(kind.value for kind in Kind)
            self._complain(line, f"`{match.group().strip()}` is not one of {kinds}")
            return None
        if match["codes"] is None:
            return Directive(offset, line, Kind(match["kind"]), (catalog.ALL,))
        selectors = tuple(part.strip() for part in match["codes"].strip("[]").split(",") if part.strip())
        if not selectors:
            self._complain(line, f"`{match.group().strip()}` names no rule")
        return Directive(offset, line, Kind(match["kind"]), selectors)

    def _with_lines(self, directive: Directive) -> Directive:
        line, end = directive.line, len(self.source.line_starts)
        if directive.kind is Kind.IGNORE_FILE:
            if self._statements and line >= min(lines.first for lines in self._statements):
                self._complain(line, "`ignore-file` has to be above the first statement")
                return evolve(directive, selectors=())
            return evolve(directive, first=1, last=end)
        if directive.kind is Kind.IGNORE:
            first, last = self._ignored(line)
            return evolve(directive, first=first, last=last)
        return evolve(directive, first=line, last=end)

    def _ignored(self, line: int) -> tuple[int, int]:
        """The lines of the statement that holds a comment, or of the one that directly follows it."""
        holding = [lines for lines in self._statements if lines.first <= line <= lines.header]
        if holding:
            return min(lines.first for lines in holding), max(lines.header for lines in holding)
        below = line + 1
        while self._text(below).lstrip().startswith("#"):
            below += 1
        following = [lines.last for lines in self._statements if lines.first == below]
        return (below, max(following)) if following else (line, line)

    def _text(self, line: int) -> str:
        starts = self.source.line_starts
        return self.source.text[starts[line - 1] : starts[line]] if line < len(starts) else ""

    def _lines(self, statement: cst.BaseStatement) -> _Lines:
        start, end = statement_start(self.source, statement), self.source.span(statement)[1]
        first, last = self.source.position(start)[0], self.source.position(end)[0]
        body = getattr(statement, "body", None)
        if isinstance(body, cst.IndentedBlock):
            return _Lines(first, self.source.position(header_end_of(self.source, body))[0] - 1, last)
        return _Lines(first, first if isinstance(statement, cst.Match) else last, last)

    def _complain(self, line: int, text: str) -> None:
        self.complaints.append(f"line {line}: {text}")


def _statements(module: cst.Module) -> Iterator[cst.BaseStatement]:
    return find_all(module, cst.BaseStatement)  # type: ignore[type-abstract]


def _touched_lines(finding: Finding, source: Source) -> Iterator[tuple[int, int]]:
    yield _line_range(source, finding.start, finding.end)
    for edit in finding.edits:
        if not _inserts_lines(edit, source):
            yield _line_range(source, edit.start, edit.end)


def _inserts_lines(edit: Edit, source: Source) -> bool:
    """Whether an edit puts whole lines between two lines, and so touches neither."""
    at_line_start = source.line_start(edit.start) == edit.start
    return edit.start == edit.end and at_line_start and edit.replacement.endswith(("\n", "\r"))


def _line_range(source: Source, start: int, end: int) -> tuple[int, int]:
    return source.position(start)[0], source.position(max(start, end - 1))[0]
