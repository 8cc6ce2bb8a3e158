"""Small rules to try the engine on, and findings for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

Check = Callable[[FileFacts], Iterable[Finding]]


class ToyRule(Rule):
    """A rule whose check is given to it; its findings are built by `at`."""

    summary = "a toy pattern"
    fix_title = "Replace the toy"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "2.1"
    status = Status.STABLE
    references = ()
    changes_results = "Never."

    def __init__(self, code: str, name: str, family: Family, triggers: Iterable[str], check: Check) -> None:
        self.code = code  # type: ignore[misc]
        self.name = name  # type: ignore[misc]
        self.family = family  # type: ignore[misc]
        self.triggers = frozenset(triggers)  # type: ignore[misc]
        self._check = check

    def check(self, file: FileFacts) -> Iterator[Finding]:
        yield from self._check(file)


def rule(
    check: Check,
    *,
    code: str = "PM901",
    name: str = "toy",
    family: Family = Family.SYNCS,
    triggers: Iterable[str] = ("slow",),
) -> Rule:
    return ToyRule(code, name, family, triggers, check)


def at(
    file: FileFacts,
    start: int,
    end: int,
    *edits: Edit,
    code: str = "PM901",
    safety: Safety = Safety.SAFE,
    reason: str = "because",
    imports: tuple[str, ...] = (),
    definitions: tuple[str, ...] = (),
    refused: bool = False,
) -> Finding:
    line, column = file.source.position(start)
    return Finding(
        code=code,
        start=start,
        end=end,
        line=line,
        column=column,
        message="a toy",
        reason=reason,
        safety=safety,
        numerics=Numerics.BITWISE,
        min_torch="2.1",
        edits=tuple(sorted(edits)),
        imports=imports,
        definitions=definitions,
        refused=refused,
        snippet=file.source.text[start:end],
    )


def renaming(
    old: str = r"\bslow\b",
    new: str = "fast",
    *,
    code: str = "PM901",
    name: str = "toy",
    family: Family = Family.SYNCS,
    triggers: Iterable[str] = ("slow",),
    safety: Safety = Safety.SAFE,
    imports: tuple[str, ...] = (),
    definitions: tuple[str, ...] = (),
) -> Rule:
    """Replaces every match of a pattern."""

    def check(file: FileFacts) -> Iterator[Finding]:
        for match in re.finditer(old, file.source.text):
            start, end = match.span()
            yield at(
                file,
                start,
                end,
                Edit(start, end, match.expand(new)),
                code=code,
                safety=safety,
                imports=imports,
                definitions=definitions,
            )

    return rule(check, code=code, name=name, family=family, triggers=triggers)
