"""Which reports of a step stand together, so that their figures can come over in one transfer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._report_figures import Figure


def groups(
    file: FileFacts, reports: Mapping[cst.BaseSmallStatement, Sequence[Figure]]
) -> Iterator[list[cst.BaseSmallStatement]]:
    """Reports that follow each other in one block, with nothing between them that matters to their figures."""
    figures = [figure.tensor for found in reports.values() for figure in found]
    read = {name.value for tensor in figures for name in find_all(tensor, cst.Name)}
    group: list[cst.BaseSmallStatement] = []
    for statement in reports:
        if group and not _is_next(file, group[-1], statement, read):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def _is_next(file: FileFacts, earlier: cst.BaseSmallStatement, later: cst.BaseSmallStatement, read: set[str]) -> bool:
    first, second = file.tree.parent(earlier), file.tree.parent(later)
    if not (isinstance(first, cst.SimpleStatementLine) and isinstance(second, cst.SimpleStatementLine)):
        return False
    if len(first.body) > 1 or len(second.body) > 1:
        return False
    block = file.tree.block(first)
    if second not in block:
        return False
    between = block[block.index(first) + 1 : block.index(second)]
    return all(_is_quiet(file, line, read) for line in between)


def _is_quiet(file: FileFacts, line: cst.BaseStatement, read: set[str]) -> bool:
    """Whether a statement between reports only prints text, or counts: `step = epoch * len(loader) + i`."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    (statement,) = line.body
    calls = find_all(statement, cst.Call)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        counts = isinstance(target, cst.Name) and target.value not in read
        harmless = all(file.qualified(call) == "builtins.len" for call in calls)
        return counts and harmless and file.value(statement.value).kind is Kind.NUMBER
    return (
        isinstance(statement, cst.Expr)
        and isinstance(statement.value, cst.Call)
        and file.qualified(statement.value) == "builtins.print"
        and not any(call is not statement.value for call in calls)
    )
