"""The rules' pages and their table.

A page is rendered from its rule (metadata and the module's docstring), from its goldens (the shortest one that changes
is the example, and why the others stay is listed) and from what was measured of it.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gains import Gain, render_rule_gains
from markdown import bullets, table_row

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.transforms.rule import Rule

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from golden_harness.golden import Golden, goldens  # noqa: E402

SAFETY = {
    "safe": "applied by default",
    "unsafe": "an open question, applied with `--unsafe`",
    "opt-in": "on request, applied with `--extend-select`",
    "advice": "reported, never rewritten",
}


def goldens_by_rule() -> dict[str, list[Golden]]:
    """All goldens, by the name of their rule."""
    cases: dict[str, list[Golden]] = {}
    for golden in goldens():
        cases.setdefault(golden.rule, []).append(golden)
    return cases


def page_path(rule: Rule) -> Path:
    """Where a rule's page stands."""
    return ROOT / rule.card.page


def render_rule_page(rule: Rule, cases: Sequence[Golden], measured: Sequence[Gain]) -> str:
    """A rule's page as Markdown."""
    safety = rule.safety.value
    facts = [
        table_row("", ""),
        table_row("---", "---"),
        table_row("family", rule.family.value),
        table_row("rewrite", rule.fix_title),
        table_row("numerics", f"{rule.numerics.value}: {rule.numerics.words}"),
        table_row("outcome at best", SAFETY[safety]),
        table_row("needs", f"torch {rule.min_torch} or later"),
        table_row("status", rule.status.value),
    ]
    story = inspect.getdoc(sys.modules[type(rule).__module__]) or ""
    parts = [f"# {rule.code} {rule.name}", rule.summary, "\n".join(facts), story]
    parts += ["## What it brings", render_rule_gains(rule.code, measured)]
    example = min((case for case in cases if case.head.change), key=_simplicity, default=None)
    if example is not None:
        parts += ["## Before and after", *_example(example)]
    general = "What all rules take for granted: [policy](../policy.md)."
    parts += ["## When this changes results", rule.changes_results, general]
    if refusals := list(_refusals(rule, cases)):
        intro = "`perfmod check --explain-all` lists it with the reason. Reasons shown by the goldens:"
        parts += ["## What stays as it is", intro, bullets(refusals)]
    if rule.references:
        parts += ["## References", bullets(f"<{address}>" for address in rule.references)]
    comment = f"# perfmod: ignore[{rule.code}]"
    parts += ["## Turning it off", f"On a line: `{comment}`. For a run: `--ignore {rule.code}`."]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _simplicity(case: Golden) -> tuple[bool, bool, int, str]:
    return case.head.unsafe, case.head.opt_in, len(case.before), case.name


def _example(case: Golden) -> Iterator[str]:
    """A golden before and after, and as the diff that perfmod shows."""
    before, after = (_without_harness(text.decode()) for text in (case.before, case.after))
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]
    diff = "".join(f"{line}\n" for line in lines if not line.startswith("@@"))
    source = case.path.relative_to(ROOT).as_posix()
    yield from ("Before:", f"```python\n{before}```", "After:", f"```python\n{after}```", "The diff:")
    yield f"```diff\n{diff}```"
    yield f"From [`{source}`](../../{source})."


def _without_harness(code: str) -> str:
    """A golden's code without its first line and the functions that tests call, which tell a reader nothing."""
    lines = code.splitlines(keepends=True)
    harness = [
        node
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.name in ("cases", "probe") and not node.decorator_list
    ]
    for node in reversed(harness):
        del lines[node.lineno - 1 : node.end_lineno]
    return re.sub(r"\n{3,}(?=\S)", "\n\n\n", "".join(lines[1:])).strip("\n") + "\n"


def _refusals(rule: Rule, cases: Iterable[Golden]) -> Iterator[str]:
    """The reasons that `rule` gives in the goldens, as they are printed, each with a link to its file."""
    for case in cases:
        if case.head.refused is not None or case.head.advised is not None:
            name = case.path.relative_to(ROOT).as_posix()
            reasons = {
                finding.reason
                for finding in rewrite(case.before, name, [rule], Choice(policy=case.head.policy)).refused
            }
            yield from (f"{reason} ([{case.path.name}](../../{name}))" for reason in sorted(reasons))


def render_rule_table(rules: Iterable[Rule]) -> str:
    """The table of rules."""
    lines = [table_row("rule", "what it finds", "what it writes", "numerics"), table_row(*["---"] * 4)]
    for rule in rules:
        link = f"[{rule.code} {rule.name}](rules/{page_path(rule).name})"
        lines.append(table_row(link, rule.summary, rule.fix_title, rule.numerics.value))
    return "\n".join(lines)
