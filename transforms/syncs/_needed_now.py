"""Why a scalar that is read in every step has to be read there."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Device
from perfmod.transforms.syncs._host_reads import HostRead, host_read, is_differentiated
from perfmod.transforms.syncs._terms import variable_uses

# Methods that put what they are given into a list, a deque or a set.
_COLLECTS = frozenset({"add", "append", "appendleft", "extend", "insert"})

# Methods that change a tensor by a number.
_ADDS = frozenset({"add_", "sub_", "mul_", "div_", "fill_"})


def why_needed(file: FileFacts, read: HostRead) -> str | None:
    """Why a read that feeds no sum has to stay, if it is a usual one; reports are another rule's."""
    places: list[cst.CSTNode] = [read.call, *variable_uses(file, read)]
    for place in places:
        line = file.line(place)
        child: cst.CSTNode = place
        for parent in file.tree.ancestors(place):
            if isinstance(parent, (cst.If, cst.While, cst.Assert)) and child is parent.test:
                return f"the figure decides on line {line} how the training goes on"
            if isinstance(parent, cst.Return):
                return f"the figure is returned in every step on line {line}, and the callers may need a number"
            if isinstance(parent, cst.Call) and child is not parent.func:
                reason = (
                    _why_metered(file, parent.func)
                    or _why_collected(file, parent.func, line)
                    or (_why_added(file, parent.func, line) if getattr(child, "value", None) is read.call else None)
                )
                if reason is not None:
                    return reason
            if isinstance(parent, cst.AugAssign) and isinstance(child, (cst.List, cst.Tuple)):
                return f"`{file.code(parent.target)}` is extended by more than one figure on line {line}"
            if isinstance(parent, cst.Assign) and child is parent.value:
                reason = _why_carried(file, parent, line)
                if reason is not None:
                    return reason
            if isinstance(parent, cst.BaseSmallStatement):
                break
            child = parent
    return None


def why_array(file: FileFacts, node: cst.Call) -> str | None:
    """Why `loss.detach().cpu().numpy()` has to stay, if `node` is such a read of a scalar of the device."""
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "numpy" or node.args:
        return None
    parent = file.tree.parent(node)
    around = file.tree.parent(parent) if isinstance(parent, (cst.Attribute, cst.Arg)) else None
    if isinstance(around, cst.Call) and host_read(file, around) is not None:
        return None
    tensor: cst.BaseExpression = node.func.value
    while True:
        inner = tensor.func if isinstance(tensor, cst.Call) and not tensor.args else tensor
        if not isinstance(inner, cst.Attribute) or inner.attr.value not in ("cpu", "detach", "data", "clone"):
            break
        tensor = inner.value
    value, trained = file.value(tensor), is_differentiated(file, tensor)
    if not trained and not (value.is_tensor and value.rank == 0 and value.device is not Device.CPU):
        return None
    return "NumPy adds the figure up in 32 or in 64 bits, depending on its version"


def _why_collected(file: FileFacts, func: cst.BaseExpression, line: str) -> str | None:
    """Why `figures.append(figure / count)` has to get a number."""
    if isinstance(func, cst.Attribute) and func.attr.value in _COLLECTS:
        code = file.code(func)
        return f"`{code}` on line {line} keeps the figure, and only `append` of the read itself is followed"
    return None


def _why_added(file: FileFacts, func: cst.BaseExpression, line: str) -> str | None:
    """Why `total.add_(figure)` has to get a number."""
    if isinstance(func, cst.Attribute) and func.attr.value in _ADDS:
        code = file.code(func)
        return f"`{code}` on line {line} takes a number where a tensor may be of another type or on another device"
    return None


def _why_carried(file: FileFacts, statement: cst.Assign, line: str) -> str | None:
    """Why a figure that is mixed into what was there before has to be a number; `None` for other assignments."""
    targets = [file.code(part) for target in statement.targets for part in _parts(target.target)]
    places = (cst.Name, cst.Attribute, cst.Subscript)
    parts = (node for node in walk(statement.value) if isinstance(node, places))
    # `mean` of `out.mean()` is no variable.
    read = {file.code(node) for node in parts if not isinstance(node, cst.Name) or file.flow.is_read(node)}
    carried = next((target for target in targets if target in read), None)
    return f"what `{carried}` becomes on line {line} is more than a sum that the figure goes into" if carried else None


def _parts(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [part for element in target.elements for part in _parts(element.value)]
    return [target]


def _why_metered(file: FileFacts, func: cst.BaseExpression) -> str | None:
    """Why `meter.update(figure)` has to get a number, where the class of the meter is not known."""
    if isinstance(func, cst.Attribute) and func.attr.value == "update" and file.value(func.value).cls is None:
        code = file.code(func)
        return f"what `{code}` does with the figure could not be shown: which class it is of is not seen"
    return None
