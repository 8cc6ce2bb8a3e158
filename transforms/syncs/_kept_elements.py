"""Tensors of the host that get one scalar of the device in every round: `losses[k] = loss.item()`.

    losses = torch.zeros(count)                     losses = torch.zeros(count)
                                                    losses_kept = []
    for k in range(count):                          for k in range(count):
        losses[k] = loss_of(k).item()                   losses_kept.append(loss_of(k).detach())
                                                    if losses_kept:
                                                        losses[:len(losses_kept)] = torch.stack(losses_kept)

The rounds count from 0 and each stores its element, so that the list has them in their order, however the loop ends.
An element is a Python number rounded to the tensor's type before, and a tensor's scalar converted to it after: the
number has all the bits of the scalar, and both are rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.rounds import round_loop
from perfmod.transforms.facts.tree import find_all, find_any, walk_scope
from perfmod.transforms.facts.value import Device
from perfmod.transforms.syncs._by_name import require_unread_by_name
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    has_no_dimensions,
    host_read,
    own_copy,
    tensor_doubts,
    without_read,
)
from perfmod.transforms.syncs._moved_sums import Moved, insert_behind
from perfmod.transforms.syncs._report_figures import several_devices
from perfmod.transforms.syncs._sums import require_unshared
from perfmod.transforms.syncs._terms import term_of
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement, replace

_FILLED = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
_WIDE = frozenset({"torch.float32", "torch.float", "torch.float64", "torch.double"})


def stored_at(file: FileFacts, node: cst.CSTNode) -> cst.Subscript | None:
    """`losses[k]` of `losses[k] = loss.item()`, where `node` is what is stored and `losses` a tensor."""
    statement = file.tree.parent(node)
    if not isinstance(statement, cst.Assign) or statement.value is not node or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if not isinstance(target, cst.Subscript) or not file.value(target.value).is_tensor:
        return None
    return target


def keep_elements(file: FileFacts, target: cst.Subscript, values: Sequence[cst.BaseExpression]) -> Moved:
    """Edits that store behind the loop what its rounds have kept. Raises `CannotRewrite`."""
    code = file.code(target)
    read = host_read(file, values[0])
    if not isinstance(target.value, cst.Name) or len(values) > 1 or read is None:
        raise CannotRewrite(f"`{code}` is an element that other code may read")
    name = target.value.value
    loop = round_loop(file, target)
    line = file.tree.line(target)
    if not isinstance(loop, cst.For) or line not in loop.body.body or isinstance(loop.body, cst.SimpleStatementSuite):
        raise CannotRewrite(f"not every round of a loop in sight stores `{code}`")
    made = _made(file, target.value, loop)
    _require_counted(file, target, loop, cst.ensure_type(made.part, cst.Call).args[0].value)
    _require_unread(file, made, target.value, loop)
    second = several_devices(file)
    if second is not None:
        raise CannotRewrite(f"what is stored in `{name}` may come from several devices (line {file.line(second)})")
    kept = UnusedNames(file).take(f"{name}_kept")
    shape = "" if has_no_dimensions(file, read) else ".reshape(())"
    tensor = _replaced(file, read, own_copy(file, read) + shape)
    torch, imports = file.names.spelled("torch", loop)
    indent = file.source.module.default_indent
    text = f"if {kept}:\n{indent}{name}[:len({kept})] = {torch}.stack({kept})"
    edits = (
        insert_before_statement(file.source, loop, f"{kept} = []"),
        replace(file.source, cst.ensure_type(file.tree.statement(target), cst.Assign), f"{kept}.append({tensor})"),
        insert_behind(file, loop, text),
    )
    uses = [use for use in file.flow.uses(made) if use is not target.value]
    terms = [term_of(file, values[0])]
    return Moved(f"`{name}`", edits, imports, tensor_doubts(file, read), uses, terms, are_stored=True)


def _replaced(file: FileFacts, read: HostRead, suffix: str) -> str:
    """The code of a read with the tensor in its place."""
    start, end = file.source.span(read.call)
    edit = without_read(file, read, suffix)
    return file.source.text[start : edit.start] + edit.replacement + file.source.text[edit.end : end]


def _made(file: FileFacts, tensor: cst.Name, loop: cst.For) -> Definition:
    """Where the tensor is made, in front of the loop: one-dimensional, on the host."""
    name = tensor.value
    require_unshared(file, name)
    definitions = file.flow.definitions(tensor)
    made = definitions[0] if len(definitions) == 1 else None
    part = made.part if made is not None and made.binding is Binding.ASSIGNED else None
    statement = file.tree.statement(made.node) if made is not None else None
    is_shared = isinstance(statement, cst.Assign) and len(statement.targets) > 1
    if made is None or is_shared or not isinstance(part, cst.Call) or file.qualified(part) not in _FILLED:
        raise CannotRewrite(f"that `{name}` is a tensor with an element for every round could not be shown")
    dtypes = [arg.value for arg in part.args[1:] if arg.keyword is not None and arg.keyword.value == "dtype"]
    is_plain = bool(part.args) and part.args[0].keyword is None and not part.args[0].star
    if not is_plain or len(part.args) != 1 + len(dtypes) or file.value(part).device is not Device.CPU:
        raise CannotRewrite(f"`{name}` is not shown to be a tensor of the host with one dimension")
    if any(file.qualified(dtype) not in _WIDE for dtype in dtypes):
        raise CannotRewrite(f"`{name}` is of another type than float32 and float64")
    if made.scope is not file.tree.scope(loop) or file.tree.loops(made.node) != file.tree.loops(loop):
        raise CannotRewrite(f"`{name}` is not made in front of the loop")
    require_unread_by_name(file, name, made.scope)
    for outer in file.tree.ancestors(loop):
        if isinstance(outer, (cst.Try, cst.TryStar)) and not file.tree.is_within(made.node, outer):
            line = file.line(outer)
            raise CannotRewrite(f"an exception may end the loop and leave `{name}` to the code behind line {line}")
        if outer is made.scope:
            break
    return made


def _require_counted(file: FileFacts, target: cst.Subscript, loop: cst.For, size: cst.BaseExpression) -> None:
    """Raise where a round may store another element than its own, or none, or one beyond the end."""
    key = target.slice[0].slice if len(target.slice) == 1 else None
    index = key.value if isinstance(key, cst.Index) else None
    call, counter = loop.iter, loop.target
    counts = (
        isinstance(call, cst.Call)
        and file.qualified(call) == "builtins.range"
        and len(call.args) == 1
        and _is_same(file, call.args[0].value, size)
        and isinstance(index, cst.Name)
        and isinstance(counter, cst.Name)
        and file.flow.definitions(index) == tuple(file.flow.defined(counter))
    )
    if not counts:
        raise CannotRewrite(f"that `{file.code(target)}` is the element of its round could not be shown")
    for node in walk_scope(loop.body):
        if isinstance(node, cst.Continue) and file.tree.loops(node)[:1] == [loop]:
            raise CannotRewrite(f"the `continue` on line {file.line(node)} leaves elements out")


def _is_same(file: FileFacts, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two expressions are one number, or a variable or attribute that nothing sets in between."""
    if not one.deep_equals(other):
        return False
    if isinstance(one, cst.Attribute):
        assigned = find_any(file.tree.module, cst.AssignTarget, cst.AugAssign, cst.AnnAssign)
        if any(file.code(getattr(node, "target", node)) == file.code(one) for node in assigned):
            return False
        one, other = one.value, cst.ensure_type(other, cst.Attribute).value
    if not isinstance(one, cst.Name) or not isinstance(other, cst.Name):
        return isinstance(one, cst.Integer)
    require_unshared(file, one.value)
    found = file.flow.definitions(one)
    return bool(found) and found == file.flow.definitions(other) and not file.flow.from_earlier_rounds(one)


def _require_unread(file: FileFacts, made: Definition, target: cst.Name, loop: cst.For) -> None:
    """Raise where the tensor is seen while the loop runs."""
    for use in file.flow.uses(made):
        if use is target:
            continue
        if file.tree.is_within(use, loop) or file.tree.scope(use) is not made.scope or not file.is_own(use):
            raise CannotRewrite(f"`{made.name}` is read in the loop on line {file.line(use)}")
        if file.comes_before(use, loop):
            raise CannotRewrite(f"`{made.name}` may get another name on line {file.line(use)}")
    for node in find_all(loop, cst.Yield):
        raise CannotRewrite(f"code elsewhere runs on line {file.line(node)}, before the loop is over")
