"""The record as Markdown for a pull request: the verdict and what it rests on, the rest folded away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perfmod.verify.evidence import Check, Evidence, RuleRow, Verdict
from perfmod.verify.report import summary, wording

_SIGNS = {
    Verdict.PROVEN: "\N{WHITE HEAVY CHECK MARK}",
    Verdict.NO_CHANGE: "\N{HEAVY MINUS SIGN}",
    Verdict.REFUTED: "\N{CROSS MARK}",
    Verdict.INCONCLUSIVE: "\N{BLACK QUESTION MARK ORNAMENT}",
    Verdict.FAILED: "\N{CROSS MARK}",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_MOST_LINES = 20
"""Of waiting lines and of places of a rule that are listed."""
_LONGEST_CODE = 80
_LONGEST_DIFF = 20_000
"""Characters; a comment on a pull request holds 65,536."""
_HEADING_RULES = ("rule", "training", "speed", "95 % interval", "syncs gone", "where", "outcome")
_HEADING_FINDINGS = ("finding", "where", "outcome", "reason, or what was observed")
_HEADING_CHECKS = ("compared", "verdict", "apart", "allowed", "noise (A/A)", "one-ulp control", "remark")
_HEADING_SYNCS = ("line", "syncs per step", "waited per step", "became", "code")


def render(evidence: Evidence) -> str:
    """The text, ending in a newline."""
    parts = [
        f"### {_SIGNS[evidence.verdict]} perfmod verify: {evidence.verdict.value}",
        f"**{escaped(evidence.reason)}**",
        "\n".join(_outcome(evidence)),
        *(f"> **Warning:** {escaped(warning)}" for warning in evidence.warnings),
    ]
    if evidence.rules:
        parts.append(_table(_HEADING_RULES, map(_rule, evidence.rules), "lllrrll"))
    parts += [
        *_folded("Findings", _findings(evidence)),
        *_folded("Synchronisations by line", _syncs(evidence)),
        *_folded("Checks", _checks(evidence)),
        *_folded("Memory", _memory(evidence)),
        *_folded("Environment", _table(("", ""), (map(escaped, row) for row in summary.environment(evidence)))),
        *_folded("Diff", _fenced(_cut(evidence.diff, _LONGEST_DIFF), "diff") if evidence.diff else ""),
        f"Reproduce:\n\n{_fenced(evidence.command, 'console')}",
    ]
    return wording.visible("\n\n".join(parts), keep="\n\t") + "\n"


def _outcome(evidence: Evidence) -> Iterator[str]:
    equality, speed = evidence.equality, evidence.speed
    amounts = f" ({escaped(equality.numerics)}; {summary.compared(equality)})" if equality.steps else ""
    judged = f"{escaped(equality.reason)}{amounts}"
    yield f"- **Training:** {equality.verdict.value}: {judged}"
    if equality.short_horizon:
        yield "  (this class of numerics changes results; judged over these few steps only)"
    if speed is None:
        yield f"- **Speed:** {summary.not_timed(evidence)}"
    else:
        figures = ""
        if summary.was_timed(speed):
            times = wording.from_to(speed.original_ms, speed.rewritten_ms, "ms per step")
            interval = f"95 % interval {wording.interval(speed.low, speed.high)}, noise {summary.noise(speed)}"
            figures = wording.typeset(f" **{wording.ratio(speed.ratio)}** ({interval}), {times};")
        yield f"- **Speed:** {speed.verdict.value}:{figures} {escaped(speed.reason)}"
        if speed.suspicious:
            yield f"- **Suspiciously fast:** {escaped(speed.suspicious)}"
    counts = summary.sync_counts(evidence.why)
    if counts is not None:
        before, after = map(wording.per_step, counts)
        yield f"- **Implicit synchronisations per step:** {before} \N{RIGHTWARDS ARROW} {after}"


def _rule(row: RuleRow) -> list[str]:
    speed = "" if row.ratio is None else wording.typeset(wording.ratio(row.ratio))
    interval = "" if row.low is None or row.high is None else wording.interval(row.low, row.high)
    gone = "" if row.syncs_removed is None else wording.per_step(row.syncs_removed)
    more = f" and {len(row.lines) - 3} more" if len(row.lines) > 3 else ""
    where = ", ".join(map(code, row.lines[:3])) + more
    outcome = "withdrawn" if row.withdrawn else "kept"
    reason = f": {escaped(row.reason)}" if row.reason else ""
    return [f"{row.code} {row.name}", row.equality.value, speed, interval, gone, where, outcome + reason]


def _findings(evidence: Evidence) -> str:
    cells = (
        [f"{row.code} {row.name}", code(row.place), row.outcome, escaped(row.reason or "; ".join(row.observed))]
        for row in evidence.findings
    )
    return _table(_HEADING_FINDINGS, cells) if evidence.findings else ""


def _syncs(evidence: Evidence) -> str:
    rows = summary.costly(evidence.why.syncs) if evidence.why else []
    if not rows:
        return ""
    cells = (
        [
            code(f"{row.path}:{row.line}"),
            wording.typeset(f"{wording.per_step(row.before)} -> {wording.per_step(row.after)}"),
            wording.typeset(wording.from_to(row.before_ms, row.after_ms, "ms")),
            escaped(" ".join([*row.rules, row.status])),
            code(_cut(row.code, _LONGEST_CODE)),
        ]
        for row in rows[:_MOST_LINES]
    )
    table = _table(_HEADING_SYNCS, cells, "lrrll")
    return f"{table}\n\nand {len(rows) - _MOST_LINES} more" if len(rows) > _MOST_LINES else table


def _checks(evidence: Evidence) -> str:
    checks = evidence.equality.checks
    return _table(_HEADING_CHECKS, map(_check, checks), "llrrrrl") if checks else ""


def _check(check: Check) -> list[str]:
    figures = (check.measured, check.allowed, check.noise, check.control)
    shown = ["" if value is None else wording.difference(value) for value in figures]
    return [escaped(check.name), check.verdict.value, *shown, escaped(check.reason)]


def _memory(evidence: Evidence) -> str:
    rows = [
        [row.kind, *("" if value is None else wording.mebibytes(value) for value in (row.original, row.rewritten))]
        for row in summary.memory(evidence.speed)
    ]
    return _table(("peak", "original", "rewritten"), rows, "lrr") if rows else ""


def escaped(text: str) -> str:
    """Text that reads as it is, in one line, in the cell of a table too."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Text as code, in one line. A bar ends a cell even in code, unless it is escaped."""
    line = " ".join(text.split()).replace("|", r"\|")
    ticks = "`" * (_longest_run(line) + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{room}{line}{room}{ticks}" if line else ""


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _table(headings: Sequence[str], rows: Iterable[Iterable[str]], alignment: str = "") -> str:
    marks = ["--:" if letter == "r" else "---" for letter in alignment.ljust(len(headings), "l")]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, marks, *rows))


def _folded(title: str, body: str) -> list[str]:
    return [f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"] if body else []
