"""What code says itself of the torch that it runs with."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, is_true

LAST_WITH_VECTOR_LOSSES = (0, 3)
"""`loss.data[0]` was the way to read a loss until 0.3. It has no dimension since 0.4, and then this fails or warns.
`Variable(x, volatile=True)` kept the graph away until then, and does nothing since."""

LAST_WITH_FFI = (0, 4)
"""`torch.utils.ffi` made extensions of C code; importing it fails since 1.0."""


def loss_read_as_vector(file: FileFacts) -> cst.Subscript | None:
    """The first `loss.data[0]` of a file, where `loss.backward()` stands in it as well, or `(a + b).data[0]`.

    So does `ssim(x, y).data[0]` where the function in sight may return a mean.
    """
    if ".data[0]" not in file.source.text:
        return None
    trained = {
        dotted(call.func.value)
        for call in find_all(file.source.module, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    }
    for node in find_all(file.source.module, cst.Subscript):
        owner = node.value
        if isinstance(owner, cst.Attribute) and owner.attr.value == "data" and _is_loss(file, owner.value, trained):
            (element, *others) = node.slice
            index = element.slice.value if isinstance(element.slice, cst.Index) else None
            if isinstance(index, cst.Integer) and index.evaluated_value == 0 and not others:
                return node
    return None


def made_volatile(file: FileFacts) -> cst.Call | None:
    """The first `Variable(x, volatile=True)` of a file."""
    if "volatile" not in file.source.text:
        return None
    calls = find_all(file.source.module, cst.Call)
    return next((call for call in calls if dotted(call.func).rpartition(".")[2] == "Variable" and _is_on(call)), None)


def _is_on(call: cst.Call) -> bool:
    value = argument(call, "volatile")
    return is_true(value)


def _is_loss(file: FileFacts, node: cst.BaseExpression, trained: set[str]) -> bool:
    if dotted(node):
        return dotted(node) in trained
    return _may_have_no_dimension(file, node, set())


def _may_have_no_dimension(file: FileFacts, node: cst.BaseExpression, seen: set[cst.FunctionDef]) -> bool:
    value = file.value(node)
    if (value.is_tensor and value.rank == 0) or _is_reduced(node):
        return True
    if isinstance(node, cst.IfExp):
        return any(_may_have_no_dimension(file, part, seen) for part in (node.body, node.orelse))
    function = file.values.calls.resolve(node) if isinstance(node, cst.Call) else None
    if function is None or function in seen:
        return False
    seen.add(function)
    results = (result.value for result in file.tree.results(function) if isinstance(result, cst.Return))
    return any(result is not None and _may_have_no_dimension(file, result, seen) for result in results)


def _is_reduced(node: cst.BaseExpression) -> bool:
    """Whether all of a tensor goes into one number: `x.mean()`."""
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return isinstance(func, cst.Attribute) and func.attr.value in ("mean", "sum")


def in_variable(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a tensor is wrapped in a `Variable` in its expression, which does nothing since 0.4."""
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.BaseSmallStatement):
            return False
        if isinstance(ancestor, cst.Call) and file.qualified(ancestor) == "torch.autograd.Variable":
            return True
    return False


def import_of_ffi(file: FileFacts) -> cst.ImportFrom | None:
    """The first import of `torch.utils.ffi` that nobody would catch, in any of the files that are read together."""
    return file.once(_import_of_ffi)


def _import_of_ffi(file: FileFacts) -> cst.ImportFrom | None:
    for node in file.tree.all(cst.ImportFrom):
        of_ffi = node.module is not None and dotted(node.module) == "torch.utils.ffi"
        if of_ffi and not any(isinstance(each, (cst.Try, cst.FunctionDef)) for each in file.tree.ancestors(node)):
            return node
    return None
