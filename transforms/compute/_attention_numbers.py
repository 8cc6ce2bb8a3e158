"""The factor of attention's scores: whether it is a number, and whether it is the one that SDPA takes by itself."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.masks import names
from perfmod.transforms.facts.value import Kind

_DEPTH = 8
_NUMBERS = frozenset(
    {"math.sqrt", "math.pow", "numpy.sqrt", "numpy.power", "builtins.float", "builtins.int", "builtins.round"}
)
_ROOTS = frozenset({"math.sqrt", "numpy.sqrt", "torch.sqrt"})
_WRAPS = frozenset({"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "builtins.float", "builtins.int"})
_SETTINGS = frozenset({"config", "cfg", "args", "opt", "options", "hparams", "params", "conf"})


@frozen
class Factor:
    """What scores are multiplied with, or divided by."""

    node: cst.BaseExpression
    divides: bool = False


def is_number(file: FileFacts, node: cst.BaseExpression | None, depth: int = 0) -> bool:
    """Whether an expression is a number of Python as far as the code shows, and no tensor."""
    if node is None or depth > _DEPTH:
        return False
    value = file.value(node)
    if value.kind is not Kind.UNKNOWN:
        return value.kind is Kind.NUMBER
    if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
        return all(is_number(file, part, depth + 1) for part in (node.left, node.right))
    if isinstance(node, cst.UnaryOperation):
        return is_number(file, node.expression, depth + 1)
    if isinstance(node, cst.IfExp):
        return all(is_number(file, part, depth + 1) for part in (node.body, node.orelse))
    if isinstance(node, cst.Call):
        return file.qualified(node) in _NUMBERS or (_is_size(node) and bool(node.args))
    if isinstance(node, cst.Subscript):
        return _is_size(node.value)
    if isinstance(node, cst.Name):
        found = file.flow.definitions(node)
        return bool(found) and all(_binds_number(file, each, depth) for each in found)
    if not isinstance(node, cst.Attribute):
        return False
    own = file.classes.self_attribute(node)
    if own is None:
        return bool(_SETTINGS & set(dotted(node).split(".")[-2:-1]))
    held = own[0].assignments(own[1])
    return bool(held) and all(not each.path and is_number(file, each.value, depth + 1) for each in held)


def _binds_number(file: FileFacts, definition: Definition, depth: int) -> bool:
    if definition.binding is Binding.PARAMETER:
        given = [each for each in file.values.given(definition) if each is not None]
        function = definition.scope
        is_setting = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        if is_setting:
            return not any(file.value(each).is_tensor for each in given)
        return bool(given) and all(is_number(file, each, depth + 1) for each in given)
    if definition.binding is not Binding.ASSIGNED or definition.value is None:
        return False
    part = definition.part
    if part is not None:
        return is_number(file, part, depth + 1)
    return bool(definition.path) and _gives_sizes(definition.value)


def _gives_sizes(node: cst.BaseExpression) -> bool:
    """Whether an expression is a shape, or a tuple that begins with one: `*x.shape, self.heads`."""
    if isinstance(node, cst.Tuple) and isinstance(node.elements[0], cst.StarredElement):
        return _is_size(node.elements[0].value)
    return _is_size(node)


def _is_size(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "size"
    if isinstance(node, cst.Subscript):
        return _is_size(node.value)
    return isinstance(node, cst.Attribute) and node.attr.value == "shape"


def written(file: FileFacts, factors: Sequence[Factor]) -> str:
    """One number for all factors."""
    if not factors:
        return "1.0"
    if len(factors) == 1 and not factors[0].divides:
        return file.code(factors[0].node)
    in_order = list(reversed(factors))
    first, *others = sorted(in_order, key=lambda factor: factor.divides)
    code = f"1 / {_bound(file, first.node)}" if first.divides else _bound(file, first.node)
    return code + "".join(f" {'/' if each.divides else '*'} {_bound(file, each.node)}" for each in others)


def _bound(file: FileFacts, node: cst.BaseExpression) -> str:
    code = file.code(node)
    is_power = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power)
    is_simple = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float))
    return code if is_power or is_simple else f"({code})"


def is_default(file: FileFacts, factors: Sequence[Factor], *operands: cst.BaseExpression) -> bool:
    """Whether the factor is one over the root of the last size of one of the operands."""
    if len(factors) != 1:
        return False
    size = _rooted(file, factors[0].node, inverse=not factors[0].divides)
    return size is not None and any(_is_last_size(file, size, operand) for operand in operands)


def is_root(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is the root of a number, if only as a tensor."""
    return _rooted(file, node, inverse=False) is not None


