"""The record as lines for a terminal: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from perfmod.verify.evidence import Check, Equality, Evidence, FindingRow, RuleRow, Speed, Verdict, Why
from perfmod.verify.report import summary, wording

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    Verdict.PROVEN: "green",
    Verdict.NO_CHANGE: "blue",
    Verdict.REFUTED: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FAILED: "red",
}
_MOST_LINES = 12
"""Of waiting lines; the others are in the record."""
_LONGEST_CODE = 72


def render(evidence: Evidence, console: Console, folder: Path | None = None) -> None:
    """Print the outcome; `folder` is where the report lies, if one was written."""
    _print(console, _verdict(evidence.verdict, bold=True), f": {evidence.reason}")
    _equality(evidence.equality, console)
    if evidence.speed is None:
        _print(console, ("speed", "bold"), f": {summary.not_timed(evidence)}")
    else:
        _speed(evidence.speed, console)
    if evidence.why is not None:
        _waiting(evidence.why, console)
    if evidence.rules:
        _print(console, ("rules", "bold"), ", each on top of those above it")
        _columns(console, [_rule(row) for row in evidence.rules])
    if evidence.findings:
        _print(console, ("findings", "bold"), " that a run decided, or left open")
        _columns(console, [_finding(row) for row in evidence.findings])
    for change in evidence.stale:
        _print(console, ("stale", "yellow"), f": {change}")
    for warning in evidence.warnings:
        _print(console, ("warning", "yellow"), f": {warning}")
    _print(console, ("again", "bold"), f": {evidence.command}")
    if folder is not None:
        _print(console, ("report", "bold"), f": {folder / 'report.html'}")


def _equality(equality: Equality, console: Console) -> None:
    amounts = f" ({equality.numerics}; {summary.compared(equality)})" if equality.steps else ""
    _print(console, ("training", "bold"), ": ", _verdict(equality.verdict), f": {equality.reason}{amounts}")
    if equality.short_horizon:
        _print(console, "  only these few steps were compared: this class of rewrites changes results")
    _columns(console, [_check(check) for check in summary.telling(equality.checks)])
    held = sum(check.verdict is Verdict.PROVEN for check in equality.checks)
    if equality.checks:
        _print(console, f"  {held} of {wording.counted(len(equality.checks), 'check')} held")


def _check(check: Check) -> list[Text]:
    allowed = "" if not check.allowed else f"{wording.difference(check.allowed)} allowed"
    noise = "" if not check.noise else f"noise {wording.difference(check.noise)}"
    return [
        _cell(check.name),
        _cell(summary.found(check), _STYLES[check.verdict]),
        *map(_cell, (allowed, noise, check.reason)),
    ]


def _speed(speed: Speed, console: Console) -> None:
    _print(console, ("speed", "bold"), ": ", _verdict(speed.verdict), f": {speed.reason}")
    if summary.was_timed(speed):
        times = wording.from_to(speed.original_ms, speed.rewritten_ms, "ms per step")
        figures = f"{wording.interval(speed.low, speed.high)}; noise {summary.noise(speed)}; {times}"
        _print(console, "  ", (wording.ratio(speed.ratio), "bold"), f", 95 % interval {figures}")
    if speed.break_even_step is not None:
        earned = wording.counted(speed.break_even_step, "step")
        _print(console, f"  its start is slower, which pays off after {earned}")
    if speed.suspicious:
        _print(console, "  ", ("suspiciously fast", "yellow"), f": {speed.suspicious}")


def _waiting(why: Why, console: Console) -> None:
    counts = summary.sync_counts(why)
    if counts is None:
        return
    before, after = map(wording.per_step, counts)
    _print(console, ("implicit synchronisations per step", "bold"), f": {before} -> {after}")
    rows = summary.costly(why.syncs)
    lines = []
    for row in rows[:_MOST_LINES]:
        passes = f"{wording.per_step(row.before)} -> {wording.per_step(row.after)}"
        waited = wording.from_to(row.before_ms, row.after_ms, "ms")
        became = " ".join([*row.rules, row.status])
        lines.append([_cell(f"{row.path}:{row.line}", "bold"), *map(_cell, (passes, waited, became))])
    _columns(console, lines, [_cut(row.code) for row in rows[:_MOST_LINES]])
    if len(rows) > _MOST_LINES:
        _print(console, f"  and {wording.counted(len(rows) - _MOST_LINES, 'more line')}")


def _rule(row: RuleRow) -> list[Text]:
    speed = ""
    if row.ratio is not None:
        speed = wording.ratio(row.ratio)
        if row.low is not None and row.high is not None:
            speed += f" ({wording.interval(row.low, row.high)})"
    gone = "" if row.syncs_removed is None else f"{wording.counted(row.syncs_removed, 'sync')} gone"
    outcome = _cell("withdrawn", "yellow") if row.withdrawn else _cell("kept", "green")
    if row.reason:
        outcome.append_text(_cell(f": {row.reason}", ""))
    name = _cell(row.code, "bold cyan").append_text(_cell(f" {row.name}"))
    return [name, _cell(row.equality.value, _STYLES[row.equality]), *map(_cell, (speed, gone)), outcome]


def _finding(row: FindingRow) -> list[Text]:
    outcome = _cell(row.outcome, "green" if row.outcome == "kept" else "yellow")
    told = row.reason or f"observed {'; '.join(row.observed)}"
    return [_cell(f"{row.code} {row.name}"), _cell(row.place, "bold"), outcome.append_text(_cell(f": {told}", ""))]


def _cut(code: str) -> str:
    return code if len(code) <= _LONGEST_CODE else f"{code[: _LONGEST_CODE - 3].rstrip()}..."


def _verdict(verdict: Verdict, *, bold: bool = False) -> tuple[str, str]:
    return verdict.value, f"bold {_STYLES[verdict]}" if bold else _STYLES[verdict]


def _cell(text: str, style: str = "") -> Text:
    return Text(wording.visible(text), style=style)


def _columns(console: Console, rows: Sequence[Sequence[Text]], below: Sequence[str] = ()) -> None:
    """Rows under each other, aligned where the terminal is wide enough; `below` has a second line for every row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = not console.is_terminal or sum(width + 2 for width in widths if width) <= console.width
    for index, row in enumerate(rows):
        line = Text("  ")
        for cell, width in zip(row, widths, strict=True):
            if cell or (aligned and width):
                cell.pad_right((width - len(cell) if aligned else 0) + 2)
                line.append_text(cell)
        line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)
        if below:
            _print(console, f"      {below[index]}")


def _print(console: Console, *parts: str | tuple[str, str]) -> None:
    visible = (
        wording.visible(part) if isinstance(part, str) else (wording.visible(part[0]), part[1]) for part in parts
    )
    console.print(Text.assemble(*visible), soft_wrap=True, highlight=False)
