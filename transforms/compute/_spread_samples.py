"""Values whose rows each come from one sample of a batch: what several processes can compute in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.compute._spread_model import is_by_sample
from perfmod.transforms.compute._spread_pairs import may_be_pairs
from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind

_KEEPS_SAMPLES = frozenset(
    {"to", "cuda", "float", "long", "view", "reshape", "squeeze", "unsqueeze", "flatten", "detach", "cpu", "view_as"}
)
_BY_CLASS = frozenset({"argmax", "max", "softmax", "log_softmax"})
"""Operations on the classes of each sample, where they are told so."""
_CLASSES = re.compile(r"(?:dim=)?1(?:, keepdim=True)?")
_COMPARES = frozenset({"eq", "ne", "float", "int", "long", "cpu", "detach"})
_LOSSES = {f"torch.nn.functional.{name}" for name in torch_api.LOSS_FUNCTIONS - {"linear_cross_entropy"}}
_LOSS_MODULES = torch_api.LOSS_MODULES - {"torch.nn.LinearCrossEntropyLoss"}
_UNEVEN = ("weight", "ignore_index", "size_average", "reduce")
"""Settings by which a loss is no plain mean, or may be none."""
_BROADCAST = ("mseloss", "l1loss", "huberloss")
"""Losses that stretch a column and a row to a square, with a warning."""
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)
_SIZE = re.compile(r"\w+\.size\(0\)|\w+\.shape\[0\]|len\(\w+\)")


class Samples:
    """The names of such values, as they are found.

    Attributes:
        names: of values by sample.
        means: of means over samples.
        doubts: what may make pairs of samples, though it does not look like it; by the identity of the code.
    """

    def __init__(self, file: FileFacts, wrapper: cst.Call, names: set[str]) -> None:
        self._file = file
        self._wrapper = wrapper
        self.names = names
        self.means: set[str] = set()
        self.doubts: dict[int, cst.BaseExpression] = {}

    def _are_paired(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Whether each sample of one value meets all those of another; what is not known is a doubt."""
        ranks = self._file.value(left).rank, self._file.value(right).rank
        if None not in ranks:
            return ranks[0] != ranks[1]
        if may_be_pairs(self._file, left, right):
            self.doubts[id(left)] = left
        return False

    def are(self, node: cst.BaseExpression) -> bool:
        """Whether each row of a value comes from one sample alone: batches, and what the model makes of them."""
        if isinstance(node, cst.Name):
            return node.value in self.names
        if isinstance(node, cst.Tuple):
            return all(self.are(element.value) for element in node.elements)
        if isinstance(node, cst.Attribute):
            return node.attr.value == "data" and self.are(node.value)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            key = index.value if isinstance(index, cst.Index) else None
            is_pair = isinstance(key, cst.Integer) and isinstance(node.value, cst.Call) and self._is_pair(node.value)
            return (isinstance(key, cst.SimpleString) or is_pair) and self.are(node.value)
        if not isinstance(node, cst.Call) or has_star(node):
            return False
        func = node.func
        if self._file.qualified(node) in {f"torch.{name}" for name in _BY_CLASS}:
            return bool(node.args) and self.are(node.args[0].value) and self._is_by_class(node.args[1:])
        if isinstance(func, cst.Attribute) and func.attr.value in _BY_CLASS:
            return self.are(func.value) and self._is_by_class(node.args)
        if isinstance(func, cst.Attribute) and func.attr.value in _KEEPS_SAMPLES:
            args = [arg.value for arg in node.args if not self.is_size(arg.value)]
            is_like = func.attr.value == "view_as" and all(map(self.are, args))
            return self.are(func.value) and (is_like or not any(map(self.are_in, args)))
        is_given = isinstance(func, cst.Name) and bool(node.args) and all(self.are(arg.value) for arg in node.args)
        if not is_given or not isinstance(func, cst.Name) or self._file.value(func).kind is not Kind.MODULE:
            return False
        if is_by_sample(self._file, self._wrapper, func):
            return True
        if self._file.value(func).name not in torch_api.LOSS_MODULES:
            raise NotSpread(
                node, f"`{func.value}` is not under the wrapper: it would see a part of the batch, and train on it"
            )
        return False

    def _is_by_class(self, args: Sequence[cst.Arg]) -> bool:
        given = [self._file.code(arg).rstrip(", ") for arg in args]
        return _CLASSES.fullmatch(", ".join(given).replace(" = ", "=")) is not None

    def _is_pair(self, call: cst.Call) -> bool:
        """Whether a call gives values and indices, `out.max(1)`."""
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == "max"

    def are_compared(self, node: cst.BaseExpression) -> bool:
        """Whether a value says something of each sample, so that it can be counted: `out.argmax(1) == y`."""
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            sides = (node.left, node.comparisons[0].comparator)
            return all(map(self.are, sides)) and not self._are_paired(*sides)
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and isinstance(func, cst.Attribute) and func.attr.value in _COMPARES:
            is_test = func.attr.value in ("eq", "ne") and bool(node.args) and self.are(func.value)
            subject = is_test or self.are_compared(func.value)
            is_paired = is_test and self._are_paired(func.value, node.args[0].value)
            return subject and not is_paired and all(self.are(arg.value) for arg in node.args)
        return False

    def is_size(self, node: cst.BaseExpression) -> bool:
        """Whether a value is the number of samples in a process's part: `x.size(0)`, `x.shape[0]`, `len(x)`."""
        is_written = _SIZE.fullmatch(self._file.code(node)) is not None
        return is_written and any(name.value in self.names for name in find_all(node, cst.Name))

    def are_in(self, node: cst.CSTNode) -> bool:
        """Whether an expression mentions samples, or means over them."""
        return any(name.value in self.names | self.means for name in find_all(node, cst.Name))

    def is_mean(self, node: cst.BaseExpression) -> bool:
        """Whether a value is a mean over samples, so that the mean of its values on equal parts is that on all."""
        if isinstance(node, cst.Name):
            return node.value in self.means
        if isinstance(node, cst.BinaryOperation):
            left, right = self.is_mean(node.left), self.is_mean(node.right)
            if isinstance(node.operator, (cst.Add, cst.Subtract)):
                return left and right
            if isinstance(node.operator, cst.Multiply) and left != right:
                factor = node.left if right else node.right
                is_plain = isinstance(factor, (cst.Float, cst.Integer, cst.Name, cst.Attribute))
                return is_plain and not self.are_in(factor)
            return isinstance(node.operator, cst.Divide) and left and isinstance(node.right, (cst.Float, cst.Integer))
        if not isinstance(node, cst.Call) or has_star(node):
            return False
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "mean" and not node.args:
            return self._is_elementwise(node.func.value)
        return self._is_mean_loss(node)

    def _is_mean_loss(self, node: cst.Call) -> bool:
        made = node if self._file.qualified(node) in _LOSSES else self._file.value(node.func).call
        if made is None or (made is not node and self._file.qualified(made) not in _LOSS_MODULES):
            return False
        reduction = argument(made, "reduction")
        is_mean = reduction is None or (
            isinstance(reduction, cst.SimpleString) and reduction.evaluated_value in ("mean", "batchmean")
        )
        is_even = not has_star(made) and not any(argument(made, each) is not None for each in _UNEVEN)
        is_even = is_even and not self._leaves_out_samples()
        positional = [arg for arg in made.args if arg.keyword is None]
        given = [arg.value for arg in node.args if arg.keyword is None or arg.keyword.value in ("input", "target")]
        is_short = len(positional) <= (2 if made is node else 0)
        is_of_samples = is_mean and is_even and is_short and len(given) == 2 and all(map(self.are, given))
        name = self._file.qualified(made) or ""
        is_broadcast = name.lower().replace("_", "").endswith(_BROADCAST)
        return is_of_samples and not (is_broadcast and self._are_paired(*given))

    def _leaves_out_samples(self) -> bool:
        """Whether the script writes -100: losses leave out samples of that class, from their mean, too."""
        return any(self._file.code(node) == "-100" for node in find_all(self._file.tree.module, cst.UnaryOperation))

    def _is_elementwise(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
            sides = (node.left, node.right)
            if all(map(self._is_elementwise, sides)) and self._are_paired(*sides):
                return False
            return any(map(self._is_elementwise, sides)) and all(
                self._is_elementwise(each) or isinstance(each, (cst.Integer, cst.Float)) for each in sides
            )
        return self.are(node)