def _rooted(file: FileFacts, node: cst.BaseExpression, *, inverse: bool) -> cst.BaseExpression | None:
    """`x` where an expression is the root of `x`, or one over it."""
    node = _resolved(file, node)
    if isinstance(node, cst.BinaryOperation):
        exponent = file.constants.value(node.right)
        if isinstance(node.operator, cst.Power) and exponent == (-0.5 if inverse else 0.5):
            return node.left
        if isinstance(node.operator, cst.Divide) and inverse and file.constants.value(node.left) == 1:
            return _rooted(file, node.right, inverse=False)
    is_root = isinstance(node, cst.Call) and file.qualified(node) in _ROOTS and len(node.args) == 1
    return node.args[0].value if is_root and isinstance(node, cst.Call) and not inverse else None


def _resolved(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a variable or an attribute holds that is assigned once, without conversions of numbers around it."""
    for _ in range(_DEPTH):
        inner: cst.BaseExpression | None = None
        if isinstance(node, cst.Name):
            held = file.values.assigned_to(node)
            inner = held[0] if len(held) == 1 else None
        elif isinstance(node, cst.Attribute):
            own = file.classes.self_attribute(node)
            kept = own[0].assignments(own[1]) if own is not None else []
            inner = kept[0].value if len(kept) == 1 and not kept[0].path else None
        elif isinstance(node, cst.Call) and file.qualified(node) in _WRAPS and node.args:
            inner = node.args[0].value
            if isinstance(inner, cst.List) and len(inner.elements) == 1:
                inner = inner.elements[0].value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and file.qualified(node) is None:
            inner = node.func.value if node.func.attr.value in ("to", "cuda") else None
        if inner is None:
            return node
        node = inner
    return node


def _is_last_size(file: FileFacts, size: cst.BaseExpression, operand: cst.BaseExpression) -> bool:
    size = _resolved(file, size)
    subject: cst.BaseExpression | None = None
    if isinstance(size, cst.Call) and isinstance(size.func, cst.Attribute) and size.func.attr.value == "size":
        dim = argument(size, "dim", 0)
        subject = size.func.value if dim is not None and file.constants.value(dim) == -1 else None
    elif isinstance(size, cst.Subscript) and _is_size(size.value) and isinstance(size.slice[0].slice, cst.Index):
        whole = size.value.func if isinstance(size.value, cst.Call) else size.value
        is_last = file.constants.value(size.slice[0].slice.value) == -1
        subject = whole.value if is_last and isinstance(whole, cst.Attribute) else None
    if subject is not None:
        return is_same(file, subject, operand)
    last = _last_written(file, operand)
    return last is not None and is_same(file, size, _resolved(file, last))


def _last_written(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The last size of `x.view(b, t, h, d).transpose(1, 2)`, as it is written down."""
    node = _resolved(file, node)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or not node.args:
        return None
    method, dims = node.func.attr.value, [file.constants.value(arg.value) for arg in node.args]
    if method in ("transpose", "swapaxes") and sorted(map(str, dims)) == ["1", "2"]:
        inner = _resolved(file, node.func.value)
        is_long = isinstance(inner, cst.Call) and len(inner.args) == 4
        return _last_written(file, inner) if is_long else None
    if method == "permute" and dims == [0, 2, 1, 3]:
        return _last_written(file, node.func.value)
    if method in ("view", "reshape") and len(node.args) > 2:
        last = node.args[-1].value
        return last if file.constants.value(last) != -1 else None
    return None


def is_same(file: FileFacts, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
    """Whether two expressions are the same code over the same definitions."""
    if file.code(left) != file.code(right):
        return False
    found = [[file.flow.definitions(name) for name in names(file, each)] for each in (left, right)]
    return found[0] == found[1]
