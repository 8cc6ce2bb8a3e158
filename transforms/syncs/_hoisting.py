"""Making a tensor once in front of the loop instead of in each of its rounds."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.rounds import step_loop
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._made_on_device import NotFollowed
from perfmod.transforms.writing import delete_statement, insert_before_statement, replace

# What says which type and device a tensor gets where its own call does not.
_DEFAULTS = frozenset(
    {"torch.set_default_dtype", "torch.set_default_tensor_type", "torch.set_default_device", "torch.cuda.set_device"}
)


def hoisted(file: FileFacts, node: cst.Call) -> tuple[list[Edit], list[cst.Call]]:
    """Edits that make the tensor of `node` in front of the loop of the step, and calls out of sight that get it.

    Raises:
        NotFollowed: there is no such loop, the tensor would be another one there, or somebody could see that all
            rounds share it.
    """
    loop = step_loop(file, node)
    loops = file.tree.loops(node)
    if loop is None or loop not in loops:
        raise NotFollowed("perfmod found no training loop to move it out of: register it as a buffer of the module")
    _require_same(file, node, loop)
    statement = file.tree.statement(node)
    if isinstance(statement, cst.Assign) and statement.value is node:
        return _move(file, statement, loop)
    if file.aliasing.mutates(node):
        raise NotFollowed("it is modified in place")
    unseen = _unseen(file, node, "the tensor")
    name = _name_of(file, node)
    line = insert_before_statement(file.source, loop, f"{name} = {file.code(node)}")
    return [line, replace(file.source, node, name)], unseen


def _unseen(file: FileFacts, node: cst.CSTNode, named: str) -> list[cst.Call]:
    """The function out of sight that gets a tensor. Raises `NotFollowed` where something else keeps or modifies it."""
    if not file.aliasing.hands_on(node) or _only_computes(file, node):
        return []
    arg = file.tree.parent(node)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if isinstance(call, cst.Call) and file.callees.of(call).is_unseen:
        return [call]
    raise NotFollowed(f"`{_receiver(file, node)}` on line {file.line(node)} may keep {named} or modify it")


def _name_of(file: FileFacts, node: cst.Call) -> str:
    """A name for what stands in an expression: of the keyword that it is given as, or of the constant it is made of.

    Raises:
        NotFollowed: there is none, or the file uses it.
    """
    parent = file.tree.parent(node)
    named = parent.keyword if isinstance(parent, cst.Arg) else next(_constants(file, node), None)
    name = named.value.lower() if named is not None else ""
    if not name or any(each.value == name and not _is_label(file, each) for each in file.tree.all(cst.Name)):
        raise NotFollowed("it never changes: create it once before the loop")
    return name


def _constants(file: FileFacts, node: cst.Call) -> Iterator[cst.Name]:
    """The names of the numbers that a tensor is made of, as far as they differ from those of variables."""
    return (name for name in find_all(node, cst.Name) if name.value.isupper() and file.flow.is_read(name))


def _is_label(file: FileFacts, name: cst.Name) -> bool:
    """Whether a name is that of an attribute or a keyword, and no variable."""
    parent = file.tree.parent(name)
    return (isinstance(parent, cst.Attribute) and parent.attr is name) or (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


def _move(file: FileFacts, statement: cst.Assign, loop: cst.For | cst.While) -> tuple[list[Edit], list[cst.Call]]:
    target = statement.targets[0].target
    if len(statement.targets) != 1 or not isinstance(target, cst.Name):
        raise NotFollowed("it is not assigned to a plain variable")
    scope = file.tree.scope(target)
    definitions = file.flow.bound(scope, target.value)
    if len(definitions) != 1:
        other = next(d for d in definitions if d.node is not target)
        raise NotFollowed(f"`{target.value}` is also assigned on line {file.line(other.node)}")
    unseen = _require_own(file, definitions[0])
    code = file.code(statement)
    if "#" in code:
        raise NotFollowed("the statement contains a comment")
    if file.tree.loops(statement)[0] is not loop or file.tree.parent(file.tree.line(statement)) is not loop.body:
        raise NotFollowed("it is not created in every iteration of the loop")
    edits = [insert_before_statement(file.source, loop, code), *delete_statement(file.source, statement)]
    return edits, unseen


def _require_own(file: FileFacts, definition: Definition) -> list[cst.Call]:
    """The functions out of sight that get a tensor. Raises `NotFollowed` where others see that all rounds share it."""
    name = definition.name
    written = file.aliasing.mutations(definition)
    if written:
        raise NotFollowed(f"`{name}` is modified on line {file.line(written[0])}")
    uses = file.flow.uses(definition)
    if any(file.tree.scope(use) is not definition.scope for use in uses):
        raise NotFollowed(f"`{name}` is used by another function")
    return [call for use in uses for call in _unseen(file, use, f"`{name}`")]


def _require_same(file: FileFacts, node: cst.Call, loop: cst.For | cst.While) -> None:
    """Raises `NotFollowed` where an expression of `node` may be something else in front of the loop."""
    for name in find_all(node, cst.Name):
        if not file.flow.is_read(name) or file.qualified(name) is not None:
            continue
        for definition in file.flow.definitions(name):
            if file.tree.is_within(definition.node, loop):
                raise NotFollowed(f"`{name.value}` is assigned inside the loop on line {file.line(loop)}")
    for call in _called_in(file, loop):
        if file.qualified(call) in _DEFAULTS:
            raise NotFollowed(f"line {file.line(call)} changes PyTorch's default dtype or device")
    for attribute in find_all(node, cst.Attribute):
        if file.qualified(attribute) is None and next(file.stores.inside(attribute, loop), None) is not None:
            raise NotFollowed(f"`{file.code(attribute)}` is assigned in the loop")
    for call in find_all(node, cst.Call):
        if call is not node and not (file.qualified(call) or "").startswith(("torch.", "builtins.float")):
            inner = call.func
            if not (isinstance(inner, cst.Attribute) and file.tree.is_within(inner.value, node)):
                raise NotFollowed(f"`{file.code(call.func)}` is called in every iteration and may return another value")
    for ancestor in file.tree.ancestors(node):
        if ancestor is loop:
            return
        if isinstance(ancestor, cst.With) and any("device" in file.code(item) for item in ancestor.items):
            raise NotFollowed(f"the `with` on line {file.line(ancestor)} selects the device")
        if isinstance(ancestor, (cst.If, cst.IfExp, cst.BooleanOperation, cst.Try, cst.Match)):
            raise NotFollowed("it is created only under a condition, and may fail without it")
        if isinstance(ancestor, (cst.Lambda, cst.BaseComp, cst.FunctionDef)):
            raise NotFollowed("it is created inside a lambda, comprehension or function")


def _called_in(file: FileFacts, loop: cst.For | cst.While) -> Iterator[cst.Call]:
    """The calls in a loop, and in the functions in sight that run in its rounds."""
    bodies: dict[cst.CSTNode, None] = {loop: None}
    stack: list[cst.CSTNode] = [loop]
    while stack:
        for function in file.steps.called_by(stack.pop()):
            if function.body not in bodies:
                bodies[function.body] = None
                stack.append(function.body)
    return (call for body in bodies for call in find_all(body, cst.Call))


def _only_computes(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a tensor only goes into a module of PyTorch, such as a loss, or into a view that is computed with."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        if isinstance(call, cst.Call):
            module = file.value(call.func)
            return module.kind is Kind.MODULE and (module.name or "").startswith("torch.nn.")
    return False


def _receiver(file: FileFacts, node: cst.CSTNode) -> str:
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.Call):
            return file.code(ancestor.func)
        if isinstance(ancestor, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return " ".join(file.code(ancestor).split())[:60]
    return "the code around it"
