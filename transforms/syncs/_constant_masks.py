"""Masks that are the same in every step, as `data.train_mask` of a full-batch graph: their index can be made once."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._masks import is_mask
from perfmod.transforms.writing import insert_after_statement, insert_before_statement, replace


@frozen
class ConstantMask:
    """A mask that no step changes.

    Attributes:
        node: the mask as it is read in the step.
        around: the loop or function whose reads of the mask may use the index.
        anchor: the statement next to which the index is made.
        is_before: whether it is made before `anchor`, or behind it.
        is_shown: whether the mask is known to be boolean, by its type or by convention.
    """

    node: cst.BaseExpression
    around: cst.CSTNode
    anchor: cst.BaseStatement
    is_before: bool
    is_shown: bool


def constant_mask(file: FileFacts, mask: cst.BaseExpression) -> ConstantMask | None:
    """The mask as one that is the same in every step, where that can be shown."""
    root = _root(mask)
    if root is None or not file.steps.found:
        return None
    definitions = file.flow.definitions(root)
    if not definitions or not all(_is_own(file, definition) for definition in definitions):
        return None
    if _may_change_elsewhere(file, mask, root):
        return None
    is_shown = is_mask(file, mask)
    loops = [loop for loop in file.tree.loops(mask) if not any(_binds(file, loop, d) for d in definitions)]
    scope = file.tree.scope(mask)
    if all(definition.scope is scope for definition in definitions):
        if not loops or file.steps.region(mask) is None or _changes(file, mask, loops[-1]):
            return None
        return ConstantMask(mask, loops[-1], loops[-1], True, is_shown)
    function = file.tree.function(mask)
    if function is None or not all(isinstance(d.scope, cst.Module) for d in definitions):
        return None
    return _global_mask(file, mask, function, definitions, is_shown)


def _global_mask(
    file: FileFacts,
    mask: cst.BaseExpression,
    function: cst.FunctionDef,
    definitions: tuple[Definition, ...],
    is_shown: bool,
) -> ConstantMask | None:
    """A mask of a module-level object that a function reads; its index is made behind the last line that makes it."""
    makers = [file.tree.line(file.tree.statement(definition.node)) for definition in definitions]
    changes = [file.tree.line(file.tree.statement(node)) for node in _changes(file, mask, file.source.module)]
    blocks = {id(file.tree.parent(line)) for line in (*makers, *changes)}
    in_function = any(file.tree.function(line) is not None for line in (*makers, *changes))
    if len(blocks) != 1 or in_function or any(file.tree.loops(line) for line in makers):
        return None
    last = max((*makers, *changes), key=lambda line: file.source.span(line)[0])
    if isinstance(last, (cst.For, cst.While, cst.If, cst.With, cst.FunctionDef, cst.ClassDef, cst.Try)):
        return None
    if _runs_above(file, function, file.source.span(last)[1], set()):
        return None
    return ConstantMask(mask, function, last, False, is_shown)


def _runs_above(file: FileFacts, function: cst.FunctionDef, offset: int, seen: set[cst.FunctionDef]) -> bool:
    """Whether the top level runs a function, itself or through others of the file, before it comes to `offset`."""
    if function in seen:
        return False
    seen.add(function)
    for call in file.values.calls.callers(function):
        caller = file.tree.function(call)
        if caller is None and file.source.span(call)[0] < offset:
            return True
        if caller is not None and _runs_above(file, caller, offset, seen):
            return True
    return False


def hoisted(file: FileFacts, mask: ConstantMask) -> tuple[list[Edit], str]:
    """Edits that make the mask's index once and read it where the mask selected; and the index's name."""
    code = file.source.code(mask.node)
    root = _root(mask.node)
    assert root is not None
    name = _free_name(file, _last_name(mask.node))
    line = f"{name} = {code}.nonzero(as_tuple=True)"
    insert = insert_before_statement if mask.is_before else insert_after_statement
    edits = [insert(file.source, mask.anchor, line)]
    for subscript in find_all(mask.around, cst.Subscript):
        if len(subscript.slice) != 1 or not isinstance(subscript.slice[0].slice, cst.Index):
            continue
        index = subscript.slice[0].slice.value
        is_store = isinstance(file.tree.parent(subscript), (cst.AssignTarget, cst.AugAssign, cst.Del))
        if file.source.code(index) == code and not is_store and file.steps.reaches(subscript):
            other = _root(index)
            if other is not None and file.flow.definitions(other) == file.flow.definitions(root):
                edits.append(replace(file.source, index, name))
    return edits, name


def _root(node: cst.BaseExpression) -> cst.Name | None:
    """`data` of `data.train_mask` and `g` of `g.ndata['train_mask']`."""
    while not isinstance(node, cst.Name):
        if isinstance(node, cst.Attribute) or (
            isinstance(node, cst.Subscript)
            and isinstance(node.slice[0].slice, cst.Index)
            and isinstance(node.slice[0].slice.value, cst.SimpleString)
        ):
            node = node.value
        else:
            return None
    return node


def _last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
            return str(index.value.evaluated_value)
    return node.value if isinstance(node, cst.Name) else ""


def _free_name(file: FileFacts, mask: str) -> str:
    """`train_index` for `train_mask`, numbered where the file uses that name already."""
    stem = mask.removesuffix("mask").rstrip("_")
    name = f"{stem}_index" if stem.isidentifier() else "mask_index"
    taken = {node.value for node in find_all(file.source.module, cst.Name)}
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _binds(file: FileFacts, loop: cst.CSTNode, definition: Definition) -> bool:
    return file.tree.is_within(definition.node, loop)


def _is_own(file: FileFacts, definition: Definition) -> bool:
    """Whether an object is made in the scope that its name belongs to, and is not another module's."""
    return definition.scope is file.tree.scope(definition.node) and definition.binding is not Binding.IMPORTED


