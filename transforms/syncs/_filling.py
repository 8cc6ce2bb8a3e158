"""Tensors of one number, written as `zeros`, `ones` or `full` on the device."""

from __future__ import annotations

import math
import struct

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.devices import beside
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._made_on_device import Made, NotFollowed
from perfmod.transforms.syncs._sizes import is_length
from perfmod.transforms.writing import replace

_GIVE_PYTHONS = frozenset({"builtins.len", "builtins.int", "builtins.float", "builtins.bool"})
"""What makes numbers of Python, also of NumPy's."""
_LARGEST_FLOAT = 3.4028234663852886e38
_LARGEST_INTEGER = 2**63 - 1
_SPECIAL = {"math.inf": math.inf, "torch.inf": math.inf, "math.nan": math.nan, "torch.nan": math.nan,
            "math.pi": math.pi, "torch.pi": math.pi, "math.e": math.e}  # fmt: skip


def filled(
    file: FileFacts, made: Made, sizes: tuple[str, ...], number: cst.BaseExpression
) -> tuple[list[Edit], tuple[str, ...]]:
    """Edits that fill a tensor of these sizes with a number, and the imports for them."""
    constant, source = _number(file, number), file.source
    if sizes in ((), ("1",)) and is_written_into(file, made, number):
        return [replace(source, made.whole, file.whole_code(number))], ()
    if made.element is not None:
        sizes = tuple(file.code(arg.value) for arg in made.element.args) if isinstance(made.element, cst.Call) else ()
    torch, imports = file.names.spelled("torch", made.node)
    is_negative_zero = isinstance(constant, float) and math.copysign(1.0, constant) < 0
    function = "full"
    if constant is not None and constant in (0, 1) and not is_negative_zero:
        function = "ones" if constant else "zeros"
    dtype = made.dtype
    is_integer = isinstance(constant, int) or file.value(number).dtype is DType.INTEGER
    if dtype is None and made.like is None:
        if made.is_float and function == "full" and is_integer:
            dtype = f"{torch}.float32"
        elif not made.is_float and (function != "full" or isinstance(made.element, cst.Call)) and is_integer:
            dtype = f"{torch}.{'bool' if isinstance(constant, bool) else 'long'}"
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    given = [shape, file.whole_code(number)] if function == "full" else [*(sizes or ["()"])]
    given += [f"dtype={dtype}"] if dtype is not None and not made.is_said else []
    maker = f"{torch}.{function}"
    if made.like is not None:
        maker, imports = f"{file.code(made.like)}.new_{function}", ()
    if made.moved_to is None:
        data = next(arg for arg in made.node.args if arg.value is made.data)
        edits = [replace(source, made.node.func, maker), replace(source, data, ", ".join(given))]
        if made.element is not None:
            edits.append(Edit(source.span(made.node)[1], source.span(made.element)[1], "", source.path))
        return edits, imports
    if "#" in file.code(made.whole):
        raise NotFollowed("the expression contains a comment")
    device = beside(file, made.data, made.moved_to)
    return [replace(source, made.whole, f"{maker}({', '.join([*given, f'device={device}'])})")], imports


def is_written_into(file: FileFacts, made: Made, number: cst.BaseExpression) -> bool:
    """Whether a number that float32 holds is assigned to elements of a tensor, which take it as it is."""
    constant = _number(file, number)
    if constant is None:
        return False
    target = file.tree.parent(made.whole)
    targets = [each.target for each in target.targets] if isinstance(target, cst.Assign) else []
    is_exact = (
        made.dtype is None and made.like is None and struct.unpack("f", struct.pack("f", constant))[0] == constant
    )
    return is_exact and len(targets) == 1 and isinstance(targets[0], cst.Subscript) and file.value(targets[0]).is_tensor


def may_be_of_numpy(file: FileFacts, made: Made, number: cst.BaseExpression) -> bool:
    """Whether a number may be NumPy's, whose type a tensor takes and `torch.full` does not: what is annotated as
    `float` may be either.
    """
    is_typed = made.dtype is not None or made.like is not None or made.is_float
    return not is_typed and not _is_pythons(file, number)


