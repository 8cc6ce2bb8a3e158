"""The rows as lines for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from perfmod.codemods.results import FileResult, Outcome
from perfmod.report.reasons import ReasonRow
from perfmod.report.rows import UNLISTED, FileRow, FindingRow, Report, State
from perfmod.report.statistics import StatisticRow
from perfmod.report.wording import along, because, counted
from perfmod.review.items import Verdict
from perfmod.roots import shown

if TYPE_CHECKING:
    from rich.console import Console

    from perfmod.journal import Reverted
    from perfmod.review.decisions import Decision

_STYLES = {
    State.REWRITTEN: "green",
    State.LOW_IMPACT: "yellow",
    State.QUESTION: "yellow",
    State.ON_REQUEST: "yellow",
    State.ADVICE: "blue",
    State.UNDECIDED: "yellow",
    State.REJECTED: "dim",
    State.LEFT: "dim",
    State.SUPPRESSED: "dim",
}
_ANSWERS = {
    State.QUESTION: ("open question", "answers {} with yes"),
    State.LOW_IMPACT: ("low impact", "applies {}"),
    State.ON_REQUEST: ("on request", "applies {}"),
}
"""How rewrites are called that an option applies, and what the command with that option does with them."""


def render_findings(
    rows: Iterable[FindingRow], console: Console, *, verbose: bool = False, everything: bool = False
) -> None:
    """A line for each rewrite: where, which rule, what is wrong there.

    With `verbose` also for what an option would rewrite and for advice, each with a second line that says what became
    of it and why; for what is left as it is, or silenced, only if `everything` is wanted.
    """
    for row in rows:
        if row.state is State.REWRITTEN or (verbose and row.state not in UNLISTED) or everything:
            others = "" if verbose else along(row)
            _print(console, (row.place, "bold"), ": ", (row.code, "bold cyan"), f" {row.name}: {row.message}{others}")
            if verbose or everything:
                _print(console, (row.state.words, _STYLES[row.state]), because(row), indent=4)


def render_reasons(reasons: Sequence[ReasonRow], console: Console) -> None:
    """One line for each kind of reason: how many, what became of them, rule, reason."""
    width = len(str(max((row.count for row in reasons), default=0)))
    for row in reasons:
        _print(
            console,
            (f"{row.count:>{width}} ", "bold"),
            (row.state.words, _STYLES[row.state]),
            " ",
            (row.code, "bold cyan"),
            f" {row.name}: {row.reason}",
        )


def render_statistics(statistics: Sequence[StatisticRow], console: Console) -> None:
    """One line for each rule and what became of its findings: how many, the outcome, the rule; in columns."""
    width = len(str(max((row.count for row in statistics), default=0)))
    words = max((len(row.state.words) for row in statistics), default=0)
    for row in statistics:
        _print(
            console,
            (f"{row.count:>{width}} ", "bold"),
            (f"{row.state.words:<{words}} ", _STYLES[row.state]),
            (row.code, "bold cyan"),
            f" {row.name}",
        )


def render_troubles(files: Iterable[FileRow | FileResult], console: Console) -> None:
    """One line for each file that could not be analysed, with the reason."""
    for file in files:
        if file.outcome in (Outcome.FAILED, Outcome.SKIPPED):
            style = "red" if file.outcome is Outcome.FAILED else "yellow"
            _print(console, (file.path, "bold"), ": ", (file.outcome.value, style), f": {file.reason}")


def render_summary(
    report: Report, console: Console, *, command: str, verbose: bool = False, everything: bool = False
) -> None:
    """What there is to know besides the rewrites: which others there are and how to get them, and what was not done.

    `command` is the `perfmod apply` that makes the rewrites; options are added to it. Files that failed, which are
    told one by one, are not counted among those without rewrites.
    """
    for file in report.files:
        for warning in file.warnings:
            _print(console, (file.path, "bold"), ": ", ("warning", "yellow"), f": {warning}")
    render_troubles(report.files, console)
    findings, files = report.count_findings(), report.count_files()
    rewrites, total = findings[State.REWRITTEN.value], len(report.files)
    troubles = [each for each in (Outcome.FAILED, Outcome.SKIPPED) if files[each.value]]
    examined = total - sum(files[each.value] for each in troubles)
    if rewrites:
        number = f"{counted(rewrites, 'rewrite')}{' made' if report.wrote else ''}"
        done = (f"{number} in {files[Outcome.CHANGED.value]} of {counted(total, 'file')}", "bold")
        if report.command == "check":
            makes = f"; `{command}` makes {'it' if rewrites == 1 else 'them'}"
            _print(console, done, makes, is_wrapped=False)
        else:
            _print(console, done, "" if report.wrote else "; nothing was written")
    elif examined or not total:
        _print(console, (f"nothing to rewrite in {counted(examined, 'file')}", "bold"))
    listed = 0
    for state, (noun, answer) in _ANSWERS.items():
        for flag, count in report.flags(state).items():
            called = counted(count, noun) if state is State.QUESTION else f"{count} {noun}"
            does = answer.format("it" if count == 1 else "them")
            _print(console, (called, _STYLES[state]), f": `{_with(command, flag)}` {does}", is_wrapped=False)
            listed += count
    advice = findings[State.ADVICE.value]
    if advice:
        _print(console, (f"{counted(advice, 'piece')} of advice", _STYLES[State.ADVICE]))
    if listed + advice and not verbose:
        _print(console, f"-v shows {'it' if listed + advice == 1 else 'them'}, and says why")
    for state in (State.UNDECIDED, State.REJECTED):
        if findings[state.value]:
            _print(console, f"{findings[state.value]} {state.words} in the review")
    left = findings[State.LEFT.value]
    if left and (everything or verbose):
        asked = command.replace(" apply ", " check ", 1)
        how = "" if everything else f": `{asked} --explain-all` says why"
        _print(console, f"{left} left as {'it is' if left == 1 else 'they are'}{how}", is_wrapped=everything)
    if findings[State.SUPPRESSED.value]:
        _print(console, f"{findings[State.SUPPRESSED.value]} silenced by comments")
    apart = sum(file.in_part for file in report.files)
    if apart:
        why = "the files that belong together are too large to be read at once"
        told = f": {why}, so {'it' if apart == 1 else 'each'} was read with those next to it"
        _print(console, (f"{counted(apart, 'file')} analysed in part", "yellow"), told)
    if troubles:
        _print(console, ", ".join(f"{counted(files[each.value], 'file')} {each.value}" for each in troubles))


def _with(command: str, flag: str) -> str:
    """A command with what has to be added to it; what it says already, of a rule or otherwise, is not said again."""
    given = shlex.split(command)
    chosen = [codes for option, codes in pairwise(given) if option in ("--select", "--extend-select")]
    named = {code for codes in chosen for code in codes.split(",")}
    words: list[str] = []
    added = iter(shlex.split(flag))
    for word in added:
        if word == "--extend-select":
            code = next(added)
            words += [] if code in named else [word, code]
        elif word not in given:
            words.append(word)
    return shlex.join([*given, *words])


def render_notes(notes: Iterable[str], console: Console) -> None:
    """One line each, as it is: it may hold something to paste."""
    for note in notes:
        _print(console, note, is_wrapped=False)


def render_unfit(decisions: Sequence[Decision], console: Console) -> None:
    """One line for each decision whose finding is no longer there, or no longer told apart from others.

    What was accepted may have been written, and what is alike and still there is another.
    """
    for row in decisions:
        place = f"{row.rule} in {row.scope}" if row.scope else row.rule
        was_made = "; it was applied, or its code has changed" if row.verdict is Verdict.ACCEPTED else ""
        _print(
            console,
            (row.path, "bold"),
            ": ",
            ("no longer fits", "yellow"),
            f": the decision {row.verdict.value} about {place}: {row.code}{was_made}",
        )


def render_reverted(reverted: Reverted, cwd: Path, console: Console) -> None:
    """What `revert` did with every file, and the numbers."""
    for paths, done in ((reverted.restored, "restored"), (reverted.removed, "removed")):
        for path in paths:
            _print(console, (shown(relpath(path, cwd)), "bold"), ": ", (done, "green"))
    for path in reverted.untouched:
        _print(console, (shown(relpath(path, cwd)), "bold"), ": already as it was before")
    for path, reason in reverted.refused:
        _print(console, (shown(relpath(path, cwd)), "bold"), ": ", ("not restored", "red"), f": {reason}")
    counts = {
        "restored": len(reverted.restored),
        "removed": len(reverted.removed),
        "already as before": len(reverted.untouched),
        "not restored": len(reverted.refused),
    }
    numbers = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    _print(console, (f"{counted(sum(counts.values()), 'file')}: ", "bold"), numbers)


def _print(console: Console, *parts: str | tuple[str, str], indent: int = 0, is_wrapped: bool = True) -> None:
    """A line, as long as it is; on a terminal it is wrapped at its width, unless it holds something to paste."""
    text = Text.assemble(*parts)
    if console.is_terminal and is_wrapped:
        console.print(Padding(text, (0, 0, 0, indent), expand=False), highlight=False)
    else:
        console.print(" " * indent, text, sep="", soft_wrap=True, highlight=False)
