"""What the run of the original is asked about findings that were proposed without anybody's consent.

A finding beyond those that the user asked for needs two things besides equal training: that the compared steps run its
lines, and that what could not be shown about its values holds wherever they were seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import field, frozen

from perfmod.codemods.results import Withheld
from perfmod.examined import Examined
from perfmod.selection import rules_for
from perfmod.transforms.finding import Finding, Place, Question, Safety
from perfmod.transforms.questions import SHOWN_BY_RUNNING, WATCHED, in_words
from perfmod.verify.job import Point
from perfmod.verify.running import Ran
from perfmod.verify.stacks import Rewriting
from perfmod.verify.statements import Statements
from perfmod.withholding import place_of

_LATER: Final = "--unsafe answers it with yes"


@frozen
class Watch:
    """The points at which a run answers what is open about some findings.

    Attributes:
        points: by their numbers.
    """

    points: tuple[Point, ...]
    _asked: tuple[_Asked, ...]

    @classmethod
    def of(cls, rewriting: Rewriting, root: Path, device: str) -> Watch:
        """What there is to ask about the findings of a rewriting, whose files lie below `root`."""
        points: list[Point] = []
        asked = []
        places = {each.result.path: each for each in rewriting.examined}
        for each in rewriting.examined:
            for finding in _proposed(each):
                file = _File.of(each, root)
                first, last = file.lines(finding.line, finding.end_line)
                points.append(Point(file.name, first, last))
                one = _Asked(place_of(each, finding), finding, len(points) - 1)
                for question in finding.questions if finding.safety is Safety.UNSAFE else ():
                    owner = places.get(question.path or each.result.path)
                    point = _point(question, _File.of(owner, root), device) if owner is not None else None
                    if point is not None:
                        points.append(point)
                    one.questions.append((question, len(points) - 1 if point is not None else None))
                asked.append(one)
        return cls(tuple(points), tuple(asked))

    def decided(self, ran: Ran) -> tuple[dict[Place, Withheld], dict[Place, tuple[str, ...]]]:
        """The findings that are not to be applied, and what was observed of the others."""
        withheld: dict[Place, Withheld] = {}
        observed: dict[Place, tuple[str, ...]] = {}
        for one in self._asked:
            answer = one.answered(ran)
            if isinstance(answer, Withheld):
                withheld[one.place] = answer
            elif answer:
                observed[one.place] = answer
        return withheld, observed


@frozen
class _Asked:
    """What is asked about one finding: whether its lines run, by the number of the point, and its questions."""

    place: Place
    finding: Finding
    reached: int
    questions: list[tuple[Question, int | None]] = field(factory=list)

    def answered(self, ran: Ran) -> Withheld | tuple[str, ...]:
        if ran.trouble is not None:
            return Withheld(f"a run could not be watched: {ran.trouble.reason}", is_open=True)
        found = []
        for question, number in self.questions:
            if question.predicate in SHOWN_BY_RUNNING:
                continue
            asked = f"whether `{question.expression}` {in_words(question.predicate)}"
            if number is None:
                return Withheld(f"{self.finding.reason}; a run cannot answer this; {_LATER}", is_open=True)
            seen = [each for each in ran.watched if each.point == number]
            wrong = next((each.text for each in seen if not each.held), None)
            if wrong is not None:
                return Withheld(f"a run was asked {asked}: it saw {wrong}")
            if not seen:
                return Withheld(f"no run has shown {asked}; {_LATER}", is_open=True)
            found.append(f"`{question.expression}`: {', '.join(each.text for each in seen)}")
        if not any(each.point == self.reached for each in ran.watched):
            return Withheld("the compared steps do not run this code, so they prove nothing about it", is_open=True)
        return tuple(found)


def unasked(rewriting: Rewriting) -> list[Place]:
    """The applied findings that neither the default nor an option admits."""
    return [place_of(each, finding) for each in rewriting.examined for finding in _unasked(each)]


def _proposed(each: Examined) -> Iterator[Finding]:
    """Those of a file that a run has to answer for; what is safe and small needs no answer."""
    return (finding for finding in _unasked(each) if finding.safety is not Safety.LOW_IMPACT)


def _unasked(each: Examined) -> Iterator[Finding]:
    if each.task is None:
        return
    rules = {rule.code: rule for rule in rules_for(each.file.settings)[0]}
    for finding in each.result.applied:
        if not each.task.choice.is_chosen(finding, rules[finding.code]):
            yield finding


@frozen
class _File:
    name: str
    statements: Statements

    @classmethod
    def of(cls, each: Examined, root: Path) -> _File:
        real = each.file.real
        name = real.relative_to(root).as_posix() if real.is_relative_to(root) else str(real)
        return cls(name, Statements.of(_text(each)))

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """The lines that have to run for code in some lines to have run; a function's head runs when it is defined."""
        # What is put in front of a function stands at the comment above it.
        first, last = map(self.statements.at_or_behind, (first, last))
        begin = self.statements.bodies.get(first, self.statements.around(first)[0])
        return begin, max(begin, last, self.statements.around(last)[1])


def _text(each: Examined) -> str:
    return each.result.before.decode("utf-8", "replace") or each.file.real.read_text("utf-8", "replace")


def _point(question: Question, file: _File, device: str) -> Point | None:
    """Where and how a run sees the answer; None where it cannot."""
    is_seen = question.watchable and question.predicate in WATCHED
    if not is_seen or (question.predicate == "is-on-device" and device == "cpu"):
        return None
    try:
        parsed = ast.parse(question.expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    names = [_names(node) for node in (parsed.elts if isinstance(parsed, ast.Tuple) else [parsed])]
    wanted = 2 if question.predicate in ("same-shape", "same-dtype", "does-not-alias") else 1
    if len(names) != wanted or not all(names):
        return None
    first, last = file.statements.around(question.line)
    afterwards = file.statements.is_target(question.line, question.column)
    return Point(file.name, first, last, question.predicate, tuple(tuple(each) for each in names), afterwards)


def _names(node: ast.expr) -> list[str]:
    """A name and attributes of it; empty for everything else, which would have to be computed again."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (before := _names(node.value)):
        return [*before, node.attr]
    return []
