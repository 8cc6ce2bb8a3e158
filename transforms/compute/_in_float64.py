"""Computing in float64, which a half type must not be put into, and sums in it of what is only reported."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.gradients import may_carry_gradient, runs_without_graph
from perfmod.transforms.facts.tree import find_any, walk_scope

_PARTS = (cst.Name, cst.Attribute)
_BINDS = (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Expr)


def computing_in_float64(file: FileFacts) -> cst.Call | None:
    """The first call in any of the files that makes a tensor of float64 of which a loss or an output may be computed.

    Sums of what a training reports do not count, `total += loss.detach().double()`, as rules write them that read a
    value at the end instead of in every step.
    """
    for call in file.tree.all(cst.Call):
        if _is_float64(file, call) or (
            (value := _called(call, "double")) is not None and not _is_reported(file, call, value)
        ):
            return call
    return None


def _called(node: cst.CSTNode, method: str) -> cst.BaseExpression | None:
    """What a method of this name is called on."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.value if isinstance(func, cst.Attribute) and func.attr.value == method else None


def _is_float64(file: FileFacts, call: cst.Call) -> bool:
    """`torch.zeros(3, dtype=float)` and `x.to(float)`: Python's float is float64."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) and file.qualified(call) is None else ""
    is_tensors = method != "" or (file.qualified(call) or "").startswith("torch.")
    dtype = argument(call, "dtype", 0 if method in ("to", "type") else None)
    is_array = method == "astype"
    return is_tensors and not is_array and dtype is not None and file.qualified(dtype) == "builtins.float"


def _is_reported(file: FileFacts, call: cst.Call, value: cst.BaseExpression) -> bool:
    """Whether a tensor of float64 goes into a sum, or is handed on, that no loss and no result of a function needs."""
    cls = file.classes.around(call)
    if cls is not None and cls.is_module:
        return False
    statement = file.tree.statement(call)
    is_detached = _called(value, "detach") is not None
    is_sum = isinstance(statement, cst.AugAssign) and statement.value is call
    if not (is_detached or is_sum) or may_carry_gradient(file, value) or not isinstance(statement, _BINDS):
        return False
    around = file.tree.function(call) or file.tree.module_of(call)
    inside = list(walk_scope(around.body if isinstance(around, cst.FunctionDef) else around))
    losses = [loss for each in inside if (loss := _called(each, "backward")) is not None]
    needed = {file.code(part) for loss in losses for part in find_any(loss, *_PARTS)}
    if not losses and not (is_sum and runs_without_graph(file, call)):
        results = [each for each in inside if isinstance(each, (cst.Return, cst.Yield))]
        needed |= {file.code(part) for each in results for part in find_any(each, *_PARTS)}
    return needed.isdisjoint(_bound(file, statement)) and not _leads_to(file, statement, inside, needed)


def _leads_to(file: FileFacts, statement: cst.CSTNode, inside: list[cst.CSTNode], needed: set[str]) -> bool:
    """Whether what a statement binds goes into what is needed, by way of other variables."""
    statements = [each for each in inside if isinstance(each, _BINDS)]
    while True:
        makes = [each for each in statements if not needed.isdisjoint(_bound(file, each))]
        if statement in makes:
            return True
        further = {file.code(part) for each in makes for part in find_any(each, *_PARTS)}
        if further <= needed:
            return False
        needed = needed | further


def _bound(file: FileFacts, statement: cst.CSTNode) -> set[str]:
    """The names and attributes that a statement gives a value, or that a method is called on for nothing else."""
    targets: list[cst.BaseExpression] = []
    if isinstance(statement, cst.Assign):
        targets = [part for target in statement.targets for part in _elements(target.target)]
    elif isinstance(statement, (cst.AugAssign, cst.AnnAssign)):
        targets = [statement.target]
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        func = statement.value.func
        targets = [func.value] if isinstance(func, cst.Attribute) else []
    return {file.code(each.value if isinstance(each, cst.Subscript) else each) for each in targets}


def _elements(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _elements(element.value)
    else:
        yield target
