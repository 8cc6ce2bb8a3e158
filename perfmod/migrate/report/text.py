"""`perfmod migrate status`: a campaign for a terminal, 80 columns wide or more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from perfmod.migrate.report.summary import (
    OUTCOMES,
    CauseCount,
    Totals,
    counts_words,
    made_branches,
    needs_attention,
    notes_of,
    outcome_of,
    reason_of,
    retry_command,
    size_words,
    totals,
    verified_words,
)
from perfmod.migrate.results import Outcome
from perfmod.migrate.rows import CampaignRow, ProjectRow
from perfmod.report.wording import counted
from perfmod.roots import shown

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: Final = {
    Outcome.CHANGED.value: "green",
    Outcome.FAILED.value: "red",
    Outcome.NEEDS_A_PERSON.value: "yellow",
}
_INDENT = "  "
_MOST_RULES = 8
_UNLISTED = 2
"""Rank of the projects that are only counted unless everything is asked for."""
_BESIDE_THE_NAME = 46
"""Columns that outcome and size need."""


def render_status(
    campaign: CampaignRow, console: Console, *, folder: str = "", everything: bool = False, limit: int = 50
) -> None:
    """Print what has become of a campaign: numbers, failures with what retries them, then project by project.

    Listed are at first the projects that somebody has to look at, then those that are changed.

    `folder` is the campaign's folder as it may be typed; its name where that is empty. Of those projects, `limit` are
    listed; with `everything` all are, unchanged, skipped and waiting ones as well.
    """
    ranked = [(_rank(project), project) for project in campaign.projects]
    listed = sorted((each for each in ranked if everything or each[0] < _UNLISTED), key=lambda each: each[0])
    cut = [project for _, project in (listed if everything else listed[:limit])]
    sums = totals(campaign)
    _print_head(campaign, console)
    for name, number, more in _facts(sums):
        _print_wrapped(console, Text(f"{name:<10}", "dim"), f"{number}: {more}" if more else number)
    for text in _causes(sums.causes, folder or campaign.name):
        _print(console, text)
    _print(console, Text(""))
    width = max((cell_len(shown(project.name)) for project in cut), default=0)
    if console.is_terminal:
        width = min(width, max(console.width - _BESIDE_THE_NAME, 16))
    for project in cut:
        _print_project(project, console, width)
    if not everything:
        unlisted = [project for rank, project in ranked if rank == _UNLISTED]
        for text in _rest(len(listed) - len(cut), unlisted):
            _print(console, text)


def _print(console: Console, text: Text) -> None:
    """A line of its own; a terminal cuts one that is too long, anything else gets it whole."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", highlight=False)
    else:
        console.print(text, soft_wrap=True, highlight=False)


def _print_wrapped(console: Console, label: Text, text: str) -> None:
    """A label and what belongs to it, in a column beside it where a terminal needs several lines."""
    if console.is_terminal:
        row = Table.grid()
        row.add_column(no_wrap=True)
        row.add_column()
        row.add_row(label, Text(text))
        console.print(row, highlight=False)
    else:
        console.print(Text.assemble(label, text), soft_wrap=True, highlight=False)


def _print_head(campaign: CampaignRow, console: Console) -> None:
    mode = "makes branches" if campaign.writes else "dry run: patches only"
    _print(console, Text.assemble((shown(campaign.name), "bold"), f" ({mode}, perfmod {campaign.perfmod})"))
    if campaign.stopped:
        _print_wrapped(console, Text("stopped   ", "bold red"), shown(campaign.stopped))


def _facts(sums: Totals) -> Iterator[tuple[str, str, str]]:
    """What is counted, how many there are, and of what sorts."""
    yield "projects", f"{sums.projects:,}", counts_words(sums.outcomes)
    yield "files", f"{sum(sums.files.values()):,}", counts_words(sums.files)
    if sums.rewrites:
        yield "rewrites", f"{sums.rewrites:,}", _rules(sums)
    if sums.of:
        yield "reviewed", f"{sums.decided:,} of {sums.of:,}", ""
    if sums.branches or sums.waiting:
        held = f"{sums.waiting:,} held back until others are closed" if sums.waiting else ""
        yield "branches", f"{sums.branches:,}", held
    if sums.verdicts:
        yield "verdicts", f"{sum(sums.verdicts.values()):,}", counts_words(sums.verdicts)
    if sums.questions:
        yield "questions", f"{sums.questions:,}", "see report.html"


