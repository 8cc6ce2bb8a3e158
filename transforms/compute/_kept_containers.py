"""Lists and dictionaries that a step knows: which of them were there before, and where they get other items."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.rounds import runs_model

_MADE_ANEW = (
    cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp, cst.Tuple, cst.BinaryOperation,
)  # fmt: skip
"""Expressions whose value no other name stands for yet."""
_MAKERS = ("builtins.list", "builtins.dict", "builtins.set", "builtins.bytearray", "collections.", "copy.")


def outlives(file: FileFacts, owner: cst.BaseExpression, run: cst.FunctionDef | None) -> bool:
    """Whether an object may have been there before the step: not where each round, or `run` of a function, makes it."""
    if not isinstance(owner, cst.Name):
        return True
    around = file.tree.function(owner)
    loops = set(file.tree.loops(owner)) if run is None else set()
    is_of_module = around is None and not loops
    return is_of_module or not all(
        (d.scope is around or around is None)
        and not isinstance(d.node, cst.Param)
        and loops <= set(file.tree.loops(d.node))
        and d.binding is not Binding.LOOPED
        and not d.path
        and _is_made_anew(file, d.value)
        for d in file.flow.definitions(owner)
    )


def _is_made_anew(file: FileFacts, value: cst.BaseExpression | None) -> bool:
    """Whether an object is made where a name is bound to it, or by the function that is called there."""
    if not isinstance(value, cst.Call):
        return isinstance(value, _MADE_ANEW)
    if (file.qualified(value) or "").startswith(_MAKERS) or file.values.calls.constructed(value) is not None:
        return True
    functions = list(file.values.calls.reached(value))
    ends = [end.node for end in file.tracing.ends(value)] if functions else []
    if ends and all(isinstance(each, _MADE_ANEW) and file.tree.function(each) in functions for each in ends):
        return True
    return not functions and runs_model(file, value)


def fills(file: FileFacts, container: cst.CSTNode) -> bool:
    """Whether a list, a dictionary or a set gets other items at a read of it."""
    method = file.tree.parent(container)
    if not isinstance(method, cst.Attribute) or method.attr.value not in data_api.MUTATORS:
        return False
    call = file.tree.parent(method)
    return method.value is container and isinstance(call, cst.Call) and call.func is method
