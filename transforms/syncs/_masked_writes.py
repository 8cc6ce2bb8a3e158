"""Writing under a mask without gathering: `t[m] = w[m]` by `torch.where(m, w, t)`, bound to `t` or copied.

The original computes values for the chosen elements only, the rewrite for all of them and drops the rest.
That is the same as long as the dropped ones do nothing: they must not raise, and no inf or NaN among them
may reach a gradient, because a gradient of zero times an infinite derivative is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.endings import catching
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.gradients import cuts_graph, is_floating, may_carry_gradient
from perfmod.transforms.facts.layout import SHOW_LAYOUT
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.writing import call_text

_OPERATORS: dict[type[cst.BaseAugOp], tuple[str, type[cst.BaseBinaryOp]]] = {
    cst.AddAssign: ("+", cst.Add),
    cst.SubtractAssign: ("-", cst.Subtract),
    cst.MultiplyAssign: ("*", cst.Multiply),
    cst.DivideAssign: ("/", cst.Divide),
    cst.FloorDivideAssign: ("//", cst.FloorDivide),
    cst.ModuloAssign: ("%", cst.Modulo),
    cst.BitAndAssign: ("&", cst.BitAnd),
    cst.BitOrAssign: ("|", cst.BitOr),
    cst.BitXorAssign: ("^", cst.BitXor),
}
_BITWISE = (cst.BitAnd, cst.BitOr, cst.BitXor)

# Functions of one element: those whose derivative is a finite constant, and those whose result is exact.
_AFFINE = frozenset(
    {"neg", "negative", "clone", "contiguous", "detach", "float", "double", "half", "bfloat16", "to",
     "type_as"}
)  # fmt: skip
_EXACT = _AFFINE | frozenset(
    {"abs", "sign", "floor", "ceil", "round", "trunc", "relu", "clamp", "clamp_min", "clamp_max", "clip",
     "square", "long", "int", "short", "bool", "logical_not", "isnan", "isinf", "isfinite", "nan_to_num"}
)  # fmt: skip
_SHOW_LAYOUT = SHOW_LAYOUT | {"numpy"}


class CannotWrite(Exception):
    """An assignment that has to gather, with the reason in one line."""


@frozen
class Selection:
    """The elements that an assignment chooses.

    Attributes:
        mask: how the mask is written in the rewritten code.
        selects: whether a subscript picks exactly these elements, in their order.
        covers: whether the target provably has the shape of the mask.
        fits: whether a tensor that is gathered from has it too.
    """

    mask: str
    selects: Callable[[cst.Subscript], bool]
    covers: Callable[[cst.BaseExpression], bool]
    fits: Callable[[cst.BaseExpression], bool]


@frozen
class MaskedWrite:
    """A statement to write instead.

    Attributes:
        text: the statement.
        imports: what it needs, as in `Finding`.
        gathers: the gathers of the original that it does without.
    """

    text: str
    imports: tuple[str, ...]
    gathers: tuple[cst.Subscript, ...]


def masked_write(
    file: FileFacts, statement: cst.Assign | cst.AugAssign, target: cst.Subscript, selection: Selection
) -> MaskedWrite:
    """`target = value` or `target op= value` without gathering, for a target that is a tensor.

    Raises:
        CannotWrite: it would not be the same, or that could not be shown.
    """
    subject = target.value
    name = file.code(subject)
    if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
        raise CannotWrite("the value is assigned to several targets at once")
    lifted = _Lifted(file, selection)
    lifted.visit(statement.value)
    chosen = lifted.text(statement.value)
    if isinstance(statement, cst.AugAssign):
        operator = _OPERATORS.get(type(statement.operator))
        if operator is None:
            raise CannotWrite("the operator is not elementwise")
        lifted.operation(operator[1], subject, statement.value, statement)
        chosen = f"{name} {operator[0]} {atom(statement.value, chosen)}"
    else:
        chosen = _in_type_of(file, subject, statement.value, chosen, computed=bool(lifted.gathers))
    if not selection.covers(subject):
        raise CannotWrite(f"the mask is not known to have the shape of `{name}`, and `torch.where` would broadcast it")
    torch, imports = file.names.spelled("torch", statement)
    arguments = [selection.mask, chosen, name]
    start = file.source.span(statement)[0]
    # An in-place operation computes in the wider type of both sides and writes in that of the target.
    keeps_type = isinstance(statement, cst.Assign) or not lifted.gathers
    if keeps_type and _may_rebind(file, subject):
        text = call_text(file.source, start, f"{name} = {torch}.where", arguments)
    elif _is_repeatable(subject):
        where = f"{torch}.where({', '.join(arguments)})"
        text = call_text(file.source, start, f"{name}.copy_", [where])
    else:
        raise CannotWrite(f"`{name}` would have to be evaluated twice")
    return MaskedWrite(text, imports, tuple(lifted.gathers))


@define
class _Lifted:
    """An expression over chosen elements as one over all: the gathers to cut out."""

    file: FileFacts
    selection: Selection
    gathers: list[cst.Subscript] = field(factory=list)

    def text(self, node: cst.BaseExpression) -> str:
        """The code of the visited expression without its gathers."""
        source = self.file.source
        if node in self.gathers:
            assert isinstance(node, cst.Subscript)
            return source.code(node.value)
        start, end = source.span(node)
        pieces = []
        indexes = ((source.text.index("[", source.whole_span(g.value)[1]), source.span(g)[1]) for g in self.gathers)
        for first, last in sorted(indexes):
            if "#" in source.text[first:last]:
                raise CannotWrite("the index contains a comment, which would be lost")
            pieces.append(source.text[start:first])
            start = last
        return "".join((*pieces, source.text[start:end]))

    def visit(self, node: cst.BaseExpression) -> None:
        """Collect the gathers of a value. Raises `CannotWrite` unless it works on them element by element."""
        value = self.file.value(node)
        if isinstance(node, cst.Subscript) and self.selection.selects(node):
            self._gather(node)
        elif value.kind is Kind.NUMBER:
            return
        elif value.is_tensor and value.rank == 0:
            if may_carry_gradient(self.file, node):
                code = self.file.code(node)
                raise CannotWrite(f"the gradient of `{code}` would be summed in another order")
        elif isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            self.visit(node.expression)
        elif isinstance(node, cst.BinaryOperation):
            self.visit(node.left)
            self.visit(node.right)
            self.operation(type(node.operator), node.left, node.right, node)
        elif isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            self.visit(node.left)
            self.visit(node.comparisons[0].comparator)
        elif isinstance(node, cst.Call):
            self._call(node)
        else:
            raise self._foreign(node)

    def operation(
        self,
        operator: type[cst.BaseBinaryOp],
        left: cst.BaseExpression,
        right: cst.BaseExpression,
        node: cst.CSTNode,
    ) -> None:
        """Check `left operator right`, whose sides were visited."""
        if operator in (cst.Add, cst.Subtract, *_BITWISE):
            return
        divisor = self.file.constants.value(right)
        if operator in (cst.FloorDivide, cst.Modulo) and not divisor:
            raise CannotWrite("dividing integers by zero raises, and elements outside of the mask may be zero")
        if operator is cst.Multiply and (_is_finite(self.file, left) or _is_finite(self.file, right)):
            return
        if operator is cst.Divide and divisor:
            return
        if operator not in (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo):
            raise CannotWrite(f"`{self.file.code(node)}` is not elementwise")
        self._need_no_gradient((left, right))

    def _gather(self, node: cst.Subscript) -> None:
        if not self.selection.fits(node.value):
            code = self.file.code(node.value)
            raise CannotWrite(f"`{code}` is not known to have the shape of the mask")
        self.gathers.append(node)

    def _call(self, node: cst.Call) -> None:
        name = self.file.qualified(node)
        values = [arg.value for arg in node.args]
        if any(arg.star for arg in node.args):
            raise self._foreign(node)
        if name is not None and name.startswith("torch.") and values:
            short = name.removeprefix("torch.nn.functional.").removeprefix("torch.")
            subject, *options = values
        elif name is None and isinstance(node.func, cst.Attribute):
            short, subject, options = node.func.attr.value, node.func.value, values
        else:
            raise self._foreign(node)
        if short == "to" and self.file.values.placement.destination(node) is not None:
            raise self._foreign(node)
        if short not in _EXACT:
            if short in torch_api.ELEMENTWISE:
                raise CannotWrite(f"`{short}` would be computed for all elements, with other gradients and rounding")
            raise self._foreign(node)
        plain = short in ("to", "type_as") or all(self.file.value(o).kind is Kind.NUMBER for o in options)
        if not plain:
            raise self._foreign(node)
        self.visit(subject)
        if short not in _AFFINE:
            self._need_no_gradient((subject,))

    def _need_no_gradient(self, operands: tuple[cst.BaseExpression, ...]) -> None:
        for operand in operands:
            if may_carry_gradient(self.file, operand):
                code = " ".join(self.file.code(operand).split())
                raise CannotWrite(
                    f"`{code}` may need a gradient, which an inf or NaN outside of the mask would turn into NaN"
                )

    def _foreign(self, node: cst.BaseExpression) -> CannotWrite:
        code = " ".join(self.file.code(node).split())
        if self.file.value(node).is_tensor:
            return CannotWrite(f"`{code}` may hold one element for each selected element instead of the full shape")
        return CannotWrite(f"`{code}` is not known to be a number or an elementwise expression")


def _in_type_of(
    file: FileFacts, subject: cst.BaseExpression, value: cst.BaseExpression, text: str, *, computed: bool
) -> str:
    """A value in the type of what it is written to; an assignment never changes the type of its target."""
    wanted, given = file.value(subject).dtype, file.value(value)
    if None not in (wanted, given.dtype) and wanted is not given.dtype:
        raise CannotWrite("the value and the tensor it is assigned to differ in dtype, which raises on CUDA")
    if computed:
        # PyTorch raises unless both have one type, of one width.
        handled = next(catching(file, subject), None)
        if handled is not None and not file.values.uses_one_float():
            code, line = file.code(subject), file.line(handled)
            raise CannotWrite(f"`{code}` may have another dtype, and line {line} handles the exception")
        return text
    if given.device is Device.CPU:
        raise CannotWrite(f"`{text}` is on the CPU, and `torch.where` would wait for its copy")
    # A number without dimensions takes the type of floats that it meets, whatever their width.
    is_float = is_floating(file, subject) and is_floating(file, value)
    if not is_float and (wanted is None or wanted is not given.dtype):
        raise CannotWrite(f"`{text}` and `{file.code(subject)}` are not known to have the same dtype")
    return text


def _may_rebind(file: FileFacts, subject: cst.BaseExpression) -> bool:
    """Whether nobody can tell a new tensor from the old one written in place, not even by its layout."""
    if not isinstance(subject, cst.Name) or not file.aliasing.rebinding_is_unobservable(subject):
        return False
    if cuts_graph(file, subject):
        return False
    uses = (use for definition in file.flow.definitions(subject) for use in file.flow.uses(definition))
    around = (file.tree.parent(use) for use in uses)
    return not any(isinstance(parent, cst.Attribute) and parent.attr.value in _SHOW_LAYOUT for parent in around)


def _is_repeatable(node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression twice gives the same object and does nothing else."""
    if isinstance(node, cst.Subscript):
        constant = (cst.Integer, cst.SimpleString, cst.Ellipsis)
        plain = all(isinstance(e.slice, cst.Index) and isinstance(e.slice.value, constant) for e in node.slice)
        return plain and _is_repeatable(node.value)
    return bool(dotted(node)) or (isinstance(node, cst.Attribute) and _is_repeatable(node.value))


def _is_finite(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a Python number that nothing says is infinite."""
    if file.value(node).kind is not Kind.NUMBER:
        return False
    written = [node]
    if isinstance(node, cst.Name):
        written = [d.value for d in file.flow.definitions(node) if d.value is not None]
    code = " ".join(file.code(part) for part in written).lower()
    return "inf" not in code and "nan" not in code


def atom(node: cst.BaseExpression, text: str) -> str:
    """`text`, the code of `node`, in parentheses unless it binds tighter than any operator."""
    tight = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer, cst.Float)
    if isinstance(node, tight) or (isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.Integer)):
        return text
    return f"({text})"
