"""The distinct values of a tensor, followed to everything that reads their number: who could do with a
tensor instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.syncs._conditions import shown

_EXTRAS = ("return_inverse", "return_counts", "dim")
_OPERATORS: dict[type[cst.BaseCompOp], tuple[str, str]] = {
    cst.LessThan: ("<", ">"),
    cst.LessThanEqual: ("<=", ">="),
    cst.GreaterThan: (">", "<"),
    cst.GreaterThanEqual: (">=", "<="),
    cst.Equal: ("==", "=="),
    cst.NotEqual: ("!=", "!="),
}
# What a comparison of the count asks of neighbours; `{0}` is the flattened tensor.
_NEIGHBOURS = {
    ("<", 2): "({0}[1:] == {0}[:-1]).all()",
    ("<=", 1): "({0}[1:] == {0}[:-1]).all()",
    (">", 1): "({0}[1:] != {0}[:-1]).any()",
    (">=", 2): "({0}[1:] != {0}[:-1]).any()",
    ("==", 1): "({0}[1:] == {0}[:-1]).all() & ({0}.numel() > 0)",
    ("!=", 1): "({0}[1:] != {0}[:-1]).any() | ({0}.numel() == 0)",
}


class NeedsNumber(Exception):
    """A count that has to be a Python number, or values that are used for more than their number; the reason
    in one line.
    """


@frozen
class Distinct:
    """The distinct values of a tensor: `call` makes them, of `tensor`; a `set` holds them on the host."""

    call: cst.Call
    tensor: cst.BaseExpression
    is_set: bool


def distinct_values(file: FileFacts, call: cst.Call) -> Distinct | None:
    """The values that `torch.unique(t)`, `t.unique()` or `set(t.tolist())` makes of a device tensor."""
    name = file.qualified(call)
    tensor: cst.BaseExpression | None = None
    if name == "torch.unique":
        tensor = argument(call, "input", 0)
    elif name == "builtins.set" and len(call.args) == 1:
        listed = call.args[0].value
        if _is_method(listed, "tolist"):
            assert isinstance(listed, cst.Call)
            assert isinstance(listed.func, cst.Attribute)
            tensor = listed.func.value
    elif name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "unique":
        tensor = call.func.value
    if tensor is None:
        return None
    while (
        isinstance(tensor, cst.Call) and (_is_method(tensor, "cpu") or _is_method(tensor, "detach")) and not tensor.args
    ):
        assert isinstance(tensor.func, cst.Attribute)
        tensor = tensor.func.value
    value = file.value(tensor)
    is_tensor = value.is_tensor or (value.kind is Kind.UNKNOWN and name == "torch.unique")
    if not is_tensor or value.device is Device.CPU:
        return None
    return Distinct(call, tensor, name == "builtins.set")


@define
class Counting:
    """What becomes of the number of some distinct values.

    Attributes:
        variable: the variable that holds the values, if one does.
        counts: the expressions that count them, such as `len(v)`; none where nobody does.
        asked: comparisons that neighbouring elements answer, each with its answer for a tensor `{0}`.
        counted: those of `counts` that are needed as a number on the device.
        compared: comparisons of a variable that holds the number.
        tests: conditions of the host that read an answer.
    """

    _file: FileFacts
    _distinct: Distinct
    variable: Definition | None = field(default=None, init=False)
    counts: list[cst.BaseExpression] = field(factory=list, init=False)
    asked: dict[cst.Comparison, str] = field(factory=dict, init=False)
    counted: list[cst.BaseExpression] = field(factory=list, init=False)
    compared: list[cst.Comparison] = field(factory=list, init=False)
    tests: dict[cst.BaseExpression, None] = field(factory=dict, init=False)

    @classmethod
    def of(cls, file: FileFacts, distinct: Distinct) -> Counting:
        """Follow the values to everything that reads them or their number.

        Raises:
            NeedsNumber: they are counted, but not only that, or the count has to be a Python number.
        """
        counting = cls(file, distinct)
        counting.variable, counting.counts = counting._find_counts()
        for count in counting.counts:
            counting._follow_count(count)
        counting._check_tests()
        return counting

    def joined(self) -> Iterator[cst.BooleanOperation]:
        """Every `and` and `or` that joins answers of the device only."""
        for test in self.tests:
            if self._is_joined(test):
                yield from _operations(test)

    # From the values to their counts

    def _find_counts(self) -> tuple[Definition | None, list[cst.BaseExpression]]:
        """The variable that holds the values, if one does, and every expression that counts them."""
        call = self._distinct.call
        parent = self._file.tree.parent(call)
        if not isinstance(parent, cst.Assign):
            count = self._count_around(call)
            if count is not None:
                self._check_extras()
            return None, [count] if count is not None else []
        first = parent.targets[0].target
        target = first.elements[0].value if isinstance(first, (cst.Tuple, cst.List)) and first.elements else first
        definition = next(
            (
                d
                for d in self._file.flow.bound(self._file.tree.scope(target), getattr(target, "value", ""))
                if d.node is target
            ),
            None,
        )
        if definition is None:
            return None, []
        uses = self._file.flow.uses(definition)
        counts = [self._count_around(use) for use in uses]
        found = [count for count in counts if count is not None]
        if found:
            self._check_extras()
            self._check_variable(parent, definition)
        for use, count in zip(uses, counts, strict=True):
            if found and count is None:
                raise NeedsNumber(f"the values themselves are used on line {self._file.line(use)}")
        return definition, found

    def _check_extras(self) -> None:
        call = self._distinct.call
        if has_star(call) or any(argument(call, name) is not None for name in _EXTRAS):
            given = next((name for name in _EXTRAS if argument(call, name) is not None), "*")
            raise NeedsNumber(f"`{given}`: more than the distinct elements of the tensor is asked for and used")
        if len([arg for arg in call.args if arg.keyword is None]) > 2:
            raise NeedsNumber("more than the distinct elements of the tensor is asked for and used")

    def _check_variable(self, assignment: cst.Assign, definition: Definition) -> None:
        """A variable that only this assignment binds, read only in its own scope and nowhere beside another
        value.
        """
        if len(assignment.targets) > 1 or not isinstance(assignment.targets[0].target, cst.Name):
            raise NeedsNumber(f"`{definition.name}` is bound together with another name")
        for use in self._file.flow.uses(definition):
            line = self._file.line(use)
            if self._file.tree.scope(use) is not definition.scope or definition.binding is not Binding.ASSIGNED:
                raise NeedsNumber(f"`{definition.name}` is used by another function on line {line}")
            if len(self._file.flow.definitions(use)) > 1:
                raise NeedsNumber(f"`{definition.name}` may hold something else where it is used on line {line}")

    def _count_around(self, values: cst.BaseExpression) -> cst.BaseExpression | None:
        """`len(v)`, `torch.numel(v)`, `v.numel()`, `v.nelement()`, `v.shape[0]`, `v.size(0)` around `v`."""
        tree = self._file.tree
        parent = tree.parent(values)
        if isinstance(parent, cst.Arg):
            call = tree.parent(parent)
            counting = {"builtins.len"} if self._distinct.is_set else {"builtins.len", "torch.numel"}
            if isinstance(call, cst.Call) and self._file.qualified(call) in counting and len(call.args) == 1:
                return call
        if self._distinct.is_set or not isinstance(parent, cst.Attribute):
            return None
        around = tree.parent(parent)
        if isinstance(around, cst.Call) and around.func is parent:
            if parent.attr.value in ("numel", "nelement") and not around.args:
                return around
            if parent.attr.value == "size" and len(around.args) == 1 and _is_only_dimension(around.args[0].value):
                return around
        if isinstance(around, cst.Subscript) and parent.attr.value == "shape" and len(around.slice) == 1:
            index = around.slice[0].slice
            if isinstance(index, cst.Index) and _is_only_dimension(index.value):
                return around
        return None

    # From a count to whatever reads it

    def _follow_count(self, count: cst.BaseExpression) -> None:
        parent = self._file.tree.parent(count)
        if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
            comparison = parent if isinstance(parent, cst.Comparison) else self._file.tree.parent(parent)
            assert isinstance(comparison, cst.Comparison)
            question = self._compare(comparison, count)
            if question is None:
                self.counted.append(count)
            else:
                self.asked[comparison] = question
            self._follow_answer(comparison)
            return
        self.counted.append(count)
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            target = parent.targets[0].target
            if isinstance(target, cst.Subscript) and self._is_element_of_tensor(target):
                return
            definition = self._variable(parent, target)
            if definition is not None:
                for use in self._file.flow.uses(definition):
                    self._follow_number(use)
                return
        raise self._needs_number(count, "number")

    def _follow_number(self, use: Read) -> None:
        """A variable that holds the count may be compared, and stored into a tensor."""
        parent = self._file.tree.parent(use)
        if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
            comparison = parent if isinstance(parent, cst.Comparison) else self._file.tree.parent(parent)
            assert isinstance(comparison, cst.Comparison)
            self._compare(comparison, use)
            self.compared.append(comparison)
            self._follow_answer(comparison)
        elif not (
            isinstance(parent, cst.Assign)
            and all(
                isinstance(t.target, cst.Subscript) and self._is_element_of_tensor(t.target) for t in parent.targets
            )
        ):
            raise self._needs_number(use, "number")

    def _compare(self, comparison: cst.Comparison, count: cst.BaseExpression) -> str | None:
        """What to ask of neighbours instead of `comparison`; `None` where the count must be compared."""
        line = self._file.line(comparison)
        if len(comparison.comparisons) > 1:
            raise NeedsNumber(f"the chained comparison on line {line} needs Python integers")
        target = comparison.comparisons[0]
        operators = _OPERATORS.get(type(target.operator))
        counted_left = comparison.left is count
        other = target.comparator if counted_left else comparison.left
        value = self._file.value(other)
        if operators is None or value.kind is not Kind.NUMBER or value.dtype is not DType.INTEGER:
            raise NeedsNumber(
                f"it is compared on line {line} with {shown(self._file, other)}, which is no known integer"
            )
        if not isinstance(other, cst.Integer):
            return None
        return _NEIGHBOURS.get((operators[0 if counted_left else 1], other.evaluated_value))

    def _follow_answer(self, answer: cst.BaseExpression) -> None:
        """The answer may be tested for its truth, and multiply or mask a tensor."""
        tree = self._file.tree
        parent = tree.parent(answer)
        branches = isinstance(parent, (cst.If, cst.IfExp)) and parent.test is answer
        if branches or (isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)):
            self.tests[answer] = None
        elif isinstance(parent, cst.BooleanOperation):
            self._follow_answer(parent)
        elif isinstance(parent, cst.BinaryOperation) and isinstance(
            parent.operator, (cst.Multiply, cst.BitAnd, cst.BitOr)
        ):
            other = parent.right if parent.left is answer else parent.left
            if not self._file.value(other).is_tensor:
                raise self._needs_number(answer, "boolean")
        elif isinstance(parent, cst.Assign):
            definition = self._variable(parent, parent.targets[0].target)
            if definition is None or isinstance(answer, cst.BooleanOperation):
                raise self._needs_number(answer, "boolean")
            for use in self._file.flow.uses(definition):
                self._follow_answer(use)
        else:
            raise self._needs_number(answer, "boolean")

    def _variable(self, assignment: cst.Assign, target: cst.BaseExpression) -> Definition | None:
        if not isinstance(target, cst.Name):
            return None
        bound = self._file.flow.bound(self._file.tree.scope(target), target.value)
        definition = next((d for d in bound if d.node is target), None)
        if definition is not None:
            self._check_variable(assignment, definition)
        return definition

    def _is_element_of_tensor(self, target: cst.Subscript) -> bool:
        """Whether `target` is `t[i]` or `t[i, j]` of a device tensor, where a number and a tensor are stored
        alike.
        """
        base = self._file.value(target.value)
        return (
            base.is_tensor
            and base.device is not Device.CPU
            and all(
                isinstance(part.slice, cst.Index) and self._file.value(part.slice.value).kind is Kind.NUMBER
                for part in target.slice
            )
        )

    def _needs_number(self, node: cst.BaseExpression, kind: str) -> NeedsNumber:
        """Why the consumer of `node` cannot have a tensor."""
        source, tree = self._file.source, self._file.tree
        line = source.line(node)
        noun = "number of values" if kind == "number" else "comparison"
        parent = tree.parent(node)
        if isinstance(parent, cst.Arg):
            call = tree.parent(parent)
            callee = shown(self._file, call.func) if isinstance(call, cst.Call) else "a class"
            return NeedsNumber(f"the {noun} is passed to {callee} on line {line}, which may need a Python integer")
        if isinstance(parent, cst.Return):
            return NeedsNumber(f"the {noun} is returned on line {line}, and callers may need a Python integer")
        if isinstance(parent, cst.FormattedStringExpression):
            return NeedsNumber(f"the {noun} is printed on line {line}, and a tensor prints differently")
        if isinstance(parent, (cst.BinaryOperation, cst.AugAssign)):
            return NeedsNumber(
                f"the {noun} is computed with on line {line}: a tensor of the device may round differently"
            )
        if isinstance(parent, cst.Assert):
            return NeedsNumber(f"the {noun} is asserted on line {line}: the wait is a check")
        if isinstance(parent, cst.While):
            return NeedsNumber(f"the {noun} is tested by the `while` on line {line}, once more for every turn")
        return NeedsNumber(f"the {noun} is used on line {line} where a Python integer may be needed")

    def _check_tests(self) -> None:
        """One test waits as long as `torch.unique` did; a second one, or one in a loop of its own, would add
        a wait.
        """
        tree, source = self._file.tree, self._file.source
        waits = [test for whole in self.tests for test in self._waits(whole)]
        if len(waits) > 1:
            lines = " and ".join(str(source.line(test)) for test in waits)
            raise NeedsNumber(f"it is tested on lines {lines}, and every test would wait anew")
        for test in waits:
            if tree.loops(test) != tree.loops(self._distinct.call):
                raise NeedsNumber(
                    f"it is tested in another loop on line {source.line(test)}, and every test would wait anew"
                )

    def _waits(self, test: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The parts of a test that are read by the host one by one."""
        answers = [leaf for leaf in _leaves(test) if leaf in self.compared or leaf in self.asked]
        return [test] if not answers or self._is_joined(test) else answers

    def _is_joined(self, test: cst.BaseExpression) -> bool:
        """Whether only answers are joined in `test`, so that the device can join them: `&` for `and`, `|`
        for `or`.
        """
        return isinstance(test, cst.BooleanOperation) and all(
            leaf in self.compared or leaf in self.asked for leaf in _leaves(test)
        )


def _leaves(operation: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(operation, cst.BooleanOperation):
        yield from _leaves(operation.left)
        yield from _leaves(operation.right)
    else:
        yield operation


def _operations(whole: cst.BaseExpression) -> Iterator[cst.BooleanOperation]:
    if isinstance(whole, cst.BooleanOperation):
        yield whole
        yield from _operations(whole.left)
        yield from _operations(whole.right)


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _is_only_dimension(node: cst.BaseExpression) -> bool:
    """Whether an index is 0 or -1: the one dimension that distinct values have."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return isinstance(node.expression, cst.Integer) and node.expression.evaluated_value == 1
    return isinstance(node, cst.Integer) and node.evaluated_value == 0
