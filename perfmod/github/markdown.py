"""What goes into GitHub's Markdown: text that may hold anything, code, and the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from perfmod.github.findings import Found
from perfmod.report.rows import FindingRow

ROWS = 500
"""Findings in the summary of a job, whose size GitHub limits to 1 MiB."""


def escaped(text: str) -> str:
    """Text whose words stay words: no markup, mentions or cells; code in backticks stays code."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(code(part[1:-1]) if index % 2 else _plain(part) for index, part in enumerate(parts))


def code(text: str) -> str:
    """Code within a line, also within a table."""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", r"\|")


def block(language: str, text: str) -> str:
    """Lines of code; each ends in a newline."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}{fence}"


def title(row: FindingRow) -> str:
    """The rule of a finding, and what is wrong."""
    return f"**{row.code} {row.name}**: {escaped(row.message)}"


def summary(found: Sequence[Found], *, where: str, command: str, link: str) -> str:
    """All findings as a table.

    Args:
        found: the findings.
        where: in which lines they were looked for.
        command: what rewrites them.
        link: what a path and a line are added to for the address of that line; empty where there is none.
    """
    if not found:
        return f"### perfmod\n\nNothing to rewrite in {where}.\n"
    lines = ["### perfmod", "", f"{count(found)} in {where}; {code(command)} rewrites them.", ""]
    lines += ["| place | rule | what is slow |", "| --- | --- | --- |"]
    for each in found[:ROWS]:
        row = each.row
        place = code(row.place)
        if link and row.cell is None:
            place = f"[{place}]({link}/{quote(row.path)}#L{row.line})"
        lines.append(f"| {place} | {row.code} {row.name} | {escaped(row.message)} |")
    if len(found) > ROWS:
        lines += ["", f"And {len(found) - ROWS} more."]
    return "\n".join(lines) + "\n"


def count(found: Sequence[Found]) -> str:
    """How many there are, in words."""
    return f"{len(found)} place{'' if len(found) == 1 else 's'} that could be faster"


def _plain(text: str) -> str:
    return re.sub(r"[\\`*_{}\[\]<>#|~@&]", lambda match: f"&#{ord(match.group())};", text)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)
