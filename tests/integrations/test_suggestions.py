"""A suggestion, once committed, is what the rewrite writes."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.github.suggestions import suggestion
from perfmod.report.rows import State, finding_row

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FOLDERS = ("grad-in-evaluation", "masked-loss", "pageable-transfer", "scalar-accumulation", "two-step-losses")


@pytest.mark.parametrize("rule_name", FOLDERS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_goldens(rule_name: str, line_end: str) -> None:
    (rule,) = catalog.select(catalog.rules(), [rule_name], [])
    choice = Choice(opted_in=frozenset([rule.code]), low_impact=True)
    compared = 0
    for file in sorted(GOLDEN.joinpath(rule_name).glob("*.in.py"))[:6]:
        before = file.read_text("utf-8").replace("\n", line_end)
        result = rewrite(before.encode(), file.name, [rule], choice)
        if len(result.applied) != 1:
            continue
        offered = suggestion(finding_row(file.name, result.applied[0], rule.card, State.REWRITTEN), before)
        if offered is None:
            continue
        lines = list(StringIO(before, newline="\n"))
        lines[offered.first - 1 : offered.last] = [offered.text.replace("\n", line_end)]
        assert "".join(lines) == result.after.decode(), file.name
        compared += 1
    assert compared
