"""What an object keeps from one call of its methods to the next: its attributes, and what stands in modules."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.flow import parameters

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts

CACHES = ("functools.lru_cache", "functools.cache")
"""What makes a function keep its results."""
_DEEPEST = 6


def is_kept(file: FileFacts, node: cst.BaseExpression, *, through_names: bool, depth: int = 0) -> bool:
    """Whether an object belongs to `self` or the module, reached without a call (that would make
    another).
    """
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if file.classes.self_attribute(node) is not None:
            return True
        node = node.value
    if isinstance(node, cst.Call) and _qualified(file, node) in ("builtins.type", "builtins.vars"):
        return True  # a class, which all its instances share; the attributes of an object
    function = file.values.calls.resolve(node) if isinstance(node, cst.Call) else None
    if any(_qualified(file, each.decorator) in CACHES for each in (function.decorators if function else ())):
        return True
    if not isinstance(node, cst.Name) or depth > _DEEPEST:
        return False
    for definition in file.flow.definitions(node):
        # A variable, a class, a function or another module: attributes and items can be stored in each.
        if isinstance(definition.scope, cst.Module) or is_around(file, node, definition.scope):
            return True
        default = definition.node.default if isinstance(definition.node, cst.Param) else None
        if isinstance(default, (cst.List, cst.Dict, cst.Set, cst.Call)):
            return True  # one object for all calls
        if through_names and definition.value is not None:
            kept = is_kept(file, definition.value, through_names=True, depth=depth + 1)
            if kept and not isinstance(definition.value, cst.Name):
                return True
    return False


def is_around(file: FileFacts, node: cst.BaseExpression, scope: cst.CSTNode) -> bool:
    """Whether a scope is that of a function around the function or lambda that holds a node."""
    own = file.tree.scope(node)
    return isinstance(scope, cst.FunctionDef) and scope is not own and file.tree.is_within(own, scope)


def is_instance(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is `self`."""
    function = file.tree.function(node)
    first = next(parameters(function), None) if function is not None else None
    is_first = first is not None and isinstance(node, cst.Name) and node.value == first.name.value
    return is_first and function is not None and file.tree.class_of(function) is not None


def was_made_before(
    file: FileFacts, node: cst.BaseExpression, functions: Container[cst.CSTNode | None], depth: int = 0
) -> bool:
    """Whether a tensor, or what it shares memory with, was made by other code than the functions that make a sample."""
    for end in file.tracing.ends(node):
        made = end.node
        if not isinstance(made, cst.Call):
            continue
        if _qualified(file, made) in data_api.SHARES_MEMORY and made.args and depth <= _DEEPEST:
            if was_made_before(file, made.args[0].value, functions, depth + 1):
                return True
            continue
        around = file.tree.function(made)
        if around not in functions or (around is not None and around.name.value == "__init__"):
            return True
    return False


def is_switch(file: FileFacts, target: cst.Attribute) -> bool:
    """Whether a library is told the same every time: `ImageFile.LOAD_TRUNCATED_IMAGES = True`."""
    statement = file.tree.statement(target)
    value = statement.value if isinstance(statement, cst.Assign) else None
    is_truth = isinstance(value, cst.Name) and value.value in ("True", "False")
    is_same = value is not None and (is_truth or file.constants.value(value) is not None)
    return is_same and (_qualified(file, target) or "").partition(".")[0] in data_api.TRUSTED


def is_lazy(file: FileFacts, target: cst.Attribute) -> bool:
    """`if file is None: file = h5py.File(...)`: each worker opens its own."""
    statement = file.tree.statement(target)
    opens = isinstance(statement, cst.Assign) and _qualified(file, statement.value) in data_api.OPENS
    guarded = any(isinstance(ancestor, cst.If) for ancestor in file.tree.ancestors(target))
    return opens and guarded


def _qualified(file: FileFacts, node: cst.CSTNode) -> str | None:
    """The name of a library's thing; of a call, that of what is called."""
    return file.names.qualified(node.func if isinstance(node, cst.Call) else node)
