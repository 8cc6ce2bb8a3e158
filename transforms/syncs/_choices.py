"""Whether `torch.where` may choose between expressions of which the original evaluated only one.

Evaluating both must have no effect and raise nothing; they must agree in shape and type, which `where` would
promote; and the gradient must stay what it was. The expression that is not chosen gets a gradient of zero.
Where its derivative may be infinite or NaN, zero times that is NaN; and a tensor that only it reads would
have a gradient of zeros instead of none, with which an optimizer moves parameters that it used to leave
alone. So both expressions must be affine in the same tensors.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.gradients import is_floating, may_carry_gradient, runs_without_graph
from perfmod.transforms.facts.ranks import keyword
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.syncs._conditions import CannotSelect, shown

_RANDOM = frozenset(
    {"rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "dropout",
     "bernoulli", "multinomial", "normal",
     "poisson", "alpha_dropout", "feature_dropout", "rrelu", "gumbel_softmax"}
)  # fmt: skip
_LIKE = frozenset({"zeros_like", "ones_like", "full_like"})
# Derivatives of 0, 1 or -1, whatever the value.
_PIECEWISE_LINEAR = frozenset(
    {
        "neg",
        "clone",
        "contiguous",
        "abs",
        "relu",
        "clamp",
        "clip",
        "clamp_min",
        "clamp_max",
        "nan_to_num",
        "detach",
    }
)
_LINEAR_REDUCTIONS = frozenset({"sum", "mean"})
_ELEMENTWISE = frozenset(
    {"exp", "log", "log1p", "sqrt", "rsqrt", "square", "sigmoid", "tanh", "sin", "cos", "erf",
     "reciprocal", "sign", "round", "floor",
     "ceil", "logical_not", "isnan", "isinf", "isfinite", "softmax", "log_softmax"}
)  # fmt: skip
_BOOLEAN = frozenset({"isnan", "isinf", "isfinite", "logical_not"})
_BOOLEAN_TYPE = "bool"


@frozen
class Arm:
    """What matters of an expression that `torch.where` may choose.

    Attributes:
        dtype: where its type comes from; equal keys are equal types.
        sources: the tensors of the code that a gradient of it reaches, by the way they are written.
    """

    dtype: Hashable
    sources: frozenset[str] = frozenset()


class Choices:
    """Expressions that stand under one branch, `around`, and what choosing among them would change."""

    def __init__(self, file: FileFacts, around: cst.CSTNode) -> None:
        self._file = file
        self._around = around

    def check(self, arms: Sequence[cst.BaseExpression]) -> None:
        """Every arm may be evaluated, and `torch.where` gives what the chosen one gave.

        Raises:
            CannotSelect: that is not so, or could not be shown.
        """
        first, *others = arms
        for arm in arms:
            if self.is_number(arm):
                raise CannotSelect(f"{self._shown(arm)} is a Python number, and the result would be a tensor")
        known = [self.arm(arm) for arm in arms]
        for arm in arms:
            if not self._file.value(arm).is_tensor:
                raise CannotSelect(f"{self._shown(arm)} is not known to be a tensor")
            if self._file.value(arm).device is Device.CPU:
                raise CannotSelect(f"{self._shown(arm)} is on the CPU, and the condition is not")
        for other, seen in zip(others, known[1:], strict=True):
            both = f"{self._shown(first)} and {self._shown(other)}"
            alone = sorted(seen.sources ^ known[0].sources)
            if alone:
                raise CannotSelect(
                    f"the gradient of `{alone[0]}` would be zero instead of None where it is not selected"
                )
            ranks = {self._file.value(arm).rank for arm in (first, other)}
            if ranks != {0} and not self._file.shapes.same(first, other):
                raise CannotSelect(f"{both} are not known to have the same shape")
            if seen.dtype != known[0].dtype:
                raise CannotSelect(f"{both} are not known to have the same dtype")

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a Python number that can be computed without effects, so also where it is
        not needed.
        """
        if isinstance(node, (cst.Integer, cst.Float)):
            return True
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
            return self.is_number(node.expression)
        if isinstance(node, cst.BinaryOperation):
            harmless = isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply))
            return harmless and self.is_number(node.left) and self.is_number(node.right)
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._file.value(node).kind is Kind.NUMBER and self._is_bound(node)
        return False

    def arm(self, node: cst.BaseExpression) -> Arm:
        """What matters of one expression. Raises `CannotSelect` where it must not be evaluated always."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._read(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
            return self.arm(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self.operation(node.operator, node.left, node.right, node)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            for side in (node.left, node.comparisons[0].comparator):
                if not self.is_number(side):
                    self.arm(side)
            return Arm(_BOOLEAN_TYPE)
        if isinstance(node, cst.Call):
            return self._call(node)
        raise self._risky(node)

    def operation(
        self, operator: cst.CSTNode, left: cst.BaseExpression, right: cst.BaseExpression, node: cst.CSTNode
    ) -> Arm:
        """`left operator right`, for `+`, `-`, `*` and `/`, also of an augmented assignment."""
        name = type(operator).__name__.removesuffix("Assign")
        if name not in ("Add", "Subtract", "Multiply", "Divide"):
            raise self._risky(node)
        if self.is_number(right) or self.is_number(left):
            tensor, number = (left, right) if self.is_number(right) else (right, left)
            arm = self.arm(tensor)
            if arm.sources and name in ("Multiply", "Divide"):
                self._need_finite(number, divides=name == "Divide", inverse=tensor is right, node=node)
            return evolve(arm, dtype=self._promoted(tensor, arm.dtype, number, division=name == "Divide"))
        first, second = self.arm(left), self.arm(right)
        if (first.sources or second.sources) and name in ("Multiply", "Divide"):
            raise self._risky(node)
        if not self._scalar_beside(left, right) and not self._file.shapes.same(left, right):
            raise self._risky(node)
        if first.dtype != second.dtype:
            raise CannotSelect(f"the dtype of {self._shown(node)} is not known")
        if name == "Divide" and not is_floating(self._file, left):
            raise CannotSelect(f"the dtype of {self._shown(node)} is not known")
        return Arm(first.dtype, first.sources | second.sources)

    # Leaves

    def _read(self, node: cst.Name | cst.Attribute) -> Arm:
        if isinstance(node, cst.Attribute) and node.attr.value == "data":
            return evolve(self.arm(node.value), sources=frozenset())
        value = self._file.value(node)
        code = self._file.code(node)
        if value.kind is Kind.NUMBER:
            raise CannotSelect(f"{self._shown(node)} is a Python number, and the result would be a tensor")
        if not value.is_tensor:
            raise CannotSelect(f"{self._shown(node)} is not known to be a tensor")
        if not self._is_bound(node):
            raise CannotSelect(f"{self._shown(node)} may be undefined where the branch is not taken")
        carries = not runs_without_graph(self._file, self._around) and may_carry_gradient(self._file, node)
        sources = frozenset({code}) if carries else frozenset()
        if isinstance(node, cst.Name):
            return Arm(frozenset(self._file.flow.definitions(node)), sources)
        base = node.value
        while isinstance(base, cst.Attribute):
            base = base.value
        if not isinstance(base, cst.Name):
            raise self._risky(node)
        return Arm((code, frozenset(self._file.flow.definitions(base))), sources)

    def _call(self, node: cst.Call) -> Arm:
        name = self._file.qualified(node)
        arguments = list(node.args)
        if name is not None and name.startswith("torch."):
            short = name.removeprefix("torch.nn.functional.").removeprefix("torch.")
            subject = arguments.pop(0).value if arguments and arguments[0].keyword is None else None
        elif name is None and isinstance(node.func, cst.Attribute) and self._file.value(node.func.value).is_tensor:
            short, subject = node.func.attr.value, node.func.value
        else:
            raise CannotSelect(f"the branch calls {self._shown(node.func)}, which may do more than compute a tensor")
        if short in _RANDOM:
            raise CannotSelect(
                f"{self._shown(node)} draws random numbers: drawing them in every step changes all later ones"
            )
        if short.endswith("_") or keyword(arguments, "out", "inplace") is not None:
            raise CannotSelect(f"{self._shown(node)} writes in place")
        if subject is None:
            raise self._risky(node)
        arm = self.arm(subject)
        given = [argument.value for argument in arguments]
        if short in _LIKE and keyword(arguments, "dtype", "device") is None and all(map(self.is_number, given)):
            return evolve(arm, sources=frozenset())
        if short in _LINEAR_REDUCTIONS and not arguments and is_floating(self._file, subject):
            return arm
        if short in _PIECEWISE_LINEAR and all(map(self.is_number, given)):
            dtype = arm.dtype
            for number in given:
                dtype = self._promoted(subject, dtype, number, division=False)
            return Arm(dtype, frozenset() if short == "detach" else arm.sources)
        if short in _ELEMENTWISE:
            if arm.sources and short not in _BOOLEAN:
                raise self._risky(node)
            if short in _BOOLEAN:
                return Arm(_BOOLEAN_TYPE)
            if is_floating(self._file, subject) and all(map(self.is_number, given)):
                return arm
        raise self._risky(node)

    # Numbers, types, shapes

    def _need_finite(self, number: cst.BaseExpression, *, divides: bool, inverse: bool, node: cst.CSTNode) -> None:
        value = self._file.constants.value(number)
        is_finite = isinstance(value, (int, float)) and value - value == 0.0
        if (divides and (inverse or value == 0.0)) or not is_finite:
            raise self._risky(node)

    def _promoted(
        self, tensor: cst.BaseExpression, dtype: Hashable, number: cst.BaseExpression, *, division: bool
    ) -> Hashable:
        """The type of `tensor op number`: that of the tensor, unless a float meets integers."""
        if is_floating(self._file, tensor):
            return dtype
        kind = self._file.value(number).dtype
        if kind is DType.INTEGER and not division and self._file.value(tensor).dtype is DType.INTEGER:
            return dtype
        if division or kind is not DType.INTEGER:
            return dtype if isinstance(dtype, tuple) and dtype[0] == "float of" else ("float of", dtype)
        raise CannotSelect(f"the dtype of {self._shown(tensor)} is not known")

    def _scalar_beside(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        return 0 in (self._file.value(left).rank, self._file.value(right).rank)

    # Where names come from

    def _is_bound(self, node: cst.BaseExpression) -> bool:
        """Whether every variable in `node` is bound whenever the branch is reached."""
        return all(self._is_surely_bound(name) for name in find_all(node, cst.Name) if self._file.flow.is_read(name))

    def _is_surely_bound(self, name: cst.Name) -> bool:
        definitions = self._file.flow.definitions(name)
        scope = self._file.tree.scope(name)
        return not definitions or any(d.scope is not scope or self._dominates(d) for d in definitions)

    def _dominates(self, definition: Definition) -> bool:
        """Whether a definition stands in front of the branch, in a block around it, under nothing but
        `with`.
        """
        tree = self._file.tree
        if definition.binding in (Binding.PARAMETER, Binding.IMPORTED):
            return True
        if tree.is_within(definition.node, self._around):
            return True
        enclosing = {self._around, *tree.ancestors(self._around)}
        child = definition.node
        for ancestor in tree.ancestors(definition.node):
            if ancestor in enclosing:
                is_target = isinstance(ancestor, cst.For) and child is ancestor.target
                is_block = isinstance(ancestor, (cst.Module, cst.BaseSuite))
                return is_target or (is_block and self._file.source.span(child) < self._file.source.span(self._around))
            if isinstance(
                ancestor,
                (
                    cst.If,
                    cst.For,
                    cst.While,
                    cst.Try,
                    cst.TryStar,
                    cst.Match,
                    cst.BooleanOperation,
                    cst.IfExp,
                ),
            ):
                return False
            child = ancestor
        return False

    def _risky(self, node: cst.CSTNode) -> CannotSelect:
        return CannotSelect(
            f"{self._shown(node)} would be computed every time, and may raise or give NaN gradients where "
            "the branch was not taken"
        )

    def _shown(self, node: cst.CSTNode) -> str:
        return shown(self._file, node)
