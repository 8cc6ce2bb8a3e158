"""The rules themselves, as a table, as JSON, and one at a time as a page."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
from attrs import frozen
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfmod import __version__
from perfmod.errors import UsageMistake
from perfmod.report.rows import SCHEMA_VERSION
from perfmod.roots import shown
from perfmod.transforms.rule import Rule

if TYPE_CHECKING:
    from rich.console import Console


_OUTCOMES = {
    "safe": "rewritten",
    "low-impact": "low impact",
    "unsafe": "open question",
    "opt-in": "on request",
    "advice": "advice",
}
"""What a finding of a rule becomes at best."""
_WIDE = 120
"""Columns from which on the table of rules has room for what they find."""
_LINE_OF_A_PARAGRAPH = re.compile(r"(?<=\S)\n(?:  (?=\S))?(?! |- |\n)")
"""Where a paragraph or a list item goes on in the next line, unlike code, which is indented further."""


@frozen
class RuleRow:
    """One rule, as its class attributes have it."""

    code: str
    name: str
    family: str
    summary: str
    fix_title: str
    numerics: str
    safety: str
    min_torch: str
    status: str
    references: tuple[str, ...]
    changes_results: str


def rule_rows(rules: Sequence[Rule]) -> tuple[RuleRow, ...]:
    """The rows of all rules, by code."""
    return tuple(
        RuleRow(
            code=rule.code,
            name=rule.name,
            family=rule.family.value,
            summary=rule.summary,
            fix_title=rule.fix_title,
            numerics=rule.numerics.value,
            safety=rule.safety.value,
            min_torch=rule.min_torch,
            status=rule.status.value,
            references=rule.references,
            changes_results=rule.changes_results,
        )
        for rule in sorted(rules, key=lambda rule: rule.code)
    )


def find(name: str, rules: Sequence[Rule]) -> Rule:
    """The rule of that code or name, in capitals or not. Raises `UsageMistake` with the nearest one."""
    known = {key.casefold(): rule for rule in rules for key in (rule.code, rule.name)}
    if (rule := known.get(name.casefold())) is not None:
        return rule
    near = difflib.get_close_matches(name.casefold(), known, n=1)
    hint = f"did you mean {known[near[0]].code} {known[near[0]].name}?" if near else "`perfmod rules` lists them"
    raise UsageMistake(f"there is no rule {shown(name)}; {hint}")


def render_json(rows: Sequence[RuleRow]) -> str:
    """The rules as one JSON document, ending in a newline."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfmod": __version__,
        "rules": [attrs.asdict(row) for row in rows],
    }
    return json.dumps(document, indent=2) + "\n"


def render_table(rows: Sequence[RuleRow], console: Console) -> None:
    """A table on a wide terminal, a paragraph for each rule on a narrow one.

    In a pipe, one line per rule, columns separated by tabs.
    """
    cells = [(row.code, row.name, row.numerics, _OUTCOMES[row.safety], row.summary) for row in rows]
    if not console.is_terminal:
        for line in cells:
            console.file.write("\t".join(line) + "\n")
        return
    if console.width < _WIDE:
        for code, name, numerics, outcome, summary in cells:
            console.print(Text.assemble((f"{code} {name}", "bold cyan"), f"  {numerics}, {outcome}"), soft_wrap=True)
            console.print(Padding(Text(summary), (0, 0, 0, 4)))
        return
    table = Table("code", "name", "numerics", "outcome", "what it finds", box=None, header_style="bold")
    for line in cells:
        table.add_row(*line)
    console.print(table)


def sections(rule: Rule) -> dict[str, str]:
    """What there is to say about a rule, by headline; Markdown."""
    story = inspect.getdoc(sys.modules[type(rule).__module__]) or ""
    bodies = {
        "What it finds": story or rule.summary,
        "What it writes": rule.fix_title,
        "When this changes results": rule.changes_results,
        "References": "\n".join(f"- {reference}" for reference in rule.references),
    }
    return {title: body for title, body in bodies.items() if body}


def render_page(rule: Rule, console: Console) -> None:
    """Everything there is to know about a rule, as Markdown in a pipe would read."""
    (row,) = rule_rows([rule])
    console.print(Text.assemble((f"{row.code} {row.name}", "bold cyan"), f": {row.summary}"), soft_wrap=True)
    console.print(
        f"{row.family}; numerics {row.numerics}; {_OUTCOMES[row.safety]}; torch {row.min_torch} or later; {row.status}",
        soft_wrap=True,
        highlight=False,
    )
    for title, body in sections(rule).items():
        console.print(Text(f"\n{title}", style="bold"))
        if not console.is_terminal:
            console.print(Text(body), soft_wrap=True)
            continue
        for line in _LINE_OF_A_PARAGRAPH.sub(" ", body).splitlines():
            console.print(Text(line), soft_wrap=line.startswith("    "))