def _rules(sums: Totals) -> str:
    """The most frequent ones, as a line has no room for all."""
    ordered = sorted(sums.rules.items(), key=lambda rule: (-rule[1][0], rule[0]))
    words = [f"{code} {number:,}" for code, (number, _) in ordered[:_MOST_RULES]]
    left = len(ordered) - _MOST_RULES
    return ", ".join([*words, *([f"{counted(left, 'rule')} more"] if left > 0 else [])])


def _causes(causes: tuple[CauseCount, ...], folder: str) -> Iterator[Text]:
    failed = [count for count in causes if count.outcome is Outcome.FAILED]
    if failed:
        yield Text("")
        yield Text("Failures by cause", "bold")
        for count in failed:
            command = retry_command(count.cause, folder)
            yield Text.assemble(
                _INDENT, (f"{count.cause.value or 'other':<15}", "red"), f"{count.projects:>5,}  ", shown(command)
            )
    for outcome in (Outcome.NEEDS_A_PERSON, Outcome.SKIPPED):
        counts = {count.cause.value or "other": count.projects for count in causes if count.outcome is outcome}
        if counts:
            yield Text("")
            yield Text.assemble((outcome.value.capitalize(), "bold"), f": {counts_words(counts)}")


def _print_project(project: ProjectRow, console: Console, width: int) -> None:
    """A line with what it comes to, and lines below with what there is to say."""
    outcome = outcome_of(project)
    name = Text(shown(project.name), "bold")
    name.truncate(width, overflow="ellipsis", pad=True)
    line = Text.assemble(name, "  ", (f"{outcome:<14}", _STYLES.get(outcome, "")), "  ", size_words(project))
    line.rstrip()
    _print(console, line)
    parts = [*_checked(project), *_branches(project)]
    if parts:
        _print_wrapped(console, Text(_INDENT), "; ".join(parts))
    reason = reason_of(project)
    if reason:
        _print(console, Text(_INDENT + shown(reason), "red" if needs_attention(project) else "dim"))
    for note in notes_of(project):
        _print(console, Text(_INDENT + shown(note), "dim"))


def _checked(project: ProjectRow) -> Iterator[str]:
    if project.analysis is not None and project.analysis.of:
        yield f"reviewed {project.analysis.decided} of {project.analysis.of}"
    if project.verdicts:
        yield f"verified: {verified_words(project)}"
    elif project.outcome is Outcome.CHANGED:
        yield "not verified"


def _branches(project: ProjectRow) -> Iterator[str]:
    made = made_branches(project)
    if made:
        yield f"{'branch' if len(made) == 1 else 'branches'} {', '.join(map(shown, made))}"
    lacking = [branch.name for branch in project.branches if not branch.tip]
    if lacking:
        yield f"not made: {', '.join(map(shown, lacking))}"
    if project.waiting:
        yield f"held back: {', '.join(map(shown, project.waiting))}"


def _rank(project: ProjectRow) -> int:
    """Attention first, then what is changed."""
    if needs_attention(project):
        return 0
    return 1 if project.outcome is Outcome.CHANGED else _UNLISTED


def _rest(cut: int, unlisted: Sequence[ProjectRow]) -> Iterator[Text]:
    """What is not listed."""
    counts = Counter(map(outcome_of, unlisted))
    words = [counts_words({name: counts[name] for name in OUTCOMES if counts[name]})] if unlisted else []
    if cut:
        words.insert(0, f"{cut:,} more of these")
    if words:
        yield Text("")
        yield Text(f"Not listed: {', '.join(words)}; --all lists them.", "dim")
