"""Cases of a rule, written as code: what stays, `-` what goes, `+` what comes, under a line that names the case."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

from perfmod.transforms.finding import Finding, Safety

FOLDER = Path(__file__).parents[1] / "rules" / "cases"


@frozen
class Case:
    """Code before and after a rewrite, the same where it stays; `notes` are the words of its headline."""

    notes: tuple[str, ...]
    before: str
    after: str


def cases(file: str) -> dict[str, Case]:
    """The cases of a file in `rules/cases` by name: `@@ name: note, note`, and a unified diff of the whole code."""
    found: dict[str, Case] = {}
    for text in ("\n" + (FOLDER / file).read_text("utf-8")).split("\n@@ ")[1:]:
        headline, *lines = text.splitlines()
        name, _, notes = headline.partition(": ")
        assert name not in found, name
        assert all(line[:1] in " -+" for line in lines), headline
        before, after = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != other) for other in ("+", "-"))
        found[name] = Case(tuple(notes.split(", ")), before, after)
    return found


OUTCOMES = {
    Safety.SAFE: "rewritten",
    Safety.LOW_IMPACT: "low impact",
    Safety.UNSAFE: "open question",
    Safety.OPT_IN: "on request",
    Safety.ADVICE: "advice",
}


def outcome_of(finding: Finding) -> str:
    """The name of what becomes of a finding, as `docs/policy.md` has it."""
    return "left as it is" if finding.refused else OUTCOMES[finding.safety]


def says(reason: str, parts: str) -> bool:
    """Whether a reason has these words in this order: `losses … line 15`; the prose between them may be any."""
    return re.search(".*".join(map(re.escape, parts.split(" … "))), reason) is not None
