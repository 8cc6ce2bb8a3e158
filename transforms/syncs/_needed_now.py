"""Why a scalar that is read in every step has to be read there."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.syncs._host_reads import HostRead
from perfmod.transforms.syncs._terms import variable_uses


def why_needed(file: FileFacts, read: HostRead) -> str | None:
    """Why a read that feeds no sum has to stay, if it is a usual one; reports are another rule's."""
    places: list[cst.CSTNode] = [read.call, *variable_uses(file, read)]
    for place in places:
        line = file.source.line(place)
        child: cst.CSTNode = place
        for parent in file.tree.ancestors(place):
            if isinstance(parent, (cst.If, cst.While, cst.Assert)) and child is parent.test:
                return f"the figure decides on line {line} how the training goes on"
            if isinstance(parent, cst.Return):
                return f"the figure is returned in every step on line {line}, and the callers may need a number"
            if isinstance(parent, cst.Call) and child is not parent.func:
                reason = _why_metered(file, parent.func)
                if reason is not None:
                    return reason
            if isinstance(parent, cst.BaseSmallStatement):
                break
            child = parent
    return None


def _why_metered(file: FileFacts, func: cst.BaseExpression) -> str | None:
    """Why `meter.update(figure)` has to get a number, where the class of the meter is not known."""
    if isinstance(func, cst.Attribute) and func.attr.value == "update" and file.value(func.value).cls is None:
        code = file.source.code(func)
        return f"what `{code}` does with the figure could not be shown: its class is not in this file"
    return None
