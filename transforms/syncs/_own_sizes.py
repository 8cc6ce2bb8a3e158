"""Tensors that are made with sizes of their own, `torch.ones(6)`, where a mask would have to have them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._mask_shapes import shaping_parts

_SIZED = frozenset({"zeros", "ones", "empty", "rand", "randn", "full", "arange", "randperm", "eye"})
_SHAPES = frozenset({"shape", "num_nodes", "num_edges"})
_TELLS_SIZE = frozenset({"size", "numel"})
_LIBRARIES = ("torch", "numpy", "builtins", "math")


def own_size(file: FileFacts, target: cst.BaseExpression, mask: cst.BaseExpression) -> cst.Call | None:
    """The call that makes `target` with a first size that has nothing to do with what `mask` takes its shape from.

    An index fits into what is longer, as a list of weights of six classes, or a buffer for a whole batch. Sizes that
    are read from a tensor, or come out of a parameter, may be those of the mask.
    """
    if file.shapes.same(mask, target):
        return None
    shaping = [part for part in shaping_parts(file, mask, set()) if file.value(part).kind is not Kind.NUMBER]
    shaping += [value for part in shaping for value in _of_attribute(file, part)]
    for value in file.values.assigned_to(target) or _of_attribute(file, target):
        call = _factory(file, value)
        size = _first_size(file, call) if call is not None else None
        if call is None or size is None:
            continue
        definitions = list(_definitions(file, [size]))
        if not _may_be_read(file, size, definitions) and not _origins(file, [size]) & _origins(file, shaping):
            return call
    return None


def _of_attribute(file: FileFacts, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an object assigns to an attribute of its own: `self.weights`."""
    own = file.classes.self_attribute(node)
    assigned = own[0].assignments(own[1]) if own is not None else []
    return [each.value for each in assigned if each.value is not None and not each.path]


def _factory(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The call behind `torch.ones(6)`, `torch.ones(6).to(device)`, `x.new_ones(6)`."""
    while isinstance(node, cst.Call):
        name = file.qualified(node)
        if name is not None:
            return node if name.removeprefix("torch.") in _SIZED and name.startswith("torch.") else None
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        if method.removeprefix("new_") in _SIZED:
            return node
        if not isinstance(node.func, cst.Attribute) or method not in torch_api.CASTS:
            return None
        node = node.func.value
    return None


def _first_size(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """What the size of the first dimension of a new tensor is given by; `None` for ranges with a start."""
    given = next((arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "size"), None)
    if file.qualified(call) == "torch.arange" and sum(arg.keyword is None for arg in call.args) != 1:
        return None
    parts = given.elements if isinstance(given, (cst.Tuple, cst.List)) else ()
    return parts[0].value if parts else given


def _definitions(file: FileFacts, nodes: Sequence[cst.BaseExpression]) -> Iterator[Definition]:
    """What binds the variables that expressions are computed from, directly or through others."""
    seen: set[Definition] = set()
    stack: list[cst.CSTNode] = list(nodes)
    while stack:
        for name in walk(stack.pop()):
            if not isinstance(name, cst.Name) or not file.flow.is_read(name) or _is_library(file, name):
                continue
            for definition in file.flow.definitions(name):
                if definition in seen:
                    continue
                seen.add(definition)
                yield definition
                if definition.binding is Binding.ASSIGNED and definition.value is not None:
                    stack.append(definition.part or definition.value)


def _is_library(file: FileFacts, name: cst.Name) -> bool:
    return (file.qualified(name) or "").partition(".")[0] in _LIBRARIES


def _written(nodes: Sequence[cst.BaseExpression], definitions: Sequence[Definition]) -> Iterator[cst.CSTNode]:
    for node in (*nodes, *(d.part or d.value for d in definitions if d.binding is Binding.ASSIGNED)):
        if node is not None:
            yield from walk(node)


def _origins(file: FileFacts, nodes: Sequence[cst.BaseExpression]) -> set[cst.CSTNode | int]:
    """Where expressions come from: what binds their variables, the iterables of loops, and the numbers in them."""
    definitions = list(_definitions(file, nodes))
    numbers = {part.evaluated_value for part in _written(nodes, definitions) if isinstance(part, cst.Integer)}
    bound = {d.value if d.binding is Binding.LOOPED and d.value is not None else d.node for d in definitions}
    return bound | {number for number in numbers if number > 1}


def _may_be_read(file: FileFacts, size: cst.BaseExpression, definitions: Sequence[Definition]) -> bool:
    """Whether a size is read from a tensor, or handed in, so that it may be that of a mask."""
    if any(d.binding is Binding.PARAMETER and d.name != "self" for d in definitions):
        return True
    return any(_reads_size(file, part) for part in _written([size], definitions))


def _reads_size(file: FileFacts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value in _SHAPES
    if not isinstance(node, cst.Call):
        return False
    is_asked = isinstance(node.func, cst.Attribute) and node.func.attr.value in _TELLS_SIZE
    return is_asked or file.qualified(node) == "builtins.len"
