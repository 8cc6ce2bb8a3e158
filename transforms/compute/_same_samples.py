"""Transforms of torchvision that make the same sample of a picture every time."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import is_none

_PACKAGE = "torchvision.datasets."
_TO_TENSOR = frozenset({"ToTensor", "PILToTensor", "ToImage"})
_CONVERTS = _TO_TENSOR | {"Normalize", "ConvertImageDtype", "ToDtype"}
_OTHER_TYPES = re.compile(r"\bset_default_(?:dtype|tensor_type)\b")
_DOWNLOADS = frozenset({"mirrors", "resources", "url", "urls", "base_url"})
"""What is set of a data set's class to load its files from elsewhere."""
_REACHES = frozenset({"transform", "transforms", "mean", "std", "size"})
"""Attributes that transforms are held by, and what they hold."""
_READS = frozenset(
    {
        "torch.tensor", "numpy.array", "builtins.print", "builtins.len", "builtins.list", "builtins.tuple",
        "builtins.zip",
    }
)  # fmt: skip
"""What takes numbers out of a list or an array and leaves it as it is."""
_NUMBERS = frozenset(f"builtins.{name}" for name in ("int", "float", "round", "len", "min", "max", "sum", "tuple"))


def is_picture_set(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes one of torchvision's data sets that hold their pictures in memory."""
    name = file.qualified(call) or ""
    return name.startswith(_PACKAGE) and name.removeprefix(_PACKAGE) in data_api.HELD_IN_MEMORY


def require_same_samples(file: FileFacts, call: cst.Call) -> None:
    """Raises `Kept` where a data set may make another sample of the same picture the next time, or no tensor."""
    line = f"of the data set on line {file.line(call)}"
    if not file.is_own(call) or has_star(call):
        raise Kept(f"the arguments {line} are not written out here")
    at = data_api.EIGHT_BIT[file.qualified(call) or ""]
    labels = argument(call, "target_transform", at + 1 if at is not None else None)
    if labels is not None and not is_none(labels):
        raise Kept(f"`{file.code(labels)}` makes the labels {line}")
    given = argument(call, "transform", at)
    ends = file.tracing.ends(given) if given is not None else ()
    if len(ends) != 1 or not isinstance(ends[0].node, cst.Call) or ends[0].path:
        raise Kept(f"the transform {line} is not one that is in sight")
    changed = first_mention(file, _OTHER_TYPES)
    if changed is not None:
        raise Kept(f"samples may get another type later: `{changed[0]}` on {changed[1]}")
    for target in file.tree.all(cst.AssignTarget):
        node = target.target
        owner = file.qualified(node.value) or "" if isinstance(node, cst.Attribute) else ""
        if isinstance(node, cst.Attribute) and owner.startswith("torchvision.") and node.attr.value not in _DOWNLOADS:
            raise Kept(f"line {file.line(node)} changes how torchvision makes samples: `{file.code(node)}`")
    _require_no_writes(file)
    names = _steps(file, ends[0].node)
    if _TO_TENSOR.isdisjoint(names):
        raise Kept(f"the transform {line} makes no tensors")


def _require_no_writes(file: FileFacts) -> None:
    """Raises `Kept` where something writes into an attribute by which transforms, or what they keep, can be reached:
    `test_set.transform.transforms.append(...)` changes the training's samples, too, where the transform is shared.
    """
    for node in file.tree.all_of(cst.AssignTarget, cst.AugAssign, cst.Call):
        into: cst.BaseExpression | None = None
        if isinstance(node, cst.Call):
            func = node.func if isinstance(node.func, cst.Attribute) and file.qualified(node) is None else None
            is_write = func is not None and (func.attr.value in data_api.MUTATORS or func.attr.value.endswith("_"))
            into = func.value if func is not None and is_write else None
        elif isinstance(node, (cst.AssignTarget, cst.AugAssign)):
            into = node.target
        while isinstance(into, (cst.Attribute, cst.Subscript)):
            is_own = isinstance(into.value, cst.Name) and into.value.value == "self"
            if isinstance(into, cst.Attribute) and into.attr.value in _REACHES and not is_own:
                raise Kept(f"line {file.line(node)} may change the transform: `{file.code(file.tree.statement(node))}`")
            into = into.value


def _steps(file: FileFacts, transform: cst.Call) -> list[str]:
    """The transforms that one is made of. Raises `Kept` where one of them may do another thing every time."""
    name = data_api.transform_named(file.qualified(transform) or "")
    line = f"on line {file.line(transform)}"
    steps = argument(transform, "transforms", 0) if name == "Compose" else None
    _require_unchanged(file, transform)
    if steps is None:
        if not name or data_api.is_random_transform(name) or name not in data_api.KEEPS_BYTES | _CONVERTS:
            raise Kept(f"`{file.code(transform)}` {line} may make another sample of the same picture every time")
        for arg in transform.args:
            _require_same_value(file, arg.value)
        return [name]
    found: list[str] = []
    for element in steps.elements if isinstance(steps, (cst.List, cst.Tuple)) else ():
        ends = file.tracing.ends(element.value) if not isinstance(element, cst.StarredElement) else ()
        if len(ends) != 1 or not isinstance(ends[0].node, cst.Call) or ends[0].path:
            raise Kept(f"`{file.code(element)}` {line} may make another sample of the same picture every time")
        found += _steps(file, ends[0].node)
    if not found:
        raise Kept(f"the transforms {line} are not written out")
    return found


def _require_unchanged(file: FileFacts, made: cst.BaseExpression) -> None:
    """Raises `Kept` where a transform, or a list or tensor that one keeps, is used for more than to make transforms."""
    for held in file.handing.uses(made):
        parent = file.tree.parent(held.node)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        name = file.qualified(call) or "" if isinstance(call, cst.Call) else ""
        if not name.startswith("torchvision.") and name not in _READS:
            statement = file.tree.statement(held.node)
            raise Kept(f"line {file.line(statement)} may change the transform: `{file.code(statement)}`")


def _require_same_value(file: FileFacts, value: cst.BaseExpression) -> None:
    """Raises `Kept` where what a transform is made of may be changed later: a list, an array, a tensor."""
    for end in file.tracing.ends(value):
        node = end.node
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                _require_same_value(file, element.value)
        if isinstance(node, cst.Call) and file.qualified(node) in _NUMBERS:
            continue
        if isinstance(node, (cst.List, cst.ListComp, cst.Dict, cst.Call)) and not end.path:
            _require_unchanged(file, node)
