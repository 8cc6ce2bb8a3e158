"""Products of attention in one notation: the axes of both factors and of the result, as in an einsum."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts

Axes = tuple[str, ...]
"""The name of each axis; `...` stands for some leading ones."""

REST = "..."


class Other(Exception):
    """No attention, as far as can be seen."""


class Stays(Exception):
    """It is attention, and has to be computed as it is; the message says why."""


_MATRICES = {"matmul": REST, "bmm": "b"}
_SWAPS = frozenset({"transpose", "swapaxes", "swapdims"})
_SIMPLE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


@frozen
class Product:
    """A product of two tensors that sums over an axis.

    Attributes:
        node: it.
        factors: both factors.
        axes: the axes of each.
        result: those of the product.
    """

    node: cst.BaseExpression
    factors: tuple[cst.BaseExpression, cst.BaseExpression]
    axes: tuple[Axes, Axes]
    result: Axes

    def renamed(self, names: dict[str, Axes]) -> Product:
        """The same product with other names for some axes; one may become several."""
        left, right = (_renamed(each, names) for each in self.axes)
        return evolve(self, axes=(left, right), result=_renamed(self.result, names))


def _renamed(axes: Axes, names: dict[str, Axes]) -> Axes:
    return tuple(name for axis in axes for name in names.get(axis, (axis,)))


def product(file: FileFacts, node: cst.CSTNode | None) -> Product | None:
    """The product that an expression is: `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, an einsum of two tensors."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        return _of_matrices(node, node.left, node.right, REST)
    if not isinstance(node, cst.Call) or has_star(node):
        return None
    name = file.qualified(node)
    if name in ("torch.einsum", "torch.functional.einsum", "einops.einsum"):
        return _einsum(node, is_einops=name.startswith("einops"))
    values = [arg.value for arg in node.args]
    if name is None and isinstance(node.func, cst.Attribute) and len(values) == 1:
        rest = _MATRICES.get(node.func.attr.value)
        return _of_matrices(node, node.func.value, values[0], rest) if rest is not None else None
    rest = _MATRICES.get((name or "").removeprefix("torch."))
    return _of_matrices(node, values[0], values[1], rest) if rest is not None and len(values) == 2 else None


def _of_matrices(node: cst.BaseExpression, left: cst.BaseExpression, right: cst.BaseExpression, rest: str) -> Product:
    return Product(node, (left, right), ((rest, "m", "n"), (rest, "n", "o")), (rest, "m", "o"))


def _einsum(call: cst.Call, *, is_einops: bool) -> Product | None:
    values = [arg.value for arg in call.args]
    if is_einops:
        values = [*values[-1:], *values[:-1]]
    if len(values) == 2 and isinstance(values[1], (cst.Tuple, cst.List)):
        values = [values[0], *(element.value for element in values[1].elements)]
    if len(values) != 3 or not isinstance(values[0], cst.SimpleString):
        return None
    left, comma, rest = str(values[0].evaluated_value).partition(",")
    right, arrow, result = rest.partition("->")
    if not comma or not arrow:
        return None
    axes = [_axes(text, is_einops=is_einops) for text in (left, right, result)]
    is_plain = all(len(set(each)) == len(each) and REST not in each[1:] for each in axes)
    return Product(call, (values[1], values[2]), (axes[0], axes[1]), axes[2]) if is_plain else None


def _axes(text: str, *, is_einops: bool) -> Axes:
    if is_einops:
        return tuple(text.split())
    text = text.replace(" ", "")
    return (REST, *text.removeprefix(REST)) if text.startswith(REST) else tuple(text)


def permuted(file: FileFacts, call: cst.Call, axes: Axes) -> Axes | None:
    """The axes of `x.transpose(1, 2)` and `x.permute(0, 2, 1)`, where `x` has `axes`; `None` for other calls."""
    if file.qualified(call) is not None or not isinstance(call.func, cst.Attribute):
        return None
    numbers = [file.constants.value(arg.value) for arg in call.args]
    dims = [int(each) for each in numbers if isinstance(each, (int, float))]
    if len(dims) != len(numbers):
        return None
    if call.func.attr.value in _SWAPS and len(dims) == 2:
        if REST in axes and {*dims} != {-1, -2}:
            return None
        found = list(axes)
        found[dims[0]], found[dims[1]] = axes[dims[1]], axes[dims[0]]
        return tuple(found)
    if call.func.attr.value != "permute" or len(dims) < 3:
        return None
    leading = tuple(f"{REST}{index}" for index in range(len(dims) - 2))
    axes = (*leading, *axes[1:]) if axes[0] == REST else axes
    if len(axes) != len(dims) or sorted(dim % len(dims) for dim in dims) != list(range(len(dims))):
        return None
    found = [axes[dim] for dim in dims]
    return tuple([REST, *found[-2:]] if tuple(found[:-2]) == leading else found)


def laid_out(file: FileFacts, node: cst.BaseExpression, axes: Axes, wanted: Axes) -> str | None:
    """The code of a tensor with its axes in the order `wanted`; `None` where that takes more than a permutation."""
    change = permutation(axes, wanted)
    if change is None:
        return None
    if change == _LAST_TWO:
        inner = untransposed(file, node, len(axes) if REST not in axes else None)
        if inner is not None:
            return file.whole_code(inner)
    return file.whole_code(node) if not change else f"{operand(file, node)}{change}"


def operand(file: FileFacts, node: cst.BaseExpression) -> str:
    """The code of an expression as something that a method can be called on."""
    code = file.whole_code(node)
    return code if isinstance(node, _SIMPLE) or node.lpar else f"({code})"


_LAST_TWO = ".transpose(-2, -1)"


def permutation(axes: Axes, wanted: Axes) -> str | None:
    """The method call that brings axes into another order; empty where they are."""
    if axes == wanted:
        return ""
    if sorted(axes) != sorted(wanted) or (REST in axes and not axes[0] == wanted[0] == REST):
        return None
    moved = [index for index, axis in enumerate(axes) if wanted[index] != axis]
    if moved == [len(axes) - 2, len(axes) - 1]:
        return _LAST_TWO
    if REST in axes:
        return None
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(str(axes.index(axis)) for axis in wanted)})"


def untransposed(file: FileFacts, node: cst.BaseExpression, rank: int | None) -> cst.BaseExpression | None:
    """`k` of `k.transpose(-2, -1)`, `k.mT` and other spellings for a tensor whose last two axes are swapped."""
    if isinstance(node, cst.Attribute) and node.attr.value == "mT":
        return node.value
    if not isinstance(node, cst.Call) or has_star(node):
        return None
    name = file.qualified(node)
    if name is None and isinstance(node.func, cst.Attribute):
        method, subject, args = node.func.attr.value, node.func.value, node.args
    elif (name or "").startswith("torch.") and node.args:
        method, subject, args = (name or "").removeprefix("torch."), node.args[0].value, node.args[1:]
    else:
        return None
    dims = tuple(file.constants.value(arg.value) for arg in args)
    if method == "permute":
        return subject if dims in ((0, 2, 1), (0, 1, 3, 2)) else None
    rank = rank or file.value(subject).rank
    last = {(-2, -1), (2, 3)} | ({(1, 2)} if rank == 3 else set())
    is_last = dims in last or tuple(reversed(dims)) in last
    return subject if method in _SWAPS and is_last and rank in (None, 3, 4) else None


def is_transposed(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor is shown to be turned: in place, or where the one variable that holds it is assigned."""
    if untransposed(file, node, None) is not None:
        return True
    values: Sequence[cst.BaseExpression] = file.values.assigned_to(node)
    turns = ("permute", "transpose", "rearrange", "mT", "swapaxes")
    return any(any(f"{turn}" in file.code(value) for turn in turns) for value in values)
