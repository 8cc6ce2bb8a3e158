"""Whether scalars are the same numbers when they are read in front of the statements that report them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._report_figures import SHOWS, Figure

_HARMLESS = ("builtins.", "math.", "time.", "datetime.", "numpy.", "logging.", "wandb.", "torch.cuda.", "os.path.")
_LOOKS = frozenset(
    {"get_last_lr", "get_lr", "format", "join", "size", "dim", "numel", "state_dict", "keys", "values", "items", "get",
     "item", "tolist", "cpu", "numpy", "detach", "mean", "sum", "round", "ljust", "rjust", "strip", "flush",
     "strftime", "isoformat", "total_seconds"}
)  # fmt: skip
_RUNS_CODE = frozenset({"builtins.eval", "builtins.exec", "builtins.next", "builtins.map", "builtins.setattr"})


def why_out_of_order(file: FileFacts, group: Sequence[cst.BaseSmallStatement], found: Sequence[Figure]) -> str | None:
    """Why a figure may be another number in front of the first statement of a group; `None` where it may not."""
    for statement in group:
        moving = (node for kind in (cst.NamedExpr, cst.Yield, cst.Await) for node in find_all(statement, kind))
        for node in moving:
            return f"the line {file.line(node)} assigns or waits while it reports"
    for index, statement in enumerate(group):
        later = [figure for figure in found if any(file.tree.is_within(figure.node, s) for s in group[index + 1 :])]
        why = _why_stored(file, statement, later)
        if why is not None:
            return why
    calls = [call for statement in group for call in find_all(statement, cst.Call)]
    numbers = [figure.node for figure in found]
    for call in calls:
        if is_harmless(file, call) or call in numbers:
            continue
        given = {
            name.value
            for name in find_all(call, cst.Name)
            if not any(file.tree.is_within(name, node) and not file.tree.is_within(call, node) for node in numbers)
        }
        for figure in found:
            if figure.definition is not None or not _runs_before(file, call, figure):
                continue
            if file.tree.is_within(call, figure.node):
                continue
            if not _is_out_of_reach(file, figure, given):
                code, tensor = file.code(call.func), file.code(figure.tensor)
                return f"`{code}` on line {file.line(call)} may change `{tensor}` while the report is made"
    return None


def _why_stored(file: FileFacts, statement: cst.BaseSmallStatement, later: Sequence[Figure]) -> str | None:
    """Whether what a statement assigns is part of what later figures are read from."""
    stored = {
        name.value
        for target in (statement.targets if isinstance(statement, cst.Assign) else ())
        for name in find_all(target, cst.Name)
    }
    for figure in later:
        read = {name.value for name in find_all(figure.tensor, cst.Name) if file.qualified(name) is None}
        if figure.definition is None and stored & read:
            line = file.line(statement)
            return f"line {line} may change `{file.code(figure.tensor)}` while the report is made"
    return None


def _runs_before(file: FileFacts, call: cst.Call, figure: Figure) -> bool:
    """Whether a call is made before a figure is read: it is no call that the figure is given to."""
    return not file.tree.is_within(figure.node, call) and file.source.span(call) < file.source.span(figure.node)


def is_harmless(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call changes no tensor and no variable, as far as its name tells."""
    name = file.qualified(call)
    if name is not None:
        return name.startswith(_HARMLESS) and name not in _RUNS_CODE
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    if file.values.calls.resolve(call) is not None:
        return False
    if file.value(call.func.value).is_tensor:
        return not method.endswith("_")
    return method in _LOOKS | SHOWS


def _is_out_of_reach(file: FileFacts, figure: Figure, given: set[str]) -> bool:
    """Whether the tensor of a figure is a local variable's, and none of those that a call is given."""
    names = [name for name in find_all(figure.tensor, cst.Name) if file.flow.is_read(name)]
    return _only_methods(file, figure.tensor) and _are_local(file, names, given)


