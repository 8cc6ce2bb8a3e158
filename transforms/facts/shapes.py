"""Which expressions provably have the same shape.

A shape is a key: two expressions with equal keys have equal shapes when both are evaluated in the same round of all
loops around them. A key names where the shape comes from (a definition, an attribute) and what was done to it (`flat`,
`argmax over dim 1`). Different keys prove nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.aliasing import Aliasing
from perfmod.transforms.facts.flow import Binding, Definition, Flow
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.ranks import is_minus_one
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.stores import Stores
from perfmod.transforms.facts.tree import Tree, walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.values import Values

Key = Hashable

_LIKE = frozenset(
    {
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "bernoulli",
    }
)
_SIZED = frozenset({"zeros", "ones", "empty", "rand", "randn", "full"})
_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full"})
_IN_PLACE = frozenset(
    {"masked_fill_", "fill_", "zero_", "clamp_", "mul_", "add_", "sub_", "div_", "copy_", "index_fill_"}
)
_RESHAPES = frozenset(
    {
        "unsqueeze_",
        "squeeze_",
        "t_",
        "transpose_",
        "swapaxes_",
        "swapdims_",
        "resize_",
        "resize_as_",
        "set_",
        "as_strided_",
    }
)
# Keyword arguments that broadcast with the subject.
_OPERANDS = frozenset({"other", "exponent", "min", "max", "mask", "value"})


class Shapes:
    """Shape keys of expressions."""

    def __init__(
        self, tree: Tree, flow: Flow, names: Names, values: Values, aliasing: Aliasing, stores: Stores
    ) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._values = values
        self._aliasing = aliasing
        self._stores = stores
        self._keys = Questions[cst.CSTNode, Key | None](values.solver, self._find, None, may_give_up=True)

    def same(self, left: cst.CSTNode, right: cst.CSTNode) -> bool:
        """Whether both expressions provably have the same shape."""
        first = self.key(left)
        return first is not None and first == self.key(right)

    def key(self, node: cst.CSTNode) -> Key | None:
        """Where the shape of an expression comes from; `None` where that cannot be said."""
        return self._keys(node)

    def _find(self, node: cst.CSTNode) -> Key | None:
        if isinstance(node, cst.Name):
            return self._of_name(node)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, cst.UnaryOperation):
            return self.key(node.expression)
        if isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.MatrixMultiply):
            return self._broadcast(node.left, node.right)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._broadcast(node.left, node.comparisons[0].comparator)
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Subscript):
            return self._of_subscript(node)
        if isinstance(node, cst.IfExp):
            return self.key(node.body) if self.same(node.body, node.orelse) else None
        return None

    def _of_name(self, node: cst.Name) -> Key | None:
        definitions = self._flow.definitions(node)
        if not definitions or any(self._changes_elsewhere(definition) for definition in definitions):
            return None
        moment = self._flow.moment(node)
        earlier = self._flow.from_earlier_rounds(node)
        if moment is None and any(self._tree.loops(definition.node) for definition in definitions):
            return ("from outside", frozenset(definitions))
        if not earlier:
            keys = {self._of_definition(definition) for definition in definitions}
            if len(keys) == 1:
                return keys.pop()
        return ("one of", moment or frozenset(definitions))

    def _changes_elsewhere(self, definition: Definition) -> bool:
        """Whether another function binds the name, or the tensor itself is given another shape."""
        if definition.scope is not self._tree.scope(definition.node):
            return True
        parents = (self._tree.parent(use) for use in self._flow.uses(definition))
        return any(
            isinstance(parent, cst.Attribute)
            and (parent.attr.value in _RESHAPES or (parent.attr.value == "data" and self._is_assigned(parent)))
            for parent in parents
        )

    def _is_assigned(self, node: cst.CSTNode) -> bool:
        return isinstance(self._tree.parent(node), cst.AssignTarget)

    def _of_definition(self, definition: Definition) -> Key:
        if definition.part is not None:
            return self.key(definition.part) or definition
        if definition.binding is Binding.AUGMENTED:
            statement = self._tree.statement(definition.node)
            if isinstance(statement, cst.AugAssign) and self._keeps_shape(statement):
                return self.key(statement.target) or definition
        return definition

    def _keeps_shape(self, statement: cst.AugAssign) -> bool:
        """Whether a statement such as `x += y` works in place, as it does on tensors."""
        is_product = isinstance(statement.operator, cst.MatrixMultiplyAssign)
        return self._values.of(statement.target).is_tensor and not is_product

    def _of_attribute(self, node: cst.Attribute) -> Key | None:
        if node.attr.value in ("data", "grad", "real"):
            return self.key(node.value)
        base = self._object(node.value)
        return ("attribute", node.attr.value, base, self._stores.before(node)) if base is not None else None

    def _object(self, node: cst.CSTNode) -> Key | None:
        """Which object an expression is: `self`, `data`, `batch["graph"]`."""
        if isinstance(node, cst.Name):
            return self._flow.moment(node) or frozenset(self._flow.definitions(node)) or None
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        return self._of_item(node) if isinstance(node, cst.Subscript) else None

    def _of_item(self, node: cst.Subscript) -> Key | None:
        code, base = self._index_code(node), self._object(node.value)
        return ("item", code, base, self._stores.before(node)) if None not in (code, base) else None

    def _of_subscript(self, node: cst.Subscript) -> Key | None:
        pair = self._of_pair(node)
        if pair is not None:
            return pair
        if not self._values.of(node.value).is_tensor:
            return self._of_item(node)
        base, code = self.key(node.value), self._index_code(node)
        return ("index", code, base) if base is not None and code is not None else None

    def _of_pair(self, node: cst.Subscript) -> Key | None:
        """Values and indices of `x.max(1)` have the shape of `x.amax(1)`."""
        call, index = node.value, node.slice[0].slice
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and isinstance(index, cst.Index)):
            return None
        if call.func.attr.value not in torch_api.PAIRS_WITH_DIM or self._values.of(call).items is None:
            return None
        return self._of_reduction("amax", call.func.value, list(call.args))

    def _broadcast(self, left: cst.CSTNode, right: cst.CSTNode) -> Key | None:
        first, second = self._values.of(left), self._values.of(right)
        if second.kind is Kind.NUMBER or second.rank == 0:
            return self.key(left)
        if first.kind is Kind.NUMBER or first.rank == 0:
            return self.key(right)
        return self.key(left) if self.same(left, right) else None

    def _of_call(self, call: cst.Call) -> Key | None:
        name = self._names.qualified(call.func)
        if name is not None:
            short = name.removeprefix("torch.nn.functional.").removeprefix("torch.")
            if not name.startswith("torch.") or not call.args:
                return None
            subject: cst.CSTNode = call.args[0].value
            rest = list(call.args[1:])
            if short in _SIZED:
                return self._of_sizes(call, call.args[:1] if short == "full" else call.args)
            if short == "where" and len(call.args) == 3:
                return self._broadcast_all([arg.value for arg in call.args])
        elif isinstance(call.func, cst.Attribute):
            short, subject, rest = call.func.attr.value, call.func.value, list(call.args)
            if short in _NEW:
                return self._of_sizes(call, call.args[:1] if short == "new_full" else call.args)
            if short in ("expand_as", "view_as", "reshape_as") and rest:
                return self.key(rest[0].value)
        else:
            return None
        return self._of_operation(short, subject, rest, call)

    def _of_operation(self, short: str, subject: cst.CSTNode, rest: list[cst.Arg], call: cst.Call) -> Key | None:
        base = self.key(subject)
        if base is None:
            return None
        if short in _IN_PLACE or short in _LIKE:
            return base
        if short in ("flatten", "ravel") and not rest:
            return ("flat", base)
        if short in ("view", "reshape") and len(rest) == 1 and is_minus_one(rest[0].value):
            return ("flat", base)
        if short in torch_api.BROADCASTS:
            operands = [arg.value for arg in rest if arg.keyword is None or arg.keyword.value in _OPERANDS]
            return self._broadcast_all([subject, *operands])
        if short in torch_api.ELEMENTWISE:
            return base
        if short in torch_api.REDUCTIONS:
            return self._of_reduction(short, subject, rest)
        if short in ("squeeze", "unsqueeze", "transpose", "permute", "view", "reshape", "flatten") and rest:
            code = tuple(self._literal(arg) for arg in rest)
            return (short, code, base) if None not in code else None
        return None

    def _of_reduction(self, short: str, subject: cst.CSTNode, rest: list[cst.Arg]) -> Key | None:
        """`x.sum(1)`: the same for every reduction that is given a dimension first."""
        base, code = self.key(subject), tuple(self._literal(arg) for arg in rest)
        is_order = short == "norm" and any(arg.keyword is None for arg in rest)
        is_pair = short in torch_api.PAIRS_WITH_DIM
        if base is None or not rest or None in code or is_order or is_pair or {"dim=True", "dim=False"} & set(code):
            return None
        return ("reduce", code, base)

    def _broadcast_all(self, nodes: list[cst.CSTNode]) -> Key | None:
        no_tensors = (Kind.NUMBER, Kind.NONE, Kind.TEXT)
        tensors = [n for n in nodes if self._values.of(n).kind not in no_tensors and self._values.of(n).rank != 0]
        keys = {self.key(node) for node in tensors}
        return keys.pop() if len(keys) == 1 else None

    def _of_sizes(self, call: cst.Call, sizes: Sequence[cst.Arg]) -> Key | None:
        positional = [arg.value for arg in sizes if arg.keyword is None or arg.keyword.value == "size"]
        if len(positional) == 1:
            size = positional[0]
            if isinstance(size, cst.Attribute) and size.attr.value == "shape":
                return self.key(size.value)
            if (
                isinstance(size, cst.Call)
                and isinstance(size.func, cst.Attribute)
                and size.func.attr.value == "size"
                and not size.args
            ):
                return self.key(size.func.value)
        return None

    def _index_code(self, node: cst.Subscript) -> Hashable | None:
        parts: list[Hashable] = []
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                part = self._index_part(element.slice.value)
                if part is None:
                    return None
                parts.append(part)
            elif isinstance(element.slice, cst.Slice):
                bounds = (element.slice.lower, element.slice.upper, element.slice.step)
                codes = [None if b is None else self._literal(cst.Arg(b)) or "?" for b in bounds]
                if "?" in codes:
                    return None
                parts.append(("slice", *codes))
        return tuple(parts)

    def _index_part(self, node: cst.BaseExpression) -> Hashable | None:
        """What an index is: a constant, or a variable that nobody writes to, `~` before it or not."""
        if isinstance(node, cst.UnaryOperation):
            inner = self._index_part(node.expression)
            return (type(node.operator), inner) if inner is not None else None
        if isinstance(node, (cst.Integer, cst.Ellipsis, cst.SimpleString)):
            return self._tree.code(node)
        if isinstance(node, cst.Name):
            definitions = self._flow.definitions(node)
            if not definitions:
                return node.value
            is_written = self._values.of(node).kind is not Kind.NUMBER and self._aliasing.is_mutated(node)
            return self._flow.moment(node) or frozenset(definitions) if not is_written else None
        return None

    def _literal(self, arg: cst.Arg) -> str | None:
        """The code of a constant argument such as `1`, `dim=-1`, `(0, 2)`."""
        node = arg.value
        names = {"True", "False", "None"}
        for part in walk(node):
            if isinstance(part, cst.Name) and part.value not in names:
                return None
            if isinstance(part, (cst.Call, cst.Attribute, cst.Subscript)):
                return None
        keyword = arg.keyword.value if arg.keyword is not None else "dim"
        return f"{keyword}={self._tree.code(node)}"
