"""Masks that are the same in every step, as `data.train_mask` of a full-batch graph: their index can be made once."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.masks import is_mask
from perfmod.transforms.facts.tree import find_all, is_none
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._mask_changes import changes, is_own, last_name, may_change_elsewhere, root_of
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
    root = root_of(mask)
    if root is None or not file.steps.found:
        return None
    definitions = file.flow.definitions(root)
    if not definitions or not all(is_own(file, definition) for definition in definitions):
        return None
    if may_change_elsewhere(file, mask, root):
        return None
    is_shown = is_mask(file, mask)
    loops = [loop for loop in file.tree.loops(mask) if not any(_binds(file, loop, d) for d in definitions)]
    scope = file.tree.scope(mask)
    if all(definition.scope is scope for definition in definitions):
        if not loops or file.steps.region(mask) is None or changes(file, mask, loops[-1]):
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
    makers = [definition.node for definition in definitions]
    changed = [node for module in file.tree.modules for node in changes(file, mask, module)]
    lines = [file.tree.line(file.tree.statement(node)) for node in (*makers, *changed)]
    if not all(file.is_own(line) and file.tree.function(line) is None and not file.tree.loops(line) for line in lines):
        return None
    if any(isinstance(line, cst.BaseCompoundStatement) for line in lines):
        return None
    if any(is_none(d.value) for d in definitions):
        return None
    in_order = sorted(lines, key=lambda line: file.source.span(line)[0])
    # What comes first makes the object in any case; an `if` behind it may make or change it once more.
    block = file.tree.parent(in_order[0])
    beside = [_line_in(file, line, block) for line in in_order]
    last = beside[-1]
    if last is None or None in beside or _runs_above(file, function, file.source.span(last)[1], set()):
        return None
    return ConstantMask(mask, function, last, False, is_shown)


def _line_in(file: FileFacts, line: cst.BaseStatement, block: cst.CSTNode | None) -> cst.BaseStatement | None:
    """The line of a block that a line is, or stands in; `None` where it stands elsewhere."""
    for node in (line, *file.tree.ancestors(line)):
        if isinstance(node, cst.BaseStatement) and file.tree.parent(node) is block:
            return node
    return None


def _runs_above(file: FileFacts, function: cst.FunctionDef, offset: int, seen: set[cst.FunctionDef]) -> bool:
    """Whether the top level may run a function, itself or through others of the file, before it comes to `offset`.

    Where it hands the function on, that may run it.
    """
    if function in seen:
        return False
    seen.add(function)
    uses = (use for definition in file.flow.defined(function) for use in file.flow.uses(definition))
    for site in (*file.values.calls.callers(function), *uses):
        caller = file.tree.function(site)
        if caller is None and (not file.is_own(site) or file.source.span(site)[0] < offset):
            return True
        if caller is not None and _runs_above(file, caller, offset, seen):
            return True
    return False


def hoisted(file: FileFacts, mask: ConstantMask) -> tuple[list[Edit], str]:
    """Edits that make the mask's index once and read it where the mask selected; and the index's name."""
    code = file.code(mask.node)
    root = root_of(mask.node)
    assert root is not None
    name = _free_name(file, last_name(mask.node))
    line = f"{name} = {code}.nonzero(as_tuple=True)"
    insert = insert_before_statement if mask.is_before else insert_after_statement
    edits = [insert(file.source, mask.anchor, line)]
    for subscript in find_all(mask.around, cst.Subscript):
        if len(subscript.slice) != 1 or not isinstance(subscript.slice[0].slice, cst.Index):
            continue
        index = subscript.slice[0].slice.value
        is_store = isinstance(file.tree.parent(subscript), (cst.AssignTarget, cst.AugAssign, cst.Del))
        if file.code(index) == code and not is_store and file.steps.reaches(subscript):
            other = root_of(index)
            if other is not None and file.flow.definitions(other) == file.flow.definitions(root):
                edits.append(replace(file.source, index, name))
    return edits, name


def _free_name(file: FileFacts, mask: str) -> str:
    """`train_index` for `train_mask`, numbered where the file uses that name already."""
    stem = "_".join(word for word in mask.split("_") if word.lower() != "mask")
    name = f"{stem}_index" if stem.isidentifier() else "mask_index"
    taken = {node.value for node in find_all(file.source.module, cst.Name)}
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _binds(file: FileFacts, loop: cst.CSTNode, definition: Definition) -> bool:
    return file.tree.is_within(definition.node, loop)
