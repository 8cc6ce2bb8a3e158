"""Neighbouring findings of one rule, which are shown and decided together until somebody splits them."""

from __future__ import annotations

from collections.abc import Iterable

from perfmod.review.items import Hunk, Item

Group = tuple[Item, ...]


def grouped(items: Iterable[Item]) -> list[Group]:
    """The items in their order; those of one rule and one scope in one group where their hunks meet."""
    groups: list[list[Item]] = []
    for item in items:
        if groups and _belongs(item, groups[-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [tuple(group) for group in groups]


def _belongs(item: Item, group: list[Item]) -> bool:
    last = group[-1]
    alike = _kind(item) == _kind(last) and not (item.builds_on or last.builds_on)
    return alike and any(
        one.path == other.path and one.cell == other.cell and _meet(first, second)
        for one in item.diffs
        for other in last.diffs
        for first in one.hunks
        for second in other.hunks
        if _has_scope(first, item) and _has_scope(second, last)
    )


def _kind(item: Item) -> tuple[object, ...]:
    finding = item.finding
    return finding.code, finding.path, finding.cell, finding.scope, finding.numerics, finding.state, item.verdict


def _has_scope(hunk: Hunk, item: Item) -> bool:
    """Whether a hunk is about the finding's own code, not about an import that it needs."""
    length = sum(line.sign != "+" for line in hunk.lines)
    return hunk.old_start <= item.finding.line <= hunk.old_start + length


def _meet(one: Hunk, other: Hunk) -> bool:
    ends = [hunk.old_start + sum(line.sign != "+" for line in hunk.lines) for hunk in (one, other)]
    return one.old_start < ends[1] and other.old_start < ends[0]
