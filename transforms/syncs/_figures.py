"""Turning a sum on the device back into the Python number that the code around it expects."""

from __future__ import annotations

import re
import string
from collections.abc import Collection

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.writing import replace

_PERCENT = re.compile(r"%(?:\(\w+\))?[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[hlL]?(.)")
# Formats that show the integer 0 as they show 0.0.
_FORMATS_AS_FLOAT = frozenset("eEfFgG%")


def as_number(
    file: FileFacts, node: cst.BaseExpression, dtype: DType, starts: Collection[DType | None]
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """Edits that read a sum as a number (none where the code does so already), and the imports they need.

    The sum may still be the number that it started with, of one of the types `starts`. Where that may be the
    integer 0 in a sum of floats, and where the difference to 0.0 could be seen, the number is kept as it is.

    Raises:
        CannotRewrite: the read stands where its own text is shown.
    """
    parent = file.tree.parent(node)
    if isinstance(parent, cst.FormattedStringExpression) and parent.equal is not None:
        raise CannotRewrite("an f-string shows the name of the sum")
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if call is not None and file.qualified(call) in ("builtins.float", "builtins.int"):
        return (), ()
    code = file.code(node)
    builtin = number_type(file, node, dtype)
    if dtype is DType.INTEGER or DType.INTEGER not in starts or shows_no_type(file, node):
        return (replace(file.source, node, f"{builtin}({code})"),), ()
    torch, imports = file.names.spelled("torch", node)
    number = f"{torch}.as_tensor({code}).item()"
    if set(starts) != {DType.INTEGER}:
        # `as_tensor` would round a float to 32 bits.
        number = f"({code}.item() if {torch}.is_tensor({code}) else {code})"
    return (replace(file.source, node, number),), imports


def number_type(file: FileFacts, node: cst.CSTNode, dtype: DType) -> str:
    """`int` or `float`. Raises `CannotRewrite` where the code at `node` calls something else so."""
    name = "int" if dtype is DType.INTEGER else "float"
    if file.names.hides_builtin(name, node):
        raise CannotRewrite(f"`{name}` may mean something else than the builtin")
    return name


def shows_no_type(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an integer and the equal float give the same here: it is divided, compared or formatted with a point."""
    current: cst.CSTNode = node
    parent = file.tree.parent(current)
    while isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation)):
        if isinstance(parent, cst.UnaryOperation):
            return False
        if isinstance(parent.operator, cst.Divide):
            return True
        if isinstance(parent.operator, cst.Modulo):
            return parent.right is current and _percent_formats(parent.left, 0, 1)
        other = file.value(parent.right if parent.left is current else parent.left)
        if not isinstance(parent.operator, (cst.Add, cst.Subtract, cst.Multiply)) or other.kind is not Kind.NUMBER:
            return False
        if other.dtype is DType.FLOATING:
            return True
        current, parent = parent, file.tree.parent(parent)
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
        return True
    if isinstance(parent, cst.FormattedStringExpression):
        spec = parent.format_spec or ()
        last = spec[-1] if spec else None
        return (
            parent.conversion is None
            and isinstance(last, cst.FormattedStringText)
            and last.value[-1:] in _FORMATS_AS_FLOAT
        )
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        return isinstance(call, cst.Call) and _str_format_shows_float(call)
    if isinstance(parent, cst.Element):
        values = file.tree.parent(parent)
        operation = file.tree.parent(values) if isinstance(values, cst.Tuple) else None
        return (
            isinstance(values, cst.Tuple)
            and isinstance(operation, cst.BinaryOperation)
            and isinstance(operation.operator, cst.Modulo)
            and operation.right is values
            and _percent_formats(operation.left, values.elements.index(parent), len(values.elements))
        )
    return False


def _percent_formats(text: cst.BaseExpression, index: int, count: int) -> bool:
    if not isinstance(text, (cst.SimpleString, cst.ConcatenatedString)):
        return False
    value = text.evaluated_value
    if not isinstance(value, str):
        return False
    shown = [match for match in _PERCENT.findall(value) if match != "%"]
    return "*" not in value and len(shown) == count and shown[index] in (_FORMATS_AS_FLOAT | {"d", "i"}) - {"%"}


def _str_format_shows_float(call: cst.Call) -> bool:
    func = call.func
    if not (isinstance(func, cst.Attribute) and func.attr.value == "format"):
        return False
    if not isinstance(func.value, (cst.SimpleString, cst.ConcatenatedString)):
        return False
    text = func.value.evaluated_value
    if not isinstance(text, str):
        return False
    fields = [(name, spec, shown) for _, name, spec, shown in string.Formatter().parse(text) if name is not None]
    return all(spec is not None and spec[-1:] in _FORMATS_AS_FLOAT and not shown for _, spec, shown in fields)
