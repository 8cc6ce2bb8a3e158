"""How a device that a loop names is written at another place, above it: where a data set is made."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import find_all, walk

_CHOOSES = frozenset(
    {
        "torch.device", "torch.cuda.is_available", "torch.backends.mps.is_available", "torch.accelerator.is_available",
        "torch.accelerator.current_accelerator",
    }
)  # fmt: skip
"""What gives the same device wherever it is asked."""
_SETS_DEVICES = re.compile(r"\bCUDA_VISIBLE_DEVICES\b|\bset_default_device\b")
"""What would have to come first."""

CURRENT = '"cuda"'
"""The code for the device that is current, on which tensors of the types of `torch.cuda` are made."""


def device_at(file: FileFacts, where: cst.BaseExpression, at: cst.Call) -> str | None:
    """The code for a device at another place; `None` where there is none that gives the same one."""
    return _spelled(file, where, at) or _chosen(file, where, at)


def device_of_types_at(file: FileFacts, types: cst.BaseExpression, at: cst.Call) -> str | None:
    """The code for the device on which tensors of an old type lie: `"cuda" if use_cuda else "cpu"` for
    `torch.cuda.FloatTensor if use_cuda else torch.FloatTensor`; `None` where what decides has no name there.
    """
    value: cst.BaseExpression | None = types
    if isinstance(types, cst.Name) and file.qualified(types) not in torch_api.TENSOR_TYPES:
        value = _only_value(file, types)
    if isinstance(value, cst.IfExp):
        body, orelse = _device_of_type(file, value.body), _device_of_type(file, value.orelse)
        condition = value.test
        if isinstance(condition, cst.UnaryOperation) and isinstance(condition.operator, cst.Not):
            condition, body, orelse = condition.expression, orelse, body
        test = _condition_at(file, condition, at)
        return f"{body} if {test} else {orelse}" if body and test and orelse else None
    return _device_of_type(file, value) if value is not None else None


def _device_of_type(file: FileFacts, node: cst.BaseExpression) -> str | None:
    """The code for the device of tensors of one type."""
    types = file.values.placement.tensor_types(node)
    if len(types) != 1:
        return None
    return CURRENT if next(iter(types)).startswith("torch.cuda.") else '"cpu"'


def _condition_at(file: FileFacts, test: cst.BaseExpression, at: cst.Call) -> str | None:
    """What decides about a device, at another place."""
    if isinstance(test, (cst.Name, cst.Attribute)):
        code = device_at(file, test, at)
        return f"({code})" if code and " " in code else code
    return file.code(test) if isinstance(test, cst.Call) and _is_same_anywhere(file, test, at) else None


def _only_value(file: FileFacts, name: cst.Name) -> cst.BaseExpression | None:
    """What a name is bound to, where that is written once, in a file that is written as well."""
    made = file.flow.definitions(name)
    value = made[0].value if len(made) == 1 and made[0].binding is Binding.ASSIGNED and not made[0].path else None
    if value is None or len(file.flow.bound(made[0].scope, made[0].name)) != 1 or not file.is_own(value):
        return None
    return value


def _spelled(file: FileFacts, where: cst.BaseExpression, at: cst.Call) -> str | None:
    """What a device is called at another place; `None` where it has no name there."""
    if isinstance(where, cst.Attribute):
        return _attribute(file, where, at)
    ends = set(file.tracing.ends(where)) if isinstance(where, cst.Name) else set()
    scopes = dict.fromkeys((file.tree.scope(at), file.tree.module_of(at)))
    names = [(scope, name) for scope in scopes for name in file.flow.names(scope) if name not in torch_api.DTYPES]
    own = where.value if isinstance(where, cst.Name) else ""
    for scope, name in sorted(names, key=lambda each: each[1] != own):
        bound = file.flow.bound(scope, name)
        uses = file.flow.uses(bound[0])
        is_shadowed = scope is not file.tree.scope(at) and bool(file.flow.bound(file.tree.scope(at), name))
        if is_shadowed or name in file.handing.outer_names or not uses:
            continue
        if not all(file.comes_before(each.node, at) for each in bound):
            continue
        if any(set(file.flow.definitions(use)) >= set(bound) and set(file.tracing.ends(use)) == ends for use in uses):
            return name
    return None


def _chosen(file: FileFacts, where: cst.BaseExpression, at: cst.Call) -> str | None:
    """The code by which a device is chosen later, where that chooses the same at another place: it asks PyTorch only,
    as `"cuda" if torch.cuda.is_available() else "cpu"` does.
    """
    value = _only_value(file, where) if isinstance(where, cst.Name) else None
    if value is None or not _is_same_anywhere(file, value, at):
        return None
    return re.sub(r"\s*\n\s*", " ", file.code(value))


def _is_same_anywhere(file: FileFacts, value: cst.BaseExpression, at: cst.Call) -> bool:
    """Whether an expression asks PyTorch only, and gives the same at another place."""
    if first_mention(file, _SETS_DEVICES) is not None:
        return False
    if not all(file.qualified(call) in _CHOOSES for call in find_all(value, cst.Call)):
        return False
    if any(isinstance(node, (cst.Lambda, cst.NamedExpr, cst.BaseFormattedStringContent)) for node in walk(value)):
        return False
    for name in find_all(value, cst.Name):
        brought = file.flow.definitions(name) if file.flow.is_read(name) else ()
        is_above = all(each.scope is file.tree.module and file.comes_before(each.node, at) for each in brought)
        if file.flow.is_read(name) and (not brought or not is_above or name.value != "torch"):
            return False
    return file.tree.scope(at) is file.tree.module or not file.flow.bound(file.tree.scope(at), "torch")


def _attribute(file: FileFacts, where: cst.Attribute, at: cst.Call) -> str | None:
    """`args.device` and `self.device`, where they are the same at both places."""
    code, root = dotted(where), where.value
    sets = [each for each in file.tree.all(cst.AssignTarget) if dotted(each.target) == code]
    function, home = file.tree.function(where), file.tree.function(at)
    if not code or not isinstance(root, cst.Name) or not all(file.comes_before(each, at) for each in sets):
        return None
    if root.value == "self" and function is not None and home is not None:
        around = file.tree.class_of(home)
        made = {file.tree.function(each) for each in sets}
        early = [call for call in file.values.calls.callers(home) if file.tree.function(call) in made]
        is_set = bool(sets) and all(each is home or (each and each.name.value == "__init__") for each in made)
        is_above = is_set and all(file.comes_before(each, call) for each in sets for call in early)
        return code if is_above and around is not None and file.tree.class_of(function) is around else None
    bound = file.flow.definitions(root)
    is_above = bool(bound) and all(file.comes_before(each.node, at) for each in bound)
    return code if function is home and is_above else None
