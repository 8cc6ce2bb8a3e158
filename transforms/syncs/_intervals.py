"""Reports of every step that go under `if step % 10 == 0:`, where the project says how often it wants one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.torch_api import PASSES_ITEMS
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._reports import Loop, Report, Reports, called_reports
from perfmod.transforms.writing import nest_statements

_NAMES = ("step", "i", "batch_idx", "step_index", "batch_number")
_ONE = "1"
_UNCOUNTED = "the loop that counts the steps is not around it"


@frozen(eq=False)
class Interval:
    """The reports of one loop.

    Attributes:
        node: the first of them.
        reason: why they stay, where they do; else why that is right.
        edits: what to write; nothing for what stays.
    """

    node: cst.CSTNode
    reason: str
    edits: Sequence[Edit] = ()


def intervals(file: FileFacts, every: int) -> Iterator[Interval]:
    """The reports of all training loops of a file."""
    for loop in file.steps.regions:
        if not isinstance(loop, (cst.For, cst.While)) or not file.is_own(loop):
            continue
        reports = Reports(file, loop)
        refusals = {report: _why_not(reports, report) for report in reports.found}
        yield from (Interval(report.calls[0], reason) for report, reason in refusals.items() if reason is not None)
        free = [report for report, reason in refusals.items() if reason is None]
        if free:
            yield _interval(file, loop, free, every)
    yield from (Interval(call, _UNCOUNTED) for call in called_reports(file))


def _why_not(reports: Reports, report: Report) -> str | None:
    try:
        reports.require_free(report)
    except CannotRewrite as reason:
        return str(reason)
    return None


def _interval(file: FileFacts, loop: Loop, reports: Sequence[Report], every: int) -> Interval:
    first = min((report.calls[0] for report in reports), key=file.tree.place)
    try:
        counter, edits = _counter(file, loop)
    except CannotRewrite as reason:
        return Interval(first, str(reason))
    header = f"if {counter} % {every} == 0:"
    for report in reports:
        edits += nest_statements(file.source, report.lines[0], report.lines[-1], header, with_comments=True)
    return Interval(first, f"reported every {every} steps, which the project asks for by `report-every`", edits)


def _counter(file: FileFacts, loop: Loop) -> tuple[str, list[Edit]]:
    """What counts the rounds of a loop, and what to write for it. Raises `CannotRewrite` where there is no way."""
    found = _own_counter(file, loop) or _running_counter(file, loop)
    if found is not None:
        return found, []
    if isinstance(loop, cst.While):
        raise CannotRewrite(f"the loop of line {file.line(loop)} does not count its rounds")
    if loop.asynchronous is not None or file.names.hides_builtin("enumerate", loop):
        raise CannotRewrite(f"the rounds of line {file.line(loop)} cannot be counted by `enumerate`")
    return _add_counter(file, loop)


def _own_counter(file: FileFacts, loop: Loop) -> str | None:
    """`i` of `for i, batch in enumerate(loader)` and of `for i in range(n)`, also with a progress bar around."""
    if not isinstance(loop, cst.For):
        return None
    made = _iterated(file, loop.iter)
    name = file.qualified(made) if isinstance(made, cst.Call) else None
    target: cst.BaseExpression | None = None
    if name == "builtins.enumerate" and isinstance(loop.target, (cst.Tuple, cst.List)):
        target = loop.target.elements[0].value
    elif isinstance(made, cst.Call) and (name == "builtins.range" or (name or "").endswith(".trange")):
        numbers = [arg for arg in made.args if arg.keyword is None]
        target = loop.target if len(numbers) < 3 or file.code(numbers[2].value) == _ONE else None
    if not isinstance(target, cst.Name):
        return None
    bound = file.flow.bound(file.tree.scope(target), target.value)
    if any(file.tree.is_within(each.node, loop.body) for each in bound):
        raise CannotRewrite(f"the loop of line {file.line(loop)} sets `{target.value}` anew")
    return target.value


def _iterated(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a loop goes over, without progress bars around it and names for it."""
    while True:
        if isinstance(node, cst.NamedExpr):
            node = node.value
        elif isinstance(node, cst.Call) and node.args and file.qualified(node) in PASSES_ITEMS - {"tqdm.trange"}:
            node = node.args[0].value
        elif isinstance(node, cst.Name):
            definitions = file.flow.definitions(node)
            value = definitions[0].value if len(definitions) == 1 else None
            if value is None or definitions[0].binding not in (Binding.ASSIGNED, Binding.MANAGED):
                return node
            if definitions[0].path:
                return node
            node = value
        else:
            return node


def _running_counter(file: FileFacts, loop: Loop) -> str | None:
    """`step` of a line `step += 1` that each round comes by, and of nothing else that changes it in the loop."""
    body = loop.body.body if isinstance(loop.body, cst.IndentedBlock) else ()
    small = [line.body[0] for line in body if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1]
    changed = [
        file.code(target)
        for node in walk_scope(loop.body)
        if isinstance(node, (cst.Assign, cst.AugAssign))
        for target in ([each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target])
    ]
    for each in small:
        is_count = isinstance(each, cst.AugAssign) and isinstance(each.operator, cst.AddAssign)
        if is_count and isinstance(each, cst.AugAssign) and isinstance(each.target, (cst.Name, cst.Attribute)):
            code = file.code(each.target)
            if file.code(each.value) == _ONE and changed.count(code) == 1:
                return code
    return None


def _add_counter(file: FileFacts, loop: cst.For) -> tuple[str, list[Edit]]:
    """`for step, (x, y) in enumerate(loader):`."""
    flow, source = file.flow, file.source
    names = (each for each in find_all(source.module, cst.Name) if flow.is_read(each) or flow.defined(each))
    taken = {each.value for each in names} | {*flow.names(file.tree.scope(loop)), *flow.names(source.module)}
    name = next((each for each in _NAMES if each not in taken), None)
    if name is None:
        raise CannotRewrite(f"no name is free for a counter in the loop of line {file.line(loop)}")
    start, end = source.whole_span(loop.target)
    is_bare = isinstance(loop.target, cst.Tuple) and not loop.target.lpar
    first, last = source.whole_span(loop.iter)
    is_row = isinstance(loop.iter, cst.Tuple) and not loop.iter.lpar
    path = source.path
    edits = [Edit(start, start, f"{name}, " + ("(" if is_bare else ""), path)]
    edits += [Edit(end, end, ")", path)] if is_bare else []
    edits += [Edit(first, first, "enumerate((" if is_row else "enumerate(", path)]
    return name, [*edits, Edit(last, last, "))" if is_row else ")", path)]