def _is_pythons(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a number is one of Python's by the code that makes it, whatever is annotated."""
    if _number(file, node) is not None:
        return True
    if isinstance(node, cst.BinaryOperation):
        return _is_pythons(file, node.left) and _is_pythons(file, node.right)
    if isinstance(node, cst.UnaryOperation):
        return _is_pythons(file, node.expression)
    if isinstance(node, cst.Subscript):
        shape = node.value
        return isinstance(shape, cst.Attribute) and shape.attr.value == "shape" and file.value(shape.value).is_tensor
    if isinstance(node, cst.Call):
        name = file.qualified(node) or ""
        is_of_tensor = isinstance(node.func, cst.Attribute) and file.value(node.func.value).is_tensor
        return name in _GIVE_PYTHONS or name.startswith("math.") or is_of_tensor
    if not isinstance(node, cst.Name):
        return False
    made = file.flow.definitions(node)
    return bool(made) and all(_gives_pythons(file, each, node) for each in made)


def _gives_pythons(file: FileFacts, definition: Definition, node: cst.Name) -> bool:
    """Whether a variable is bound to a number of Python: by an assignment, or as the counter of a loop."""
    if definition.binding is Binding.LOOPED:
        counts = {"builtins.range": (), "builtins.enumerate": (0,)}
        looped = file.qualified(definition.value) if isinstance(definition.value, cst.Call) else None
        return counts.get(looped or "") == definition.path
    value = definition.part
    if value is None or any(name.value == node.value for name in find_all(value, cst.Name)):
        return False
    return _is_pythons(file, value)


def with_element(file: FileFacts, made: Made, sizes: tuple[str, ...]) -> Made:
    """The same with `[0]` behind it, which takes the only element, or with `.expand(n)`, which makes more of them."""
    parent = file.tree.parent(made.node)
    if sizes != ("1",) or made.is_trained or made.node.lpar:
        return made
    if isinstance(parent, cst.Attribute) and (several := _several(file, parent)) is not None:
        return evolve(made, element=several)
    if not isinstance(parent, cst.Subscript) or parent.value is not made.node:
        return made
    index = parent.slice[0].slice if len(parent.slice) == 1 else None
    is_first = (
        isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.evaluated_value == 0
    )
    return evolve(made, element=parent) if is_first else made


def _several(file: FileFacts, method: cst.Attribute) -> cst.Call | None:
    """The call of `expand` or `repeat` that makes more of one element, where its arguments are lengths."""
    call = file.tree.parent(method)
    if method.attr.value not in ("expand", "repeat") or not isinstance(call, cst.Call) or call.func is not method:
        return None
    given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    # One argument may be a tuple; several are numbers, of which `expand` takes -1 too.
    are_sizes = len(given) > 1 or all(_is_size(file, each) for each in given)
    is_plain = len(given) == len(call.args) and not any(isinstance(each, cst.UnaryOperation) for each in given)
    return call if given and are_sizes and is_plain and "#" not in file.code(call) else None


def _is_size(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of elements: a count, `x.size(0)` or `x.shape[0]`, by a variable too."""
    if isinstance(node, cst.Name) and (made := file.flow.definitions(node)):
        values = [each.value for each in made if each.value is not None and not each.path]
        is_made = len(values) == len(made) and not any(isinstance(value, cst.Name) for value in values)
        return is_made and all(_is_size(file, value) for value in values)
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute):
        return node.value.attr.value == "shape" and isinstance(node.slice[0].slice, cst.Index)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "size":
        return bool(node.args)
    return isinstance(node, cst.Integer) or is_length(file, node)


def filling(file: FileFacts, data: cst.BaseExpression) -> tuple[tuple[str, ...], cst.BaseExpression] | None:
    """The sizes and the one number of a tensor that can be filled."""
    if isinstance(data, (cst.List, cst.Tuple)) and data.elements:
        parts = [element.value for element in data.elements]
        numbers = [_number(file, part) for part in parts]
        first = numbers[0]
        if any(isinstance(element, cst.StarredElement) for element in data.elements):
            return None
        if len(parts) == 1 and _is_number(file, parts[0]):
            return ("1",), parts[0]
        same = first is not None and all(type(n) is type(first) and str(n) == str(first) for n in numbers)
        return ((str(len(parts)),), parts[0]) if same else None
    if isinstance(data, cst.BinaryOperation) and isinstance(data.operator, cst.Multiply):
        left, right = data.left, data.right
        is_repeated = isinstance(left, cst.List) and len(left.elements) == 1 and is_length(file, right)
        if isinstance(left, cst.List) and is_repeated and _number(file, left.elements[0].value) is not None:
            return (file.code(right),), left.elements[0].value
    return ((), data) if _is_number(file, data) else None


def _is_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python for sure, and one that can be filled in."""
    if _number(file, node) is not None:
        return True
    if isinstance(constant_of(file, node), (int, float)):
        return False  # beyond all ranges
    value = file.value(node)
    return value.kind is Kind.NUMBER and value.dtype is not None


def _number(file: FileFacts, node: cst.BaseExpression) -> float | None:
    """A number that is written down in the code, and that every type holds or rounds in the same way."""
    found = constant_of(file, node)
    if isinstance(found, (bool, tuple)) or found is None:
        return found if isinstance(found, bool) else None
    if isinstance(found, int):
        return found if abs(found) <= _LARGEST_INTEGER else None
    return found if not math.isfinite(found) or abs(found) <= _LARGEST_FLOAT else None


def constant_of(file: FileFacts, node: cst.BaseExpression) -> Constant | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = constant_of(file, node.expression)
        return -inner if isinstance(inner, (int, float)) else None
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return node.value == "True"
    if file.qualified(node) in _SPECIAL and not isinstance(node, cst.Call):
        return _SPECIAL[file.qualified(node) or ""]
    if isinstance(node, cst.Call) and file.qualified(node) == "builtins.float" and len(node.args) == 1:
        text = node.args[0].value
        given = text.evaluated_value if isinstance(text, cst.SimpleString) else None
        try:
            return float(given) if isinstance(given, str) else None
        except ValueError:
            return None
    return file.constants.value(node)


def is_constant_list(file: FileFacts, node: cst.BaseExpression) -> bool:
    if not isinstance(node, (cst.List, cst.Tuple)):
        return False
    parts = [element.value for element in node.elements]
    return all(constant_of(file, part) is not None or is_constant_list(file, part) for part in parts)


def why_no_constant(file: FileFacts, data: cst.BaseExpression) -> str:
    code = " ".join(file.code(data).split())
    if isinstance(data, (cst.List, cst.Tuple)):
        return f"the numbers in `{code[:60]}` may change from step to step"
    return f"`{code[:60]}` is not known to be a number or a constant"
