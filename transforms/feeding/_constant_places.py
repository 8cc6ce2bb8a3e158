"""Copies of images to the device, and the places next to which the constants for them are made once."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.feeding._optional_copies import OptionalCopy
from perfmod.transforms.feeding._pipelines import Unmovable
from perfmod.transforms.feeding._settled import is_settled, keeps_device

COPIES = frozenset({"to", "cuda", "type"})
"""Methods that copy a tensor to the device; `type` where it is given the type of the device's tensors."""
_FLOATS = {"torch.cuda.FloatTensor": Device.ACCELERATOR, "torch.FloatTensor": Device.CPU}


@frozen
class Destination:
    """Where a copy goes.

    Attributes:
        node: the argument that says so; `None` for the current CUDA device.
        device: it as code, for `device=`; empty where only the same method knows what it means.
        method: the call that takes other tensors to the same place, `.cuda(args.gpu)`.
    """

    node: cst.BaseExpression | None
    device: str
    method: str


@frozen
class Copy:
    """One copy of images to the device.

    Attributes:
        call: `images.to(device)`, `images.cuda()` or `images.type(torch.cuda.FloatTensor)`.
        to: where it goes.
        optional: the `if` that decides about it; `None` where it always happens.
        source: the definitions of the variable that holds the device; empty for other expressions.
        anchor: the statement next to which the constants are made, once for all batches.
        is_before: whether they are made before `anchor`, or behind it.
        unpacked: where images that were copied with all their batch get names, and which.
    """

    call: cst.Call
    to: Destination
    optional: OptionalCopy | None
    source: tuple[Definition, ...]
    anchor: cst.BaseStatement
    is_before: bool
    unpacked: tuple[tuple[cst.Assign, str], ...] = ()

    @property
    def is_cast(self) -> bool:
        """Whether the call makes floats of the images too, and does so on the host."""
        return self.method == "type"

    @property
    def method(self) -> str:
        """The method by which it copies."""
        assert isinstance(self.call.func, cst.Attribute)
        return self.call.func.attr.value


def is_tensor_type(file: FileFacts, call: cst.Call) -> bool:
    """Whether `x.type(...)` is given a type of float tensors, such as `torch.cuda.FloatTensor`."""
    given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != "non_blocking"]
    if len(given) != 1 or given[0].keyword is not None or given[0].star:
        return False
    return bool(_tensor_types(file, given[0].value))


def _tensor_types(file: FileFacts, node: cst.BaseExpression) -> set[Device]:
    """The devices of the types of float tensors that an expression may be; none if it may be something else."""
    found: set[Device] = set()
    for end in file.tracing.ends(node):
        name = file.qualified(end.node)
        if isinstance(end.node, cst.SimpleString):
            name = str(end.node.evaluated_value)
        if end.path or name not in _FLOATS:
            return set()
        found.add(_FLOATS[name])
    return found


def destination(file: FileFacts, call: cst.Call) -> Destination:
    """Where a copy goes.

    Raises:
        Unmovable: the copy does more than to copy, or the images stay on the CPU.
    """
    assert isinstance(call.func, cst.Attribute)
    line, method = file.line(call), call.func.attr.value
    if method == "type":
        node = call.args[0].value
        if Device.ACCELERATOR not in _tensor_types(file, node):
            raise Unmovable(f"the images of line {line} stay on the CPU")
        return Destination(node, "", f".type({file.code(node)})")
    if method == "cuda":
        where = argument(call, "device", 0)
        if where is None:
            return Destination(None, '"cuda"', ".cuda()")
        code = file.code(where)
        # What may be `None` means the current device here, and the CPU behind `device=`.
        is_plain = file.value(where).kind in (Kind.DEVICE, Kind.NUMBER, Kind.TEXT)
        return Destination(where, code if is_plain else "", f".cuda({code})")
    given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {"device", "non_blocking"}
    device = file.values.placement.destination(call)
    if device is None or len(given) != 1 or others:
        raise Unmovable(f"the copy on line {line} also changes the images' type or layout")
    if file.values.placement.device_of(device) is Device.CPU:
        raise Unmovable(f"the images of line {line} stay on the CPU")
    return Destination(device, file.code(device), f".to({file.code(device)})")


