"""Masks of attention: what a fill or an addition is as `attn_mask`, and whether a mask is the causal one."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._attention_products import Stays, operand
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.value import DType, Kind

_LEAST_FILL = -1e4
"""Nothing is left of its exponential, in float32 either."""
_OPPOSITE: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "!=",
    cst.NotEqual: "==",
    cst.LessThan: ">=",
    cst.GreaterThanEqual: "<",
    cst.GreaterThan: "<=",
    cst.LessThanEqual: ">",
}
_INFINITIES = frozenset({"torch.inf", "math.inf", "numpy.inf", "numpy.Inf", "numpy.infty"})
_DEPTH = 8


@frozen
class Mask:
    """What is added to scores, or tells which of them are filled.

    Attributes:
        node: the tensor.
        hides: whether True in it means that a position is hidden; None where it is added.
        is_finite: whether the fill is a number that only stands for minus infinity.
        test: the condition under which all that happens.
    """

    node: cst.BaseExpression
    hides: bool | None
    is_finite: bool = False
    test: cst.BaseExpression | None = None


def fill(file: FileFacts, node: cst.BaseExpression | None) -> bool | None:
    """Whether what masked scores are filled with is finite; `None` where it does not hide them."""
    if node is None:
        return None
    if isinstance(node, cst.Name):
        held = file.values.assigned_to(node)
        if len(held) == 1:
            return fill(file, held[0])
    number = file.constants.value(node)
    if isinstance(number, (int, float)):
        return True if number <= _LEAST_FILL else None
    sign = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    inner = node.expression if isinstance(node, cst.UnaryOperation) and sign else node
    if file.qualified(inner) in _INFINITIES:
        return False if sign else None
    if isinstance(inner, cst.Attribute) and file.qualified(inner.value) == "torch.finfo":
        return True if inner.attr.value == ("max" if sign else "min") else None
    if isinstance(inner, cst.Call) and inner.args and file.qualified(inner) == "builtins.float":
        text = inner.args[0].value
        said = str(text.evaluated_value).lower() if isinstance(text, cst.SimpleString) else ""
        return False if said in (("inf", "infinity") if sign else ("-inf", "-infinity")) else None
    return None


def written(file: FileFacts, mask: Mask) -> str:
    """A mask as `attn_mask`: True where a position takes part, or what is added."""
    node = mask.node
    code = _inverted(file, node) if mask.hides else file.code(node)
    if mask.test is None:
        return code
    if code == _tested(file, mask.test):
        return code
    return f"{code} if {file.code(mask.test)} else None"


def _tested(file: FileFacts, test: cst.BaseExpression) -> str:
    """`x` of `x is not None`, and of `exists(x)`, as many projects call the same."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        is_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
        return file.code(test.left) if is_none and isinstance(target.operator, cst.IsNot) else ""
    is_call = isinstance(test, cst.Call) and isinstance(test.func, cst.Name) and test.func.value == "exists"
    return file.code(test.args[0].value) if is_call and isinstance(test, cst.Call) and len(test.args) == 1 else ""


def _inverted(file: FileFacts, node: cst.BaseExpression) -> str:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return file.code(node.expression)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        target = node.comparisons[0]
        opposite = _OPPOSITE.get(type(target.operator))
        if opposite is not None:
            is_false = isinstance(target.comparator, cst.Name) and target.comparator.value == "False"
            left = file.whole_code(node.left)
            is_plain = is_false and isinstance(target.operator, cst.Equal)
            return left if is_plain else f"{left} {opposite} {file.whole_code(target.comparator)}"
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and file.qualified(node) is None:
        method, subject = node.func.attr.value, node.func.value
        if method in ("eq", "ne") and len(node.args) == 1:
            other = {"eq": "ne", "ne": "eq"}[method]
            return f"{file.whole_code(subject)}.{other}({file.code(node.args[0].value)})"
        if method == "logical_not":
            return file.whole_code(subject)
    # Bytes were masks once: `~` of 1 is 254.
    if file.values.uses_bytes() and file.value(node).dtype is not DType.BOOL:
        return f"{operand(file, node)} == 0"
    return f"~{operand(file, node)}"


