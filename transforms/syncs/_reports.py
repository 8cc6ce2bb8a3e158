"""Reports that a training loop makes in every step: what shows figures of the device, with what is only made for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.differentiated import is_differentiated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all, walk, walk_scope
from perfmod.transforms.facts.value import Device
from perfmod.transforms.implicit_reads import implicit_read
from perfmod.transforms.operations import operation
from perfmod.transforms.syncs._gain import is_option
from perfmod.transforms.syncs._host_reads import CannotRewrite, host_read
from perfmod.transforms.syncs._quiet import loud, targets_of, why_kept
from perfmod.transforms.syncs._sinks import Held, Listed, Metered, Sum, sink_of

Loop = cst.For | cst.While

_FUNCTIONS = frozenset(
    {"builtins.print", "pprint.pprint", "tqdm.tqdm.write", "tqdm.auto.tqdm.write", "sys.stdout.write",
     "sys.stderr.write", "click.echo", "wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "logging.info",
     "logging.debug", "logging.log"}
)  # fmt: skip
_METHODS = frozenset(
    {"set_postfix", "set_postfix_str", "set_description", "set_description_str", "add_scalar", "add_scalars", "info",
     "debug", "log", "log_metric", "log_metrics", "log_dict", "report_scalar", "print"}
)  # fmt: skip
_TEXTS = frozenset({"builtins.str", "builtins.format", "builtins.round"})
# Functions of the project that show something themselves.
_SHOWS = frozenset({"builtins.print", "sys.stdout.write", "sys.stderr.write", "tqdm.tqdm.write"})
_ONE_PROCESS = re.compile(r"rank|main|master", re.IGNORECASE)


@frozen(eq=False)
class Report:
    """Lines of one block, next to each other, that show figures; those that only make these figures stand among them.

    Attributes:
        lines: in their order.
        calls: what shows figures.
    """

    lines: Sequence[cst.SimpleStatementLine]
    calls: Sequence[cst.Call]


@define(eq=False)
class Reports:
    """What one loop reports in every step."""

    _file: FileFacts
    loop: Loop
    found: list[Report] = field(factory=list, init=False)
    _fed: set[str] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._fed = _fed_by_reads(self._file, self.loop)
        for block in walk_scope(self.loop.body):
            if isinstance(block, cst.IndentedBlock) and _runs_always(self._file, block, self.loop):
                self.found += self._groups(block)

    def _groups(self, block: cst.IndentedBlock) -> Iterator[Report]:
        """The reports of a block, from below, because a line is only made for those below it."""
        group: list[cst.SimpleStatementLine] = []
        for line in (*block.body[::-1], None):
            if line is not None and (_report(self._file, line) is not None or (group and self._is_made(line, group))):
                assert isinstance(line, cst.SimpleStatementLine)
                group.insert(0, line)
                continue
            calls = [call for each in group if (call := _report(self._file, each)) is not None]
            if any(self._waits(each) for each in group):
                yield Report(group, calls)
            group = []

    def _is_made(self, line: cst.BaseStatement, group: Collection[cst.SimpleStatementLine]) -> bool:
        """Whether a line only gives names to what some lines below it show."""
        file = self._file
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(small, cst.Assign) or len(small.targets) != 1 or loud(file, small.value) is not None:
            return False
        target = small.targets[0].target
        names = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
        definitions = [each for name in names for each in file.flow.defined(name)]
        deleted = {name.value for gone in find_all(self.loop, cst.Del) for name in find_all(gone, cst.Name)}
        return (
            all(isinstance(name, cst.Name) and name.value not in deleted for name in names)
            and all(file.flow.uses(each) and not file.flow.is_exported(each) for each in definitions)
            and all(
                any(file.tree.is_within(use, below) for below in group)
                for each in definitions
                for use in file.flow.uses(each)
            )
        )

    def _waits(self, line: cst.CSTNode) -> bool:
        """Whether a line reads a figure of the device, or shows one that the step has read."""
        return any(
            host_read(self._file, node) is not None
            or (
                isinstance(node, _PLACES) and self._file.code(node) in self._fed and not self._file.tree.is_target(node)
            )
            or _shows_tensor(self._file, node)
            for node in walk(line)
        )

    def require_free(self, report: Report) -> None:
        """Raises `CannotRewrite` where a report does more than to show, or what it shows is needed in every step."""
        file = self._file
        for call in report.calls:
            kept = why_kept(file, call)
            if kept is not None:
                raise CannotRewrite(kept)
        for line in report.lines:
            more = next((found for part in _given(line) if (found := loud(file, part)) is not None), None)
            if more is not None:
                raise CannotRewrite(f"`{file.code(more)}` may do more than to give what is shown")
        shown = [node for line in report.lines for node in walk(line)]
        reads = [read for node in shown if (read := host_read(file, node)) is not None]
        tensors = {file.code(read.tensor) for read in reads}
        tensors |= {file.code(node) for node in shown if _shows_tensor(file, node)}
        codes = {file.code(node) for node in shown if isinstance(node, _PLACES)} & self._fed
        need = self._need(codes, tensors)
        if need is not None:
            raise CannotRewrite(f"line {file.line(need)} needs the number in every step")

    def _need(self, codes: set[str], tensors: set[str]) -> cst.CSTNode | None:
        """What needs one of some figures in every step, itself or through what they are summed up or kept in."""
        file = self._file
        reads = [(node, read) for node in walk_scope(self.loop.body) if (read := host_read(file, node)) is not None]
        for node in walk_scope(self.loop.body):
            asked = operation(file, node) or implicit_read(file, node) if host_read(file, node) is None else None
            tensor = asked.tensor if asked is not None and asked.code not in _READ_OR_SHOWN else None
            is_asked = tensor is not None and _is_asked(file, tensor, tensors)
            is_shown = isinstance(node, _PLACES) and file.code(node) in tensors and _shows_tensor(file, node)
            if (is_asked or is_shown) and not self._is_left(node):
                return getattr(node, "test", node)
        stack = [node for node, read in reads if file.code(read.tensor) in tensors]
        stack += [place for code in codes for place in self._places(code)]
        seen = set(codes)
        while stack:
            node = stack.pop()
            if self._is_left(node) or not isinstance(node, cst.BaseExpression):
                continue
            sink = sink_of(file, node)
            if sink is None and not _is_handled(file, node):
                return node
            for code in _targets(file, sink):
                if code not in seen:
                    seen.add(code)
                    stack += self._places(code)
        return None

    def _places(self, code: str) -> list[cst.CSTNode]:
        """Where the loop reads a variable."""
        tree = self._file.tree
        nodes = (node for node in walk_scope(self.loop.body) if isinstance(node, _PLACES))
        return [
            node
            for node in nodes
            if self._file.code(node) == code
            and not tree.is_target(node, cst.AugAssign)
            and not _is_changed(tree.parent(node), node)
        ]

    def _is_left(self, node: cst.CSTNode) -> bool:
        """Whether a place runs now and then, or is a part of a report, such as that of an accident."""
        file = self._file
        lines = (line for report in self.found for line in report.lines)
        is_report = _report(file, file.tree.line(file.tree.statement(node))) is not None
        return (
            is_report or file.steps.is_gated(node, self.loop) or any(file.tree.is_within(node, line) for line in lines)
        )


def called_reports(file: FileFacts) -> Iterator[cst.Call]:
    """What reads a figure for a report in a function that every step calls."""
    for line in file.tree.all(cst.SimpleStatementLine):
        call = _report(file, line) if file.is_own(line) else None
        if call is None or not any(host_read(file, node) is not None for node in walk(call)):
            continue
        is_called = file.steps.in_sight(line) and not isinstance(file.steps.region(line), (cst.For, cst.While))
        if is_called and not file.steps.is_gated(line) and not file.steps.is_beside_parts(line):
            yield call


_PLACES = (cst.Name, cst.Attribute, cst.Subscript)
# Rules about reads, which are followed, and about what is shown; those of the others need values.
_READ_OR_SHOWN = frozenset({"PM107", "PM111", "PM112"})


def _is_handled(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a list or a meter is only there to be given a figure, or asked for its length."""
    parent = file.tree.parent(node)
    call = file.tree.parent(parent) if isinstance(parent, (cst.Attribute, cst.Arg)) else None
    if isinstance(parent, cst.Attribute):
        return isinstance(call, cst.Call) and call.func is parent and isinstance(file.tree.parent(call), cst.Expr)
    return isinstance(call, cst.Call) and file.qualified(call) == "builtins.len"