def placed(file: FileFacts, call: cst.Call, optional: OptionalCopy | None, *, devices_change: bool) -> Copy:
    """A copy with the place where its constants are made once.

    `devices_change` says that the script chooses a GPU by other means than by naming it.

    Raises:
        Unmovable: every place is inside of the step, or the copy does more than to copy.
    """
    to = destination(file, call)
    source = file.flow.definitions(to.node) if isinstance(to.node, cst.Name) else ()
    if optional is not None:
        loop = _outermost_loop(file, call, [to.node, optional.statement.test])
        if loop is None:
            line = file.line(optional.statement)
            raise Unmovable(f"whether line {line} copies the images may change from step to step")
        return Copy(call, to, optional, (), _line_of(file, loop), True)
    behind = _behind_definition(file, source)
    if behind is not None and file.source_of(behind) is not file.source_of(call):
        behind = None  # another file's names are not read here
    around = file.tree.function(call)
    if behind is not None and not devices_change and file.tree.function(behind) is around:
        return Copy(call, to, None, source, behind, False)
    loop = _outermost_loop(file, call, [to.node])
    if loop is not None:
        return Copy(call, to, None, source, _line_of(file, loop), True)
    line = file.line(call)
    if behind is None:
        raise Unmovable(f"there is no place outside of the step for the constants of the copy on line {line}")
    if devices_change:
        raise Unmovable(f"the process may choose its GPU after line {file.line(behind)}, where `{to.device}` is made")
    if _is_imported_code(file, behind):
        raise Unmovable(f"the constants for line {line} would be made by every process that imports this")
    return Copy(call, to, None, source, behind, False)


def _outermost_loop(file: FileFacts, call: cst.Call, given: Sequence[cst.BaseExpression | None]) -> cst.CSTNode | None:
    """The outermost loop of the same function around a copy before which the values of `given` are known already."""
    found: cst.CSTNode | None = None
    for ancestor in file.tree.ancestors(call):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(ancestor, (cst.For, cst.While, cst.BaseComp)):
            known = all(is_settled(file, node, ancestor) for node in given if node is not None)
            if not known or not keeps_device(file, ancestor):
                break
            found = ancestor
    return found


def _line_of(file: FileFacts, loop: cst.CSTNode) -> cst.BaseStatement:
    """The statement of a loop in its block; the whole `if` for a comprehension in the test of an `elif`."""
    line = file.tree.line(loop)
    above = file.tree.parent(line)
    while isinstance(above, cst.If):
        line, above = above, file.tree.parent(above)
    return line


def _behind_definition(file: FileFacts, definitions: tuple[Definition, ...]) -> cst.BaseStatement | None:
    """The statement that binds a device once and for all, in its own scope and outside of loops."""
    if len(definitions) != 1 or not isinstance(file.tree.parent(definitions[0].node), cst.AssignTarget):
        return None
    (definition,) = definitions
    if file.tree.scope(definition.node) is not definition.scope or isinstance(definition.scope, cst.ClassDef):
        return None
    if len(file.flow.bound(definition.scope, definition.name)) != 1:
        return None
    line = file.tree.line(file.tree.statement(definition.node))
    return line if isinstance(line, cst.SimpleStatementLine) and not file.tree.loops(line) else None


def _is_imported_code(file: FileFacts, statement: cst.BaseStatement) -> bool:
    """Whether a statement runs where a script with a `__main__` guard is imported, such as by its workers."""
    entry, module = file.entry, file.tree.module_of(statement)
    guarded = any(isinstance(top, cst.If) and is_main_test(top.test) for top in entry.statements_of(module))
    if file.tree.function(statement) is not None or entry.is_guarded(statement):
        return False
    return guarded or bool(entry.importers(module))