def is_tensor_like(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether what is added to scores may be a mask or a bias: no number."""
    return file.value(node).kind in (Kind.TENSOR, Kind.UNKNOWN)


# The causal mask


def is_causal(file: FileFacts, mask: Mask, query: cst.BaseExpression, key: cst.BaseExpression) -> bool:
    """Whether a mask lets every position see itself and all before it, and queries and keys are as many."""
    if mask.hides is None or mask.test is not None:
        return False
    node, keeps = mask.node, not mask.hides
    while True:
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
            node, keeps = node.expression, not keeps
        elif isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            number = file.constants.value(target.comparator)
            if number not in (0, 1) or not isinstance(target.operator, (cst.Equal, cst.NotEqual)):
                return False
            keeps = keeps == (isinstance(target.operator, cst.Equal) == (number == 1))
            node = node.left
        else:
            break
    if isinstance(node, cst.Subscript):
        if not _is_square(file, node):
            return False
        node = node.value
    return _is_triangle(file, node, keeps=keeps, depth=0) and _same_length(file, query, key)


def _is_square(file: FileFacts, node: cst.Subscript) -> bool:
    """Whether an index cuts the first rows and as many columns: `[:, :, :T, :T]`."""
    parts = [element.slice for element in node.slice]
    uppers: list[str] = []
    for part in parts:
        if isinstance(part, cst.Slice):
            if part.lower is not None or part.step is not None:
                return False
            uppers.append(file.code(part.upper) if part.upper is not None else "")
        elif not isinstance(part, cst.Index) or not isinstance(part.value, (cst.Ellipsis, cst.Name)):
            return False
    return len(uppers) >= 2 and uppers[-1] == uppers[-2] and not any(uppers[:-2])


def _is_triangle(file: FileFacts, node: cst.BaseExpression, *, keeps: bool, depth: int) -> bool:
    """Whether a tensor is one or True exactly where a position takes part (or is hidden, if not `keeps`)."""
    if depth > _DEPTH:
        return False
    held = _held(file, node)
    if held is not None:
        return _is_triangle(file, held, keeps=keeps, depth=depth + 1)
    if isinstance(node, cst.Subscript):
        is_new = all(
            (isinstance(each.slice, cst.Index) and isinstance(each.slice.value, (cst.Ellipsis, cst.Name)))
            or (isinstance(each.slice, cst.Slice) and each.slice.lower is each.slice.upper is None)
            for each in node.slice
        )
        return is_new and _is_triangle(file, node.value, keeps=keeps, depth=depth + 1)
    if not isinstance(node, cst.Call):
        return False
    name = (file.qualified(node) or "").removeprefix("torch.")
    method = node.func.attr.value if not name and isinstance(node.func, cst.Attribute) else ""
    if method in ("view", "reshape"):
        sizes = [file.code(arg.value) for arg in node.args]
        is_square = len(sizes) > 2 and sizes[-1] == sizes[-2] and set(sizes[:-2]) == {"1"}
        return is_square and isinstance(node.func, cst.Attribute) and _inner(file, node.func.value, keeps, depth)
    if method in ("bool", "to", "type", "unsqueeze", "cuda", "float", "byte") and isinstance(node.func, cst.Attribute):
        return _inner(file, node.func.value, keeps, depth)
    wanted = "tril" if keeps else "triu"
    if wanted not in (name, method):
        return False
    args = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != "input"]
    ones = node.args[0].value if name and node.args else getattr(node.func, "value", None)
    diagonal = argument(node, "diagonal", 1 if name else 0)
    offset = file.constants.value(diagonal) if diagonal is not None else 0
    return offset == (0 if keeps else 1) and len(args) <= 2 and ones is not None and _is_ones(file, ones)


def _inner(file: FileFacts, node: cst.BaseExpression, keeps: bool, depth: int) -> bool:
    return _is_triangle(file, node, keeps=keeps, depth=depth + 1)


def _held(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a variable or a buffer holds that is assigned once, and that nobody writes into."""
    if isinstance(node, cst.Name):
        found = file.flow.definitions(node)
        if len(found) != 1 or found[0].binding is not Binding.ASSIGNED or file.aliasing.is_mutated(node):
            return None
        return found[0].part
    own = file.classes.self_attribute(node)
    if own is None or file.classes.assigned_elsewhere(own[1]):
        return None
    kept = own[0].assignments(own[1])
    return kept[0].value if len(kept) == 1 and not kept[0].path else None


def _is_ones(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a square of ones."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and file.qualified(node) is None:
        return node.func.attr.value in ("bool", "to") and _is_ones(file, node.func.value)
    held = _held(file, node)
    if held is not None:
        return _is_ones(file, held)
    if not isinstance(node, cst.Call) or file.qualified(node) != "torch.ones":
        return False
    sizes = [arg.value for arg in node.args if arg.keyword is None or arg.keyword.value == "size"]
    if len(sizes) == 1 and isinstance(sizes[0], (cst.Tuple, cst.List)):
        sizes = [element.value for element in sizes[0].elements]
    codes = [file.code(size) for size in sizes]
    return len(codes) >= 2 and codes[-1] == codes[-2] and set(codes[:-2]) <= {"1"}


def _same_length(file: FileFacts, query: cst.BaseExpression, key: cst.BaseExpression) -> bool:
    """Whether queries and keys are made in the same way, of tensors of one length."""
    first, second = _made(file, query, 0), _made(file, key, 0)
    return first is not None and first == second


def _made(file: FileFacts, node: cst.BaseExpression, depth: int) -> tuple[object, ...] | None:
    """What was done to a tensor since it was computed by a linear layer, or taken out of what was."""
    if depth > _DEPTH:
        return None
    if isinstance(node, cst.Name):
        found = file.flow.definitions(node)
        if len(found) != 1 or found[0].binding is not Binding.ASSIGNED or found[0].value is None:
            return ("variable", found) if found else None
        if found[0].part is not None:
            return _made(file, found[0].part, depth + 1)
        return ("part", found[0].value)
    if isinstance(node, cst.Subscript):
        return ("item", _made(file, node.value, depth + 1)) if file.constants.value(_index(node)) is not None else None
    if not isinstance(node, cst.Call):
        return None
    if file.value(node.func).name == "torch.nn.Linear" and len(node.args) == 1:
        return _made(file, node.args[0].value, depth + 1)
    if not isinstance(node.func, cst.Attribute) or file.qualified(node) is not None:
        return None
    inner = _made(file, node.func.value, depth + 1)
    args = tuple(file.code(arg) for arg in node.args)
    known = node.func.attr.value in ("view", "reshape", "transpose", "permute", "contiguous", "unflatten")
    return (node.func.attr.value, args, inner) if known and inner is not None else None


def _index(node: cst.Subscript) -> cst.BaseExpression:
    part = node.slice[0].slice
    return part.value if isinstance(part, cst.Index) and len(node.slice) == 1 else node


def joined(file: FileFacts, masks: Sequence[Mask]) -> str:
    """Several masks as one. Raises `Stays` where they cannot be put together."""
    codes = [written(file, mask) for mask in masks]
    if len(codes) == 1:
        return codes[0]
    added = [mask.hides is None for mask in masks]
    if any(mask.test is not None for mask in masks) or any(added) != all(added):
        raise Stays("several masks of different kinds are applied, or some only under a condition")
    return " + ".join(codes) if all(added) else " & ".join(_whole(code) for code in codes)


def _whole(code: str) -> str:
    return f"({code})" if " " in code and not code.startswith("~") else code