def _is_changed(parent: cst.CSTNode | None, node: cst.CSTNode) -> bool:
    return isinstance(parent, cst.AugAssign) and parent.target is node


def _given(line: cst.SimpleStatementLine) -> Iterator[cst.BaseExpression]:
    """What is computed for a report by a line."""
    for small in line.body:
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            yield from (arg.value for arg in small.value.args)


def _is_asked(file: FileFacts, tensor: cst.BaseExpression, codes: Collection[str]) -> bool:
    """Whether a decision depends on one of some tensors, and not only on its shape or on whether it is there."""
    if isinstance(tensor, cst.Comparison) and isinstance(tensor.comparisons[0].operator, (cst.Is, cst.IsNot)):
        return False
    parts = (part for part in walk(tensor) if not isinstance(file.tree.parent(part), cst.Attribute) or part is tensor)
    return any(file.code(part) in codes for part in parts if isinstance(part, cst.BaseExpression))


def _targets(file: FileFacts, sink: Sum | Listed | Metered | Held | None) -> list[str]:
    if isinstance(sink, Held):
        return [each.name for each in sink.carriers if isinstance(each, Definition)]
    if isinstance(sink, Metered):
        return [file.code(sink.call.func.value)] if isinstance(sink.call.func, cst.Attribute) else []
    return [file.code(sink.target)] if sink is not None else []


