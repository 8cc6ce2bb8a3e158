"""Which expressions provably have the same shape.

A shape is a key: two expressions with equal keys have equal shapes whenever both are evaluated. A key names
where the shape comes from (a definition, an attribute) and what was done to it (`flat`, `argmax over dim 1`).
Different keys prove nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.flow import Binding, Definition, Flow
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree
from perfmod.transforms.facts.values import Kind, Values

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


class Shapes:
    """Shape keys of one file's expressions."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._values = values
        self._open: set[Definition] = set()

    def same(self, left: cst.CSTNode, right: cst.CSTNode) -> bool:
        """Whether both expressions provably have the same shape."""
        first = self.key(left)
        return first is not None and first == self.key(right)

    def key(self, node: cst.CSTNode) -> Key | None:
        """Where the shape of an expression comes from; `None` where that cannot be said."""
        if isinstance(node, cst.Name):
            return self._of_name(node)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, cst.UnaryOperation):
            return self.key(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self._broadcast(node.left, node.right)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._broadcast(node.left, node.comparisons[0].comparator)
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Subscript):
            base = self.key(node.value)
            code = self._index_code(node)
            return ("index", code, base) if base is not None and code is not None else None
        if isinstance(node, cst.IfExp):
            return self.key(node.body) if self.same(node.body, node.orelse) else None
        return None

    def _of_name(self, node: cst.Name) -> Key | None:
        definitions = self._flow.definitions(node)
        keys = {self._of_definition(definition) for definition in definitions}
        if len(keys) == 1:
            return keys.pop()
        return ("one of", frozenset(definitions)) if definitions else None

    def _of_definition(self, definition: Definition) -> Key:
        if definition in self._open:
            return definition
        self._open.add(definition)
        try:
            if definition.binding is Binding.ASSIGNED and definition.value is not None and not definition.path:
                return self.key(definition.value) or definition
            if definition.binding is Binding.AUGMENTED:
                statement = self._tree.statement(definition.node)
                if isinstance(statement, cst.AugAssign):
                    # In-place operations keep the shape of tensors.
                    return self.key(statement.target) or definition
            return definition
        finally:
            self._open.discard(definition)

    def _of_attribute(self, node: cst.Attribute) -> Key | None:
        if node.attr.value in ("data", "grad", "real"):
            return self.key(node.value)
        if isinstance(node.value, cst.Name):
            return ("attribute", frozenset(self._flow.definitions(node.value)), node.attr.value)
        base = self._of_attribute(node.value) if isinstance(node.value, cst.Attribute) else None
        return ("attribute", base, node.attr.value) if base is not None else None

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
            if short == "expand_as" and rest:
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
        if short in ("view", "reshape") and len(rest) == 1 and _is_minus_one(rest[0].value):
            return ("flat", base)
        if short in torch_api.ELEMENTWISE:
            tensors = [
                arg.value
                for arg in rest
                if short not in torch_api.CASTS | {"type_as", "softmax", "log_softmax"}
                and self._values.of(arg.value).is_tensor
            ]
            return self._broadcast_all([subject, *tensors]) if tensors else base
        if (
            short
            in torch_api.REDUCTIONS | {"squeeze", "unsqueeze", "transpose", "permute", "view", "reshape", "flatten"}
            and rest
        ):
            code = tuple(self._literal(arg) for arg in rest)
            return (short if short not in torch_api.REDUCTIONS else "reduce", code, base) if None not in code else None
        return None

    def _broadcast_all(self, nodes: list[cst.CSTNode]) -> Key | None:
        tensors = [n for n in nodes if self._values.of(n).kind is not Kind.NUMBER and self._values.of(n).rank != 0]
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
                value = element.slice.value
                if isinstance(value, (cst.Integer, cst.UnaryOperation, cst.Ellipsis)) or (
                    isinstance(value, cst.Name) and value.value == "None"
                ):
                    parts.append(cst.Module([]).code_for_node(value))
                elif isinstance(value, cst.Name):
                    parts.append(frozenset(self._flow.definitions(value)))
                elif isinstance(value, cst.SimpleString):
                    parts.append(value.value)
                else:
                    return None
            elif isinstance(element.slice, cst.Slice):
                bounds = (element.slice.lower, element.slice.upper, element.slice.step)
                codes = [None if b is None else self._literal(cst.Arg(b)) or "?" for b in bounds]
                if "?" in codes:
                    return None
                parts.append(("slice", *codes))
        return tuple(parts)

    def _literal(self, arg: cst.Arg) -> str | None:
        """The code of a constant argument such as `1`, `dim=-1`, `(0, 2)`."""
        node = arg.value
        names = {"True", "False", "None"}
        for part in _parts(node):
            if isinstance(part, cst.Name) and part.value not in names:
                return None
            if isinstance(part, (cst.Call, cst.Attribute, cst.Subscript)):
                return None
        keyword = arg.keyword.value if arg.keyword is not None else "dim"
        return f"{keyword}={cst.Module([]).code_for_node(node)}"


def _parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    found = [node]
    for child in node.children:
        found.extend(_parts(child))
    return found


def _is_minus_one(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.UnaryOperation)
        and isinstance(node.operator, cst.Minus)
        and isinstance(node.expression, cst.Integer)
        and node.expression.value == "1"
    )