def _only_methods(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    """Whether every attribute in an expression is a method that is called at once, or `data`."""
    for node in find_all(tensor, cst.Subscript):
        if not file.value(node.value).is_tensor:
            return False
    for attribute in find_all(tensor, cst.Attribute):
        parent = file.tree.parent(attribute)
        is_called = isinstance(parent, cst.Call) and parent.func is attribute
        if not is_called and attribute.attr.value != "data" and file.qualified(attribute) is None:
            return False
    return True


def _are_local(file: FileFacts, names: Sequence[cst.Name], given: set[str]) -> bool:
    for name in names:
        if file.qualified(name) is not None:
            continue
        scope = file.tree.scope(name)
        definitions = file.flow.definitions(name)
        if name.value in given or not definitions:
            return False
        if any(d.scope is not scope or file.tree.scope(d.node) is not scope for d in definitions):
            return False
        # What a call runs may write into it where it reads the name itself.
        if any(file.tree.scope(use) is not scope for d in definitions for use in file.flow.uses(d)):
            return False
        if isinstance(scope, cst.Module) and any(
            file.tree.scope(d.node) is not scope for d in file.flow.bound(scope, name.value)
        ):
            return False
    return True


def why_not_kept(file: FileFacts, figure: Figure, group: Sequence[cst.BaseSmallStatement]) -> str | None:
    """Why a scalar that is read into a variable cannot stay on the device until the report; `None` for others."""
    definition = figure.definition
    if definition is None:
        return None
    use, name = figure.node, definition.name
    line = file.line(definition.node)
    if not isinstance(use, cst.Name) or file.flow.definitions(use) != (definition,):
        return f"`{name}` may come from somewhere else than line {line}"
    if any(file.tree.scope(other) is not definition.scope for other in file.flow.uses(definition)):
        return f"`{name}` is read by another function"
    if file.tree.loops(use)[:1] != file.tree.loops(definition.node)[:1] or file.flow.from_earlier_rounds(use):
        return f"`{name}` of line {line} belongs to another loop than the report"
    outside = [o for o in file.flow.uses(definition) if not any(file.tree.is_within(o, s) for s in group)]
    before = next((other for other in outside if not is_behind(file, other, group, definition)), None)
    if before is not None:
        return f"`{name}` is used on line {file.line(before)} too"
    if len(file.flow.bound(definition.scope, name)) > 1:
        # What is bound in front of the report would be another definition for later rounds.
        others = [d for d in file.flow.bound(definition.scope, name) if d is not definition]
        if any(file.tree.loops(d.node)[:1] == file.tree.loops(definition.node)[:1] for d in others):
            return f"`{name}` is bound on line {file.line(others[0].node)} too"
    first = file.tree.line(group[0])
    made = file.tree.line(file.tree.statement(definition.node))
    if not _comes_before(file, made, first):
        return f"`{name}` is not always read on line {line} before the report"
    if file.value(figure.tensor).kind is Kind.UNKNOWN:
        return f"`{file.code(figure.tensor)}` could not be shown to be a tensor"
    return None


def is_behind(
    file: FileFacts, use: cst.BaseExpression, group: Sequence[cst.BaseSmallStatement], definition: Definition
) -> bool:
    """Whether a use always comes behind the reports of the same round, where the variable holds the number again."""
    if not isinstance(use, cst.Name) or file.flow.definitions(use) != (definition,):
        return False
    if file.flow.from_earlier_rounds(use):
        return False
    return _comes_before(file, file.tree.line(group[-1]), file.tree.line(use))


def _comes_before(file: FileFacts, made: cst.BaseStatement, report: cst.BaseStatement) -> bool:
    """Whether `made` is an earlier statement of the block of `report`, or of a block around it.

    What stands in a block under `with torch.autocast(...):` runs whenever the block is come by.
    """
    made = _outermost(file, made)
    around: cst.CSTNode | None = report
    while around is not None:
        if isinstance(around, cst.BaseStatement):
            block = file.tree.block(around)
            if made in block:
                return block.index(made) < block.index(around)
        around = file.tree.parent(around)
        if isinstance(around, (cst.FunctionDef, cst.Module)):
            return isinstance(around, cst.Module) and made in around.body
    return False


def _outermost(file: FileFacts, statement: cst.BaseStatement) -> cst.BaseStatement:
    """The outermost of the `with` blocks of PyTorch around a statement; the statement, where there is none."""
    while True:
        block = file.tree.parent(statement)
        around = file.tree.parent(block) if block is not None else None
        if not isinstance(around, cst.With):
            return statement
        if not all((file.qualified(item.item) or "").startswith("torch.") for item in around.items):
            return statement
        statement = around
