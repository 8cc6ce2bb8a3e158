"""Findings as one review of a pull request: comments with suggestions on the lines that it changes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import frozen

from perfmod.github import markdown
from perfmod.github.findings import Found, places
from perfmod.github.inputs import Inputs
from perfmod.github.pull import FileChange, PullRequest
from perfmod.github.suggestions import suggestion
from perfmod.report.rows import FindingRow

LONGEST = 65_536
"""Characters of a comment."""
_MARK = re.compile(r"<!-- perfmod:([0-9a-f]{16}) -->")


@frozen
class Comment:
    """A comment on lines `first` to `last` of a file in the head of the pull request."""

    path: str
    first: int
    last: int
    body: str

    def payload(self) -> dict[str, object]:
        """As GitHub takes it, which refuses a start that is the end."""
        several = {"start_line": self.first, "start_side": "RIGHT"} if self.first < self.last else {}
        return {"path": self.path, "line": self.last, "side": "RIGHT", "body": self.body, **several}


def keys(bodies: Sequence[str]) -> frozenset[str]:
    """The findings that comments were made about."""
    return frozenset(key for body in bodies for key in _MARK.findall(body))


def comments(
    found: Sequence[Found],
    changed: Mapping[str, FileChange],
    content: Callable[[str], str | None],
    inputs: Inputs,
    said: Collection[str],
) -> list[Comment]:
    """The comments about findings that none was made about, as many as the pull request may still get.

    Args:
        found: the findings.
        changed: what the pull request changes.
        content: reads a file of its head; None where that is not UTF-8.
        inputs: whose limit holds.
        said: the keys of those that a comment was made about.
    """
    new = (_comment(each, changed, content, inputs) for each in found if each.key not in said)
    return [comment for comment in new if comment is not None][: max(0, inputs.max_comments - len(said))]


def review(pull: PullRequest, comments: Sequence[Comment], found: Sequence[Found], run: str) -> dict[str, object]:
    """The review as GitHub takes it; `run` is the address of the job, where all findings are."""
    body = f"perfmod: {markdown.count(found)} in the lines that this pull request changes."
    if len(comments) < len(found):
        body += f" New comments: {len(comments)}; all places are in the [summary of the job]({run})."
    return {
        "commit_id": pull.head,
        "event": "COMMENT",
        "body": body,
        "comments": [comment.payload() for comment in comments],
    }


def _comment(
    found: Found, changed: Mapping[str, FileChange], content: Callable[[str], str | None], inputs: Inputs
) -> Comment | None:
    row = found.row
    text = content(row.path) if row.path in changed and row.cell is None else None
    offered = None if text is None else suggestion(row, text)
    if offered is not None and changed[row.path].hunk(offered.first, offered.last) is not None:
        body = _body(found, markdown.block("suggestion", offered.text))
        if len(body) <= LONGEST:
            return Comment(row.path, offered.first, offered.last, body)
    place = _place(row, changed)
    if place is None:
        return None
    path, lines = place
    return Comment(path, lines[0], lines[-1], _body(found, _by_hand(row, inputs))[:LONGEST])


def _place(row: FindingRow, changed: Mapping[str, FileChange]) -> tuple[str, range] | None:
    """Where a comment stands: the lines of the finding or of an edit that are changed, as far as they are shown."""
    if row.cell is not None:
        return None
    for path, lines in places(row):
        change = changed.get(path, FileChange(frozenset(), ()))
        for line in lines:
            hunk = change.hunk(line, line)
            if line in change.added and hunk is not None:
                return path, range(max(lines[0], hunk[0]), min(lines[-1], hunk[-1]) + 1)
    return None


def _body(found: Found, rewrite: str) -> str:
    row = found.row
    note = (
        f"Numerics: {row.numerics}. {markdown.code(f'perfmod explain {row.code}')} says more, and the comment "
        f"{markdown.code(f'# perfmod: ignore[{row.code}]')} on the line keeps it as it is."
    )
    # The mark comes first, so that a body that is cut keeps it.
    parts = [f"<!-- perfmod:{found.key} -->\n{markdown.title(row)}", markdown.escaped(row.reason), rewrite, note]
    return "\n\n".join(filter(None, parts))


def _by_hand(row: FindingRow, inputs: Inputs) -> str:
    there = [path for path in row.elsewhere if path not in row.makes]
    command = shlex.join(["perfmod", "apply", row.path, *there, *inputs.args])
    others = f", with {', '.join(map(markdown.code, row.elsewhere))}" if row.elsewhere else ""
    return f"{markdown.code(command)} rewrites it{others}."