def _changes(file: FileFacts, mask: cst.BaseExpression, around: cst.CSTNode) -> list[cst.CSTNode]:
    """Every place in `around` that may write into the mask, or put another in its place."""
    if isinstance(mask, cst.Name):
        writes = [use for definition in file.flow.definitions(mask) for use in file.aliasing.mutations(definition)]
        return [use for use in writes if file.tree.is_within(use, around)]
    code = file.source.code(mask)
    found: list[cst.CSTNode] = []
    for node in walk(around):
        if type(node) is type(mask) and file.source.code(node) == code:
            others = [use for alias in file.aliasing.aliases(node) for use in file.aliasing.mutations(alias)]
            found += [node] if file.aliasing.mutates(node) else others
    part = mask
    while isinstance(part, (cst.Attribute, cst.Subscript)):
        found += file.stores.inside(part, around)
        part = part.value
    return found


def _may_change_elsewhere(file: FileFacts, mask: cst.BaseExpression, root: cst.Name) -> bool:
    """Whether code that runs again and again may change the mask under another name, or behind a call."""
    own = file.classes.self_attribute(_above_root(mask))
    if own is not None and len(own[0].assignments(own[1])) != 1:
        return True
    name, code = _last_name(mask), file.source.code(mask)
    for node in walk(file.source.module):
        if isinstance(node, (cst.Attribute, cst.Subscript)) and _last_name(node) == name:
            is_assigned = isinstance(file.tree.parent(node), (cst.AssignTarget, cst.AugAssign))
            written = is_assigned or file.aliasing.mutates(node)
            if written and file.source.code(node) != code and _runs_again(file, node):
                return True
        elif isinstance(node, cst.Call) and not isinstance(mask, cst.Name) and _runs_again(file, node):
            handed = any(isinstance(arg.value, cst.Name) and arg.value.value == root.value for arg in node.args)
            if handed and not _is_trusted(file, node):
                return True
    return False


def _above_root(mask: cst.BaseExpression) -> cst.BaseExpression:
    """`self.data` of `self.data.train_mask`; the mask itself where it is no longer than that."""
    node = mask
    while isinstance(node, (cst.Attribute, cst.Subscript)) and not isinstance(node.value, cst.Name):
        node = node.value
    return node


def _runs_again(file: FileFacts, node: cst.CSTNode) -> bool:
    function = file.tree.function(node)
    return bool(file.tree.loops(node)) or (function is not None and function.name.value != "__init__")


def _is_trusted(file: FileFacts, call: cst.Call) -> bool:
    """Whether what is called leaves its arguments alone, as models do, or is in sight."""
    name = file.qualified(call)
    if name is not None:
        return name.startswith(("torch.", "builtins.", "torch_geometric.", "dgl."))
    if file.values.calls.resolve(call) is not None or file.value(call.func).kind is Kind.MODULE:
        return True
    return isinstance(call.func, cst.Name) and call.func.value in ("model", "net", "encoder")