def _fed_by_reads(file: FileFacts, loop: Loop) -> set[str]:
    """The variables that hold what a round reads from the device, sums, lists and meters among them."""
    found: set[str] = set()
    nodes = list(walk_scope(loop.body))
    for node in nodes:
        if host_read(file, node) is not None:
            assert isinstance(node, cst.BaseExpression)
            found.update(_targets(file, sink_of(file, node)))
    size = -1
    while len(found) > size:
        size = len(found)
        for node in nodes:
            targets = targets_of(node)
            value = node.value if isinstance(node, (cst.Assign, cst.AugAssign)) else None
            parts = walk(value) if value is not None else ()
            if any(isinstance(part, _PLACES) and file.code(part) in found for part in parts):
                found.update(map(file.code, targets))
    return found


def _runs_always(file: FileFacts, block: cst.IndentedBlock, loop: Loop) -> bool:
    """Whether every round of a loop comes by a block, or none does, as in a process that reports nothing."""
    if file.steps.is_gated(block.body[0], loop) or file.steps.region(block.body[0]) is not loop:
        return False
    child: cst.CSTNode = block
    for ancestor in file.tree.ancestors(block):
        if ancestor is loop:
            return child is loop.body
        is_choice = isinstance(ancestor, cst.If) and not _is_switch(file, ancestor.test, loop)
        is_guard = isinstance(ancestor, (cst.Try, cst.TryStar)) and child is not ancestor.body
        if is_choice or is_guard or isinstance(ancestor, (cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase)):
            return False
        child = ancestor
    return False


def _is_switch(file: FileFacts, test: cst.BaseExpression, loop: Loop) -> bool:
    """Whether a condition is the same in all rounds: it asks for a setting, or which of several processes this is."""
    if isinstance(test, cst.BooleanOperation):
        return _is_switch(file, test.left, loop) and _is_switch(file, test.right, loop)
    if isinstance(test, cst.UnaryOperation):
        return _is_switch(file, test.expression, loop)
    if isinstance(test, cst.Comparison):
        sides = (test.left, *(each.comparator for each in test.comparisons))
        return all(_is_switch(file, side, loop) for side in sides)
    if isinstance(test, cst.Call):
        return not test.args and _ONE_PROCESS.search(file.code(test.func)) is not None
    return is_option(file, test, loop)


def _report(file: FileFacts, line: cst.CSTNode) -> cst.Call | None:
    """The call by which a line shows something."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return None
    name = file.qualified(call)
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) and name is None else ""
    if name in _FUNCTIONS or method in _METHODS:
        return call
    functions = file.values.calls.reached(call) if isinstance(call.func, cst.Name) else ()
    shows = any(file.qualified(inner) in _SHOWS for each in functions for inner in find_all(each.body, cst.Call))
    return call if shows and not any(file.steps.trains(each.body) for each in functions) else None


def _shows_tensor(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an expression is a tensor of the device that stands where its number is shown."""
    parent = file.tree.parent(node)
    if not isinstance(node, cst.BaseExpression) or not isinstance(
        parent, (cst.Arg, cst.FormattedStringExpression, cst.DictElement, cst.Element)
    ):
        return False
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call):
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        is_text = file.qualified(call) in _FUNCTIONS | _TEXTS
        if not is_text and method not in _METHODS | {"format"}:
            return False
    value = file.value(node)
    return (value.is_tensor and value.device is not Device.CPU) or is_differentiated(file, node)
