"""Expressions that have one value before a loop and in it, and that may be evaluated any number of times."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind

_ASKS = frozenset(
    {
        "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.current_device",
        "torch.backends.mps.is_available", "torch.distributed.get_rank", "torch.distributed.get_world_size",
        "torch.distributed.is_initialized", "torch.distributed.is_available", "os.getenv", "os.environ.get",
        "builtins.int", "builtins.str", "builtins.isinstance", "builtins.hasattr",
    }
)  # fmt: skip
"""Functions that only answer, and the same every time, unless what they are given changes."""
_CHOOSES = frozenset({"torch.cuda.set_device", "torch.cuda.device"})
_MOVES = frozenset({"to", "cuda", "cpu", "xpu", "to_empty"})
_VARIES = (
    cst.Lambda, cst.BaseComp, cst.NamedExpr, cst.Await, cst.Yield, cst.StarredElement, cst.StarredDictElement,
)  # fmt: skip
_CHANGES = (cst.Global, cst.Nonlocal, cst.Yield, cst.For, cst.While, cst.With, cst.Try, cst.AugAssign, cst.Del)


def is_settled(file: FileFacts, expression: cst.BaseExpression, around: cst.CSTNode) -> bool:
    """Whether an expression has the same value before `around` as all the time in it, however often it is asked.

    It reads variables that neither `around` nor what is called there binds, attributes and items that nothing in it
    sets, and calls only what answers.
    """
    return all(_is_steady(file, node, around) for node in walk(expression))


def keeps_device(file: FileFacts, around: cst.CSTNode) -> bool:
    """Whether nothing in `around` chooses another GPU as the current one."""
    return not any(file.qualified(call) in _CHOOSES for call in find_all(around, cst.Call))


def _is_steady(file: FileFacts, node: cst.CSTNode, around: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call):
        return _only_answers(file, node, around)
    if isinstance(node, cst.Name):
        return not file.flow.is_read(node) or not any(
            file.tree.is_within(place, around) for place in _bindings(file, node, around)
        )
    if isinstance(node, cst.Attribute):
        of_module = node.attr.value == "device" and file.value(node.value).kind is Kind.MODULE
        return file.qualified(node) is not None or not (
            _is_set(file, node, around) or (of_module and _moves_modules(file, around))
        )
    if isinstance(node, cst.Subscript):
        return not _is_set(file, node, around)
    return not isinstance(node, _VARIES)


def _bindings(file: FileFacts, name: cst.Name, around: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The places that bind a variable; for those in functions that `around` calls, `around` itself."""
    definitions = dict.fromkeys(file.flow.definitions(name))
    if name.value in file.handing.outer_names:
        called = _called(file, around)
        for scope in {definition.scope for definition in definitions}:
            definitions.update(dict.fromkeys(file.flow.bound(scope, name.value)))
        yield from (around for d in definitions if file.tree.function(d.node) in called)
    yield from (definition.node for definition in definitions)


def _called(file: FileFacts, around: cst.CSTNode) -> set[cst.FunctionDef]:
    found: set[cst.FunctionDef] = set()
    stack = list(file.steps.called_by(around))
    while stack:
        function = stack.pop()
        if function not in found:
            found.add(function)
            stack += file.steps.called_by(function.body)
    return found


def _only_answers(file: FileFacts, call: cst.Call, around: cst.CSTNode) -> bool:
    name = file.qualified(call)
    if name == "builtins.next" and len(call.args) == 1:
        given = call.args[0].value  # of a new iterator, that is; another one moves on
        return isinstance(given, cst.Call) and dotted(given.func).endswith(".parameters")
    if name is not None:
        return name in _ASKS
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters" and not call.args:
        return not _moves_modules(file, around)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "format":
        return True
    function = file.values.calls.resolve(call)
    return function is not None and all(
        file.qualified(node) in _ASKS if isinstance(node, cst.Call) else _is_plain(node) for node in walk(function.body)
    )


def _is_plain(node: cst.CSTNode) -> bool:
    """Whether a part of a function neither changes anything nor takes what changes."""
    if isinstance(node, cst.AssignTarget):
        return isinstance(node.target, cst.Name)
    return not isinstance(node, (*_CHANGES, *_VARIES))


def _moves_modules(file: FileFacts, around: cst.CSTNode) -> bool:
    """Whether a module is moved to another device in `around`, or in what is called there."""
    code = [around, *(function.body for function in _called(file, around))]
    return any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value in _MOVES
        and file.value(call.func.value).kind is Kind.MODULE
        for part in code
        for call in find_all(part, cst.Call)
    )


def _is_set(file: FileFacts, read: cst.Attribute | cst.Subscript, around: cst.CSTNode) -> bool:
    return any(True for _ in file.stores.inside(read, around))
