"""A campaign for a tracking issue: numbers, a task for each project with changes, questions, failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from perfmod.migrate.report.summary import (
    CauseCount,
    Question,
    Totals,
    counts_words,
    made_branches,
    patches,
    questions_of,
    retry_command,
    rewrites_by_rule,
    totals,
    verified_words,
)
from perfmod.migrate.results import Outcome
from perfmod.migrate.rows import CampaignRow, ProjectRow
from perfmod.report.markdown import code_span, prose
from perfmod.report.wording import counted
from perfmod.roots import shown

MOST: Final = 65_536
"""Characters of an issue's text on GitHub."""
_FOR_LISTS: Final = (0.7, 1.0)
"""Shares of the room that is left by then which tasks, and then questions, may take."""
_MOST_EXAMPLE: Final = 300


def markdown(campaign: CampaignRow) -> str:
    """At most `MOST` characters; where a list is cut, it ends with how many it leaves out."""
    sums = totals(campaign)
    changed = [project for project in campaign.projects if project.outcome is Outcome.CHANGED]
    questions = [question for project in campaign.projects for question in questions_of(project)]
    head = "\n\n".join(_head(campaign, sums))
    causes = _section("Failures and what was left out", [_cause(count, campaign.name) for count in sums.causes])
    lists = [
        ("Projects with changes", [_task(project) for project in changed]),
        ("Questions for a person", [_question(question) for question in questions]),
    ]
    # The numbers and causes are few: the lists get what they leave.
    room = MOST - _length(head) - _length(causes) - 3 * len("\n\n") - 1
    shown_lists = []
    for (title, lines), share in zip(lists, _FOR_LISTS, strict=True):
        text = _section(title, _fitting(lines, int(room * share) - _length(f"## {title}\n\n")))
        room -= _length(text)
        shown_lists.append(text)
    return "\n\n".join(filter(None, (head, *shown_lists, causes))) + "\n"


def _head(campaign: CampaignRow, sums: Totals) -> Iterator[str]:
    mode = "" if campaign.writes else ", dry run"
    yield f"# perfmod: {prose(shown(campaign.name))}"
    yield f"perfmod {prose(campaign.perfmod)}, started {prose(campaign.created)}{mode}."
    if campaign.stopped:
        yield f"**Stopped:** {prose(shown(campaign.stopped))}"
    facts = [
        ("projects", sums.projects, counts_words(sums.outcomes)),
        ("files", sum(sums.files.values()), counts_words(sums.files)),
        ("rewrites", sums.rewrites, f"{sums.decided:,} of {sums.of:,} decided in reviews" if sums.of else ""),
        ("patches", sums.patches, f"{sums.added:,} lines added, {sums.removed:,} removed" if sums.patches else ""),
        ("branches", sums.branches, f"{sums.waiting:,} held back" if sums.waiting else ""),
        ("scripts verified", sum(sums.verdicts.values()), counts_words(sums.verdicts)),
    ]
    rows = [f"| {name} | {number:,} | {prose(words)} |" for name, number, words in facts]
    yield "\n".join(["| | | |", "| --- | --: | --- |", *rows])
    if sums.rules:
        rows = [f"| {code} | {rewrites:,} | {projects:,} |" for code, (rewrites, projects) in sums.rules.items()]
        yield "\n".join(["| rule | rewrites | projects |", "| --- | --: | --: |", *rows])


def _task(project: ProjectRow) -> str:
    made = [code_span(shown(branch)) for branch in made_branches(project)]
    parts = [
        counted(sum(rewrites_by_rule(project).values()), "rewrite"),
        counted(patches(project), "patch", "patches"),
        f"{'branch' if len(made) == 1 else 'branches'} {', '.join(made)}" if made else "no branch",
        prose(verified_words(project)) if project.verdicts else "not verified",
    ]
    return f"- [ ] {prose(shown(project.name))}: {', '.join(parts)}"


def _question(question: Question) -> str:
    place = f" {code_span(shown(question.place))}" if question.place else ""
    code = f" {question.code}" if question.code else ""
    return f"- {prose(shown(question.project))}{place}{code}: {_told(question.text)}"


def _cause(count: CauseCount, campaign: str) -> str:
    name = count.cause.value or "other"
    example = f": {_told(count.example)}" if count.example else ""
    again = f" ({code_span(retry_command(count.cause, campaign))})" if count.outcome is Outcome.FAILED else ""
    return f"- {count.outcome.value}, {name}, {counted(count.projects, 'project')}{again}{example}"


def _told(text: str) -> str:
    """What a project made somebody say: one line, not too long."""
    line = shown(" ".join(text.split()))
    return prose(line if len(line) <= _MOST_EXAMPLE else f"{line[:_MOST_EXAMPLE]}…")


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *lines]) if lines else ""


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for; the last one tells of the others."""
    out: list[str] = []
    for number, line in enumerate(lines):
        rest = len(lines) - number - 1
        note = f"- and {rest + 1:,} more, see report.html"
        # Room is kept for the note as long as lines follow.
        if _length(line) + 1 + (_length(note) + 1 if rest else 0) > room:
            return [*out, note]
        out.append(line)
        room -= _length(line) + 1
    return out


def _length(text: str) -> int:
    """In the units of UTF-16, in which browsers and their servers count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
