"""The rows as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from perfmod.codemods.engine import Outcome
from perfmod.journal import Reverted
from perfmod.report.reasons import ReasonRow
from perfmod.report.rows import FindingRow, Report, State
from perfmod.roots import shown
from perfmod.transforms.rule import Family

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    State.REWRITTEN: "green",
    State.HELD_BACK: "yellow",
    State.REFUSED: "magenta",
    State.ADVICE: "blue",
    State.SUPPRESSED: "dim",
}


def render_findings(report: Report, console: Console, *, everything: bool = False) -> None:
    """Two lines per finding: where, rule, what; what became of it, why.

    Suppressed ones are only counted, unless `everything` is wanted.
    """
    for row in report.findings:
        if everything or row.state is not State.SUPPRESSED:
            _print(
                console,
                (row.place, "bold"),
                ": ",
                (row.code, "bold cyan"),
                f" {row.name} [{row.numerics}] {row.message}",
            )
            _print(
                console,
                "    ",
                (_became(row, report), _STYLES[row.state]),
                f": {row.reason}{_figures(row)}{_along(row)}{_caveat(row)}",
            )


def render_reasons(reasons: Sequence[ReasonRow], console: Console) -> None:
    """One line for each kind of reason: how many, what became of them, rule, reason."""
    width = len(str(max((row.count for row in reasons), default=0)))
    for row in reasons:
        became = row.state.value.replace("-", " ")
        _print(
            console,
            (f"{row.count:>{width}} ", "bold"),
            (became, _STYLES[row.state]),
            " ",
            (row.code, "bold cyan"),
            f" {row.name}: {row.reason}",
        )


def render_summary(report: Report, console: Console) -> None:
    """The files that were not done, how to get what is held back, and the numbers, which add up."""
    for file in report.files:
        for warning in file.warnings:
            _print(console, (file.path, "bold"), ": ", ("warning", "yellow"), f": {warning}")
        if file.outcome in (Outcome.FAILED, Outcome.SKIPPED):
            style = "red" if file.outcome is Outcome.FAILED else "yellow"
            _print(console, (file.path, "bold"), ": ", (file.outcome.value, style), f": {file.reason}")
    for flag, number in report.flags().items():
        _print(console, (f"{number} held back", "yellow"), f"; {flag} applies {_them(number)}")
    files = report.count_files()
    changed = files.pop(Outcome.CHANGED.value)
    numbers = [f"{changed} {'changed' if report.wrote else 'would change'}"]
    numbers += [f"{number} {outcome}" for outcome, number in files.items()]
    _print(console, (f"{_counted(len(report.files), 'file')}: ", "bold"), ", ".join(numbers))
    findings = [f"{number} {state.replace('-', ' ')}" for state, number in report.count_findings().items()]
    _print(console, (f"{_counted(len(report.findings), 'finding')}: ", "bold"), ", ".join(findings))


def render_reverted(reverted: Reverted, cwd: Path, console: Console) -> None:
    """What `revert` did with every file, and the numbers."""
    for path in reverted.restored:
        _print(console, (_from(cwd, path), "bold"), ": ", ("restored", "green"))
    for path in reverted.untouched:
        _print(console, (_from(cwd, path), "bold"), ": already as it was before")
    for path, reason in reverted.refused:
        _print(console, (_from(cwd, path), "bold"), ": ", ("not restored", "red"), f": {reason}")
    numbers = f"{len(reverted.restored)} restored, {len(reverted.untouched)} already as before"
    total = len(reverted.restored) + len(reverted.untouched) + len(reverted.refused)
    _print(console, (f"{_counted(total, 'file')}: ", "bold"), f"{numbers}, {len(reverted.refused)} not restored")


def _from(cwd: Path, path: Path) -> str:
    return shown(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def _became(row: FindingRow, report: Report) -> str:
    if row.state is State.REWRITTEN:
        return "rewritten" if report.wrote else "rewrite"
    if row.state is State.HELD_BACK:
        return f"held back, {row.safety.value} ({row.flag})"
    return str(row.state.value)


def _caveat(row: FindingRow) -> str:
    """A synchronisation costs only where a step runs it; a loader is built outside of the step anyway."""
    unseen = row.family is Family.SYNCS and not row.step_in_sight
    return " (no training step in sight)" if unseen else ""


def _figures(row: FindingRow) -> str:
    """What a rewrite leaves as it was but for a rounding: never the training."""
    return "; shown figures may differ in the last digits" if row.figures_may_differ else ""


def _along(row: FindingRow) -> str:
    """The other files that are rewritten, or would be."""
    return f" (with {' and '.join(row.elsewhere)})" if row.elsewhere else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _print(console: Console, *parts: str | tuple[str, str]) -> None:
    console.print(Text.assemble(*parts), soft_wrap=True, highlight=False)
