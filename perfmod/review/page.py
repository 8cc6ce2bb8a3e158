"""The review as one HTML page that needs nothing besides itself.

All of its contents travel as JSON and are put into the page as text, never as markup; its policy lets nothing run,
load or connect that was not written here.

With a `Server` the page sends decisions as they are made. Both requests are POST with `Content-Type: application/json`
and the token in the header `X-Perfmod-Token`:

- `decisions`: `{"schema_version": 1, "decisions": [{"path", "rule", "scope", "fingerprint", "occurrence", "of",
  "verdict", "code", "note"}, ...]}`, those that changed, in the format of `decisions.json`; `undecided` takes one
  back. The answer is `{"saved": 3}`. The same decisions may come twice.
- `apply`: `{}`. The answer is `{"files": ["train.py", ...], "findings": 3, "left": [{"path", "rule", "reason"}, ...]}`:
  the files that were changed, how many findings were applied, and which accepted ones were not, and why.

An error is any other status than 200, with `{"error": "one line: what, where, what to do"}`. After 5xx, or where
nobody answers, the page tries decisions again by itself; after 4xx it waits for the person. `apply` is never repeated
by itself.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import asdict, frozen

from perfmod.codemods import catalog
from perfmod.report.rows import State
from perfmod.report.wording import of_others
from perfmod.review.highlight import KINDS, shown_lines
from perfmod.review.items import Diff, Hunk, Item
from perfmod.review.standalone import SHARED, part, plain, script_json, standalone
from perfmod.transforms.finding import Numerics
from perfmod.transforms.rule import Rule

SCRIPTS: Final = (
    "dom",
    "model",
    "decisions",
    "facets",
    "filters",
    "diff",
    "server",
    "cards",
    "choices",
    "layout",
    "actions",
    "keyboard",
    "main",
)
"""The modules of the page's script, in the order in which they run."""

RISK: Final = tuple(Numerics)
"""Classes of numerics, the least risky first."""


@frozen
class RuleText:
    """What the page says of a rule.

    Attributes:
        fix_title: what its rewrite does, as a command: `Compute it on the device`.
        numerics: how much results may change, at most.
        changes_results: when a rewrite changes results.
        explanation: the pattern, for somebody who has never seen the tool; paragraphs, with indented code.
    """

    name: str
    summary: str
    fix_title: str
    numerics: str
    changes_results: str
    explanation: str


def rule_text(rule: Rule) -> RuleText:
    """What the page says of a rule."""
    return RuleText(
        name=rule.name,
        summary=rule.summary,
        fix_title=rule.fix_title,
        numerics=rule.numerics.value,
        changes_results=rule.changes_results,
        explanation=inspect.getdoc(sys.modules[type(rule).__module__]) or "",
    )


@frozen
class Server:
    """Who keeps the decisions while the page is open.

    Attributes:
        address: where it listens: `http://127.0.0.1:43210/`.
        token: what it knows its own page by.
    """

    address: str
    token: str


def review_page(items: Sequence[Item], *, title: str, server: Server | None = None) -> bytes:
    """The page of these items in UTF-8, with what there is to say of their rules."""
    codes = {item.finding.code for item in items}
    rules = {rule.code: rule_text(rule) for rule in catalog.rules() if rule.code in codes}
    return render(items, rules, title=title, server=server)


def render(items: Sequence[Item], rules: Mapping[str, RuleText], *, title: str, server: Server | None = None) -> bytes:
    """The page in UTF-8; `rules` holds the rule of every item, by code. Its order is that of risk, then of places."""
    ordered = sorted(items, key=_order)
    document: dict[str, Any] = {
        "title": title,
        "kinds": KINDS,
        "classes": {numerics.value: f"{numerics.words.capitalize()}." for numerics in RISK},
        "states": {state.value: state.words for state in State},
        "rules": {code: asdict(rules[code]) for code in sorted({item.finding.code for item in ordered})},
        "items": [_item(item) for item in ordered],
    }
    document["page"] = hashlib.sha256(script_json(document).encode()).hexdigest()[:16]
    document["server"] = None if server is None else asdict(server)
    return standalone(
        template=part(SHARED, "page.html"),
        styles=(part(SHARED, "base.css"), part(SHARED, "page.css")),
        scripts=(part(SHARED, f"{name}.js") for name in SCRIPTS),
        title=title,
        data=document,
        connects=_origin(server.address) if server else "'none'",
    )


def _order(item: Item) -> tuple[object, ...]:
    finding = item.finding
    risk = RISK.index(Numerics(finding.numerics))
    return risk, finding.path, finding.cell or 0, finding.line, finding.column, finding.code, item.key


def _item(item: Item) -> dict[str, Any]:
    finding = item.finding
    proof = item.proof
    return {
        "key": item.key,
        "path": item.path,
        "shownPath": plain(finding.path),
        "place": plain(finding.place),
        "rule": finding.code,
        "scope": finding.scope,
        "shownScope": plain(finding.scope),
        "fingerprint": finding.fingerprint,
        "occurrence": item.occurrence,
        "of": item.of,
        "code": item.code,
        "numerics": finding.numerics,
        "state": finding.state.value,
        "message": plain(finding.message),
        "reason": plain(finding.reason),
        "elsewhere": [plain(path) for path in finding.elsewhere],
        "also": plain(of_others(finding)),
        "figures": finding.figures_may_differ,
        "observed": [plain(text) for text in finding.observed],
        "buildsOn": item.builds_on,
        "proof": None if proof is None else asdict(proof),
        "verdict": item.verdict.value,
        "note": item.note,
        "diffs": [_diff(diff) for diff in item.diffs],
    }


def _diff(diff: Diff) -> dict[str, Any]:
    return {"name": plain(diff.name), "hunks": [_hunk(hunk) for hunk in diff.hunks]}


def _hunk(hunk: Hunk) -> dict[str, Any]:
    lines = [
        {"sign": line.sign, "text": line.text, "kinds": line.kinds, "changed": line.changed, "partner": line.partner}
        for line in shown_lines(hunk)
    ]
    return {"old": hunk.old_start, "new": hunk.new_start, "lines": lines}


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
