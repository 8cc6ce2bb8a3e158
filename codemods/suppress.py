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
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import libcst as cst
from attrs import evolve, frozen

from perfmod.codemods import catalog
from perfmod.codemods.results import Unused
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
        names_start, names_end: where the names between its brackets start and end; None where it has no brackets.
        first, last: the lines it covers; none of them where `last < first`.
    """

    offset: int
    line: int
    kind: Kind
    selectors: tuple[str, ...]
    names_start: int | None = None
    names_end: int | None = None
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

    def warnings(self, rules: Sequence[Rule], unused: Iterable[Unused]) -> tuple[str, ...]:
        """Complaints, names that are of none of `rules` nor of the catalogue, and what is unused."""
        if not self.directives:
            return self.complaints
        found = [(int(text.split(":")[0].split()[1]), text) for text in self.complaints]
        known = _known(rules)
        for directive in self.directives:
            complaints = (_complaint(selector, known) for selector in directive.selectors)
            found += [(directive.line, f"line {directive.line}: {complaint}") for complaint in complaints if complaint]
        found += [(each.line, each.warning) for each in unused]
        return tuple(text for _, text in sorted(found))

    def unused(self, rules: Sequence[Rule], used: AbstractSet[tuple[int, str]]) -> tuple[Unused, ...]:
        """The names in comments that silenced nothing although all their rules were run.

        `used` holds those that did, as offset of the directive and selector. An `on` is unused where no `off` that
        stays is above it.
        """
        if not self.directives:
            return ()
        ran = {rule.code for rule in rules}
        known = _known(rules)
        found: list[Unused] = []
        off: set[str] = set()
        for directive in self.directives:
            for selector in directive.selectors:
                named = {rule.code for rule in known if catalog.matches(rule, selector)}
                is_on = directive.kind is Kind.ON
                is_used = not named.isdisjoint(off) if is_on else (directive.offset, selector) in used
                if named and named <= ran and not is_used:
                    found.append(Unused(directive.offset, directive.line, directive.kind.value, selector))
                elif directive.kind is Kind.OFF:
                    off |= named
        return tuple(found)

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
class Lines:
    """The lines of a statement: its first, the last of its logical line or header, the last of its body."""

    first: int
    header: int
    last: int

    @classmethod
    def holding(cls, statements: Iterable[Lines], line: int) -> Lines | None:
        """Those of all statements together that hold a line, other than in a body; None for a line of no statement."""
        found = [lines for lines in statements if lines.first <= line <= lines.header]
        if not found:
            return None
        return cls(
            min(lines.first for lines in found),
            max(lines.header for lines in found),
            max(lines.last for lines in found),
        )


class _Reader:
    """Finds the comments of a file and the statements that they stand on or above."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.complaints: list[str] = []
        self._statements = statement_lines(source)

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
        start = offset + match.start("codes") - match.start() + 1
        end = start + len(match["codes"].strip("[]").rstrip(", "))
        selectors = tuple(part.strip() for part in match["codes"].strip("[]").split(",") if part.strip())
        if not selectors:
            self._complain(line, f"`{match.group().strip()}` names no rule")
        return Directive(offset, line, Kind(match["kind"]), selectors, start, end)

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
        holding = Lines.holding(self._statements, line)
        if holding is not None:
            return holding.first, holding.header
        below = line + 1
        while self._text(below).lstrip().startswith("#"):
            below += 1
        following = [lines.last for lines in self._statements if lines.first == below]
        return (below, max(following)) if following else (line, line)

    def _text(self, line: int) -> str:
        starts = self.source.line_starts
        return self.source.text[starts[line - 1] : starts[line]] if line < len(starts) else ""

    def _complain(self, line: int, text: str) -> None:
        self.complaints.append(f"line {line}: {text}")


def statement_lines(source: Source) -> list[Lines]:
    """The lines of all statements of a file; handlers of exceptions and cases of a match count as statements."""
    module = source.module
    kinds: tuple[type[cst.CSTNode], ...] = (
        cst.BaseStatement,
        cst.ExceptHandler,
        cst.ExceptStarHandler,
        cst.MatchCase,
    )
    return [_lines(source, node) for kind in kinds for node in find_all(module, kind)]


def _lines(source: Source, statement: cst.CSTNode) -> Lines:
    start = (
        statement_start(source, statement) if isinstance(statement, cst.BaseStatement) else source.span(statement)[0]
    )
    first, last = source.position(start)[0], source.position(source.span(statement)[1])[0]
    body = getattr(statement, "body", None)
    if isinstance(body, cst.IndentedBlock):
        return Lines(first, source.position(header_end_of(source, body))[0] - 1, last)
    return Lines(first, first if isinstance(statement, cst.Match) else last, last)


def _complaint(selector: str, known: Sequence[Rule]) -> str:
    """What is wrong with a name; empty where it names a rule."""
    try:
        catalog.require(selector, known)
    except catalog.SelectionError as error:
        return str(error)
    return ""


def _known(rules: Sequence[Rule]) -> list[Rule]:
    """Some rules, and those of the catalogue."""
    codes = {rule.code for rule in rules}
    return [*rules, *(rule for rule in catalog.rules() if rule.code not in codes)]


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
