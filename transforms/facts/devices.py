"""Devices that tensors are moved to: those that variables name, and those that change from round to round."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.tree import find_all, find_any, walk
from perfmod.transforms.facts.value import Device, Kind

_NUMBERED = re.compile(r"^(?:\w*(?:dev|device|cuda|gpu))_?(\d)$")
_WORDS = re.compile(r"[a-z]+|\d+")
_DEVICE_TEXT = re.compile(r"^(?:cuda|xpu):(\d+)$")
_NAMES_DEVICE = frozenset({"dev", "device", "gpu", "cuda"})
# Words that say nothing about which device it is.
_USUAL = _NAMES_DEVICE | {
    "id", "ids", "idx", "index", "num", "number", "no", "type", "name", "str", "torch", "my", "the", "current", "cur",
    "local", "global", "rank", "default", "target", "main", "run", "execution", "compute", "computation", "accelerator",
}  # fmt: skip


def moves(node: cst.CSTNode) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The calls of `to` and `cuda` at or below a node, with the first thing that they are given."""
    for call in find_all(node, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda") and call.args:
            yield call, call.args[0].value


def device_label(file: FileFacts, destination: cst.BaseExpression) -> str | None:
    """What tells a device from others: its number, or the words of a variable such as `teacher_device`.

    Empty for `device` and the like; `None` for what names no accelerator.
    """
    if isinstance(destination, cst.Integer):
        return destination.value
    last = dotted(destination).rpartition(".")[2]
    match = _NUMBERED.match(last)
    if match is not None:
        return match[1]
    words = set(_WORDS.findall(last.lower()))
    if not words & _NAMES_DEVICE or file.value(destination).device is Device.CPU:
        return None
    if file.value(destination).kind not in (Kind.DEVICE, Kind.UNKNOWN, Kind.TEXT, Kind.NUMBER):
        return None
    return " ".join(sorted(words - _USUAL))


def beside(file: FileFacts, made: cst.CSTNode, device: str) -> str:
    """How to write a device, given its code, for what takes the size of a variable `x` that is known to be on one.

    That is `x.device` instead of a plain "cuda", if no file knows of a second device.
    """
    if device not in ("'cuda'", '"cuda"'):
        return device
    for node in find_any(made, cst.Attribute, cst.Call):
        owner: cst.BaseExpression | None = None
        if isinstance(node, cst.Attribute) and node.attr.value in ("size", "shape"):
            owner = node.value
        elif isinstance(node, cst.Call) and file.qualified(node) == "builtins.len" and node.args:
            owner = node.args[0].value
        if not isinstance(owner, cst.Name):
            continue
        if is_beside(file, owner, device):
            return f"{owner.value}.device"
    return device


def is_beside(file: FileFacts, x: cst.BaseExpression, device: str) -> bool:
    """Whether a device, given its code, is the one that `x` is known to be on, if no file knows of a second one."""
    value = file.value(x)
    is_there = value.is_tensor and value.device is Device.ACCELERATOR and file.once(_has_one_device)
    return device == f"{file.code(x)}.device" or is_there


def _has_one_device(file: FileFacts) -> bool:
    """Whether no file names an accelerator by a number but the first, or several by name."""
    return all(not set(_numbers(each)) - {"0"} and several_devices(each) is None for each in file.world.files.values())


def never_set(file: FileFacts, device: cst.BaseExpression) -> bool:
    """Whether nothing sets `self.device` of a class that derives from a layer of PyTorch, such as `nn.BatchNorm2d`:
    reading it raises. That of a plain `nn.Module`, as of a policy, may be set by whoever makes it, out of sight.
    """
    own = file.classes.self_attribute(device)
    if own is None or own[0].assignments(own[1]) or file.classes.assigned_elsewhere(own[1]):
        return False
    family = [*own[0].lineage(), *own[0].descendants()]
    if any(not {own[1], "__getattr__", "__getattribute__"}.isdisjoint(cls.methods) for cls in family):
        return False
    if any(len(cls.node.bases) != len(cls.bases) + len(cls.parents) or cls.node.keywords for cls in family):
        return False
    bases = [base for cls in family for base in cls.bases]
    if not bases or not all(base.startswith("torch.nn.") and not base.endswith(".Module") for base in bases):
        return False
    return not any(name.value in ("setattr", "__dict__") for name in file.tree.all(cst.Name))


def several_devices(file: FileFacts) -> cst.CSTNode | None:
    """Where a second accelerator of this process comes in, if one does."""
    numbered = _numbers(file)
    named: dict[str, cst.CSTNode] = {}
    for call, destination in moves(file.tree.module):
        label = device_label(file, destination)
        if label is not None and not label.isdigit():
            named.setdefault(label, call)
    # A plain `device` may be any of those that have numbers.
    return next((list(found.values())[1] for found in (numbered, named) if len(found) > 1), None)


def _numbers(file: FileFacts) -> dict[str, cst.CSTNode]:
    """The numbers of the accelerators that a file names, with a place of each."""
    seen: dict[str, cst.CSTNode] = {}
    for node in walk(file.tree.module):
        number: str | None = None
        if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
            match = _DEVICE_TEXT.match(node.evaluated_value)
            number = match[1] if match else "0" if _is_current_device(file, node) else None
        if number is not None:
            seen.setdefault(number, node)
    for call, destination in moves(file.tree.module):
        label = device_label(file, destination)
        if label is not None and label.isdigit():
            seen.setdefault(label, call)
    return seen


def _is_current_device(file: FileFacts, node: cst.SimpleString) -> bool:
    """Whether a text is the "cuda" of `torch.device("cuda")`, `x.to("cuda")` or `device="cuda"`, by a choice too."""
    place: cst.CSTNode | None = node
    while isinstance(file.tree.parent(place or node), cst.IfExp):
        place = file.tree.parent(place or node)
    arg = file.tree.parent(place or node)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if node.evaluated_value != "cuda" or not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if arg.keyword is not None:
        return arg.keyword.value == "device"
    is_to = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return len(call.args) == 1 and (is_to or file.qualified(call) == "torch.device")


def varied_device(file: FileFacts, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The destination of a move that is another device in each round of a loop around `node`: `x.to(devices[i])`."""
    loops = file.tree.loops(node)
    for call, destination in moves(loops[-1].body) if loops else ():
        if any(loop in loops for loop in file.tree.loops(call)) and _varies(file, destination, loops, 4):
            return destination
    return None


def _varies(file: FileFacts, node: cst.BaseExpression, loops: Collection[cst.CSTNode], depth: int) -> bool:
    """Whether a device is chosen by what a loop goes over, which is not the batches of a loader."""
    if isinstance(node, cst.Name):
        return any(_is_bound_anew(file, node, definition, loops, depth) for definition in file.flow.definitions(node))
    if isinstance(node, cst.Subscript):
        parts = [part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)]
        return any(_varies(file, part, loops, depth) for part in parts)
    if isinstance(node, cst.Attribute) and node.attr.value == "device":
        return any(_varies(file, model, loops, depth) for model in _models(file, node.value))
    if isinstance(node, cst.Call) and file.qualified(node) == "torch.device":
        return any(_varies(file, arg.value, loops, depth) for arg in node.args)
    if isinstance(node, cst.FormattedString):
        return any(_varies(file, part.expression, loops, depth) for part in _filled(node))
    return False


def _is_bound_anew(
    file: FileFacts, name: cst.Name, definition: Definition, loops: Collection[cst.CSTNode], depth: int
) -> bool:
    """Whether a variable is bound by a loop, or in it to what the loop chooses."""
    if definition.binding is Binding.LOOPED:
        loop = file.tree.parent(definition.node)
        while isinstance(loop, (cst.Tuple, cst.Element)):
            loop = file.tree.parent(loop)
        is_other = not file.value(name).is_tensor
        return is_other and isinstance(loop, cst.For) and loop in loops and file.values.loader_of(loop.iter) is None
    if definition.binding is not Binding.ASSIGNED or definition.value is None or definition.path or not depth:
        return False
    is_inside = any(file.tree.is_within(definition.node, loop) for loop in loops)
    return is_inside and _varies(file, definition.value, loops, depth - 1)


def _models(file: FileFacts, node: cst.BaseExpression) -> Iterator[cst.Name]:
    """The model that an expression takes a parameter from: `next(model.parameters())`, `model.head.weight`."""
    for attribute in find_all(node, cst.Attribute):
        owner: cst.BaseExpression = attribute.value
        is_asked = attribute.attr.value in ("parameters", "weight", "bias") or file.value(owner).kind is Kind.MODULE
        while isinstance(owner, cst.Attribute):
            owner = owner.value
        if is_asked and isinstance(owner, cst.Name):
            yield owner
    if isinstance(node, cst.Name) and file.value(node).kind is Kind.MODULE:
        yield node


def _filled(node: cst.FormattedString) -> Iterator[cst.FormattedStringExpression]:
    return (part for part in node.parts if isinstance(part, cst.FormattedStringExpression))
