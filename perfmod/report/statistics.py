"""How many findings each rule has, by what became of them."""

from __future__ import annotations

from collections import Counter

from attrs import frozen

from perfmod.report.rows import Report, State


@frozen
class StatisticRow:
    """How many findings of one rule have the same outcome."""

    code: str
    name: str
    state: State
    count: int


def statistic_rows(report: Report) -> tuple[StatisticRow, ...]:
    """One row for each rule and outcome that occurs, by rule, then by outcome, the strongest first."""
    counts = Counter((row.code, row.name, row.state) for row in report.findings)
    states = list(State)
    rows = (StatisticRow(*key, count) for key, count in counts.items())
    return tuple(sorted(rows, key=lambda row: (row.code, states.index(row.state))))
